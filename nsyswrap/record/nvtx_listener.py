"""The library that times NVTX ranges in a run without nsys: compiled at its first use, and what it wrote."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from operator import sub
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from nsyswrap.base import paths
from nsyswrap.base.bare_run import RangeTimes
from nsyswrap.base.errors import CompileFailed, Unavailable
from nsyswrap.base.run_folder import cache_dir
from nsyswrap.base.run_tool import fault_of, run_tool

if TYPE_CHECKING:
    from collections.abc import Iterable

LIBRARY = "NVTX_INJECTION64_PATH"  # NVTX loads this library
TIMES = "NSYSWRAP_NVTX_TIMES"  # beginning of the files that the library writes
SOURCE = Path(__file__).parent / "in_program" / "nvtx_times.c"
_COMPILERS = ("cc", "gcc", "clang")
_FLAGS = ("-O2", "-shared", "-fPIC", "-pthread")
_TIMEOUT_S = 300
_FIELDS = 4  # of a line: thread, start, end and name
_LEAST = 3  # occurrences of a range that repeats


def compiled() -> Path:
    """Return the library, from the user's cache if it is there.

    Raises Unavailable without a C compiler, CompileFailed if it fails, OutputError without a cache.
    """
    compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
    if compiler is None:
        raise Unavailable("no C compiler")
    key = f"{compiler} {os.uname().machine} {SOURCE.read_text(encoding='utf-8')}"
    target = cache_dir("builds", hashlib.sha256(key.encode()).hexdigest()[:24]) / f"{SOURCE.stem}.so"
    if not paths.is_taken(target):
        _compile(compiler, target)
    return target


def _compile(compiler: str, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        part = Path(work) / target.name
        command = [compiler, *_FLAGS, "-o", str(part), str(SOURCE)]
        try:
            done = run_tool(command, _TIMEOUT_S)
        except (OSError, subprocess.SubprocessError) as error:
            raise CompileFailed(f"{compiler} {fault_of(error)}") from None
        if done.returncode:
            first = next(iter(done.stderr.splitlines()), "no message")
            raise CompileFailed(f"{compiler} could not compile {SOURCE}: {first}")
        part.replace(target)


def repeated_ranges(files: Iterable[Path]) -> dict[str, RangeTimes]:
    """Return the ranges that repeat, by name, from the files of a run: one file for each process.

    Times are those of the thread with most occurrences. Ranges inside a range of the same name do not count.
    """
    starts: dict[str, dict[tuple[Path, str], list[tuple[int, int]]]] = {}
    for file in files:
        with file.open(encoding="utf-8", errors="replace", newline="\n") as lines:
            for line in lines:
                fields = line.removesuffix("\n").split(" ", 3)
                if len(fields) == _FIELDS:  # a full disk cuts off the last line
                    thread, start, end, name = fields
                    starts.setdefault(name, {}).setdefault((file, thread), []).append((int(start), int(end)))
    times = {name: max(map(_outermost, threads.values()), key=len) for name, threads in starts.items()}
    return {name: _times(own) for name, own in times.items() if len(own) >= _LEAST}


def _outermost(ranges: list[tuple[int, int]]) -> list[int]:
    """Return the starts of the ranges that are not inside another one, in order."""
    starts, last = [], 0
    for start, end in sorted(ranges):
        if start >= last:
            starts.append(start)
        last = max(last, end)
    return starts


def _times(starts: list[int]) -> RangeTimes:
    return RangeTimes(len(starts), median(map(sub, starts[1:], starts)))
