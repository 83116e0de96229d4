"""Long garbage collections are marked with their duration, and nothing else of the collector changes."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from conftest import Cli

import nsyswrap
from nsyswrap.analysis.advice.host import collections_of, garbage_traced
from nsyswrap.analysis.nvtx_ranges import closed_ranges
from nsyswrap.api import open_capture
from nsyswrap.capture.schema import PROCESS_MASK

HOOK = Path(nsyswrap.__file__).parent / "record" / "in_program" / "hook"
PROGRAM = """
import gc, time
gc.disable()
kept = [[number] for number in range(400_000)]
took = []
for _ in range(3):
    began = time.monotonic_ns()
    gc.collect()
    took.append(time.monotonic_ns() - began)
gc.collect(0)  # nothing is young: far below 0.1 ms
print(len(gc.callbacks), *took)
"""


def test_nsys_records_long_collections(cli: Cli, nsys: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    options = ("--no-stats", "--nsys", nsys, "-o", "run", "--trace", "cuda,nvtx,python-gc")
    done = cli("profile", *options, "program.py")
    callbacks, *took = map(int, done.stdout.splitlines()[0].split())
    assert callbacks == 1
    whole = open_capture(tmp_path / "run").whole
    assert garbage_traced(whole)
    [process] = np.unique(whole.columns("nvtx", "global_tid")["global_tid"] & PROCESS_MASK).tolist()
    start, end = collections_of(whole, process)
    marked = np.sort(end - start)[-3:]
    assert (marked <= np.sort(took)).all()
    assert (marked >= 0.5 * np.sort(took)).all()
    assert not len(closed_ranges(whole)[0])  # marks are no ranges that could be taken for steps


def test_a_program_without_python_has_no_collections(cli: Cli, nsys: str) -> None:
    options = ("--no-stats", "--nsys", nsys, "-o", "run", "--trace", "nvtx,python-gc")
    done = cli("profile", *options, "true")
    assert "no garbage collections are marked: no Python loaded nsyswrap's hook" in done.stderr


def test_without_a_tool_nothing_is_watched(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(HOOK), "NSYSWRAP_HOOK_GC": "1"}
    command = [sys.executable, "-c", "import gc; print(gc.callbacks)"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
