"""What can be known of building PyTorch extensions without PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nsyswrap.errors import Unavailable
from nsyswrap.torch_extension import build_name, load

if TYPE_CHECKING:
    from pathlib import Path


def test_builds_that_differ_get_folders_of_their_own(tmp_path: Path) -> None:
    source, header = tmp_path / "a.cu", tmp_path / "a.h"
    source.write_text("kernel", encoding="utf-8")
    header.write_text("header", encoding="utf-8")
    name = build_name("add2", "2.1.0+cu121", "3.10", (9, 0), [source, header])
    assert name.startswith("add2-torch2.1.0+cu121-python3.10-sm90-")
    assert build_name("add2", "2.1.0+cu121", "3.10", (9, 0), [header, source]) == name
    header.write_text("another", encoding="utf-8")
    assert build_name("add2", "2.1.0+cu121", "3.10", (9, 0), [source, header]) != name


def test_what_is_no_library_is_told() -> None:
    with pytest.raises(Unavailable, match=r"add2\.txt is no extension module"):
        load("add2", "add2.txt")
