"""Captures of each kind that a page is made of, and their pages, each made once."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from recorded import ROOT, run_folder
from tiny_export import call, write

from nsyswrap.api import CaptureReader, open_capture
from nsyswrap.render.page import render

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Captures = Callable[[str], dict[str, CaptureReader]]
    PageOf = Callable[[str], Path]

MANY = 100_000  # kernels
RECORDED = {
    "one launch": ("add/1x1",),
    "two GPUs": ("ddp/even",),
    "NVTX only": ("nvtx/host",),
    "side by side": ("add2/both", "add2/none"),
}


@pytest.fixture(scope="session")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Captures:
    """The captures of a kind, by label."""
    scratch = tmp_path_factory.mktemp("captures")
    known: dict[str, dict[str, CaptureReader]] = {}

    def opened(kind: str) -> dict[str, CaptureReader]:
        if kind not in known:
            known[kind] = {path.stem: open_capture(path) for path in _paths(kind, scratch)}
        return known[kind]

    return opened


@pytest.fixture(scope="session")
def page_of(captures: Captures, tmp_path_factory: pytest.TempPathFactory) -> PageOf:
    """The file that holds the page of a kind."""
    folder = tmp_path_factory.mktemp("pages")

    def made(kind: str) -> Path:
        path = folder / f"{kind}.html"
        if not path.exists():
            path.write_text(render(captures(kind)), encoding="utf-8")
        return path

    return made


def _paths(kind: str, scratch: Path) -> list[Path]:
    if kind in RECORDED:
        return [run_folder(name, scratch) for name in RECORDED[kind]]
    path = scratch / f"{kind}.sqlite"
    if kind == "many":
        maker = ROOT / "tests" / "bench" / "make_export.py"
        made = [str(MANY), "1", "300"]  # kernels, seed, names
        subprocess.run([sys.executable, maker, path, *made], check=True, cwd=ROOT)
    else:
        write(path, call("cudaFree", 0, 50), call("cudaGetDevice", 60, 70))
    return [path]
