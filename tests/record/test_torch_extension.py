"""What can be known of building PyTorch extensions without PyTorch."""

import pytest

from nsyswrap.base.errors import Unavailable
from nsyswrap.record.in_program.torch_extension import build_name, load


def test_builds_that_differ_get_folders_of_their_own() -> None:
    files = {"a.cu": b"kernel", "a.h": b"header"}
    name = build_name("add2", "2.1.0+cu121", "3.10", (9, 0), files)
    assert name.startswith("add2-torch2.1.0+cu121-python3.10-sm90-")
    assert build_name("add2", "2.1.0+cu121", "3.10", (9, 0), dict(reversed(files.items()))) == name
    assert build_name("add2", "2.1.0+cu121", "3.10", (9, 0), {**files, "a.h": b"another"}) != name


def test_what_is_no_library_is_told() -> None:
    with pytest.raises(Unavailable, match=r"add2\.txt is not an extension module"):
        load("add2", "add2.txt")
