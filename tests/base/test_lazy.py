"""Modules that are imported when they are first used."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from nsyswrap.base.lazy import lazy_imports

with lazy_imports():
    import colorsys
    import nothing_of_this_name
    from xml.etree import ElementTree

assert "colorsys" not in sys.modules and "xml" not in sys.modules
import wave  # an ordinary import afterwards
assert "wave" in sys.modules
assert colorsys.rgb_to_hsv(0, 0, 1)[2] == 1 and "colorsys" in sys.modules
assert ElementTree.fromstring("<a/>").tag == "a"
try:
    nothing_of_this_name.x
except ModuleNotFoundError as error:
    print(error)
"""
OTHER = """
import sys, importlib
from nsyswrap.base.lazy import lazy_imports

with lazy_imports():
    other = importlib.import_module("imports_wave")
    import colorsys
assert "wave" in sys.modules and "colorsys" not in sys.modules
"""
NUMPY = """
import os
from nsyswrap.base.lazy import import_numpy_without_threads

before = list(os.environ.items())
import_numpy_without_threads()
import numpy
with open("/proc/self/status") as status:
    print(*(line.split()[1] for line in status if line.startswith("Threads:")))
assert list(os.environ.items()) == before
os.execv("/bin/sh", ["sh", "-c", "echo threads=$OPENBLAS_NUM_THREADS"])
"""


def _run(program: str, folder: Path) -> tuple[str, str]:
    command = [sys.executable, "-c", f"import sys; sys.path.append({str(folder)!r})\n{program}"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    return ran.stdout, ran.stderr


def test_a_module_is_imported_at_its_first_use(tmp_path: Path) -> None:
    assert _run(PROGRAM, tmp_path) == ("No module named 'nothing_of_this_name'\n", "")


def test_another_module_imports_as_ever_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "imports_wave.py").write_text("import wave\n")
    assert _run(OTHER, tmp_path) == ("", "")


@pytest.mark.parametrize("own", ["", "2"])
def test_numpy_starts_no_threads_and_no_program_sees_how(
    own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", own)
    if not own:
        monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    printed, errors = _run(NUMPY.replace("print(*", "print(flush=True, *"), tmp_path)
    assert errors == ""
    threads, told = printed.splitlines()
    assert told == f"threads={own}"
    assert own or threads == "1"
