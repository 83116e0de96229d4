"""Faults that are planted into the command, to show that the server and the oracle find each of them."""

import dataclasses
import os
import random
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from fuzz import server
from fuzz.bases import bases
from fuzz.case import Case
from fuzz.commands import SUMMARIES, summaries_problem
from nsyswrap.analysis.arrays import groups
from nsyswrap.capture.export import Export

_LIMITS = server.Limits(seconds=2, wall_s=6, bytes=300_000_000)
_EXPORT = Path("x.sqlite")  # in the folder of the case, where the command runs


def _wrong(field: str) -> None:
    """Make one of the statistics of each group wrong."""
    right = groups.GroupBy.of

    def of(self: groups.GroupBy, values: Any, *, least: int | None = None) -> groups.Statistics:  # noqa: ANN401 - an array
        made = right(self, values, least=least)
        return dataclasses.replace(made, **{field: getattr(made, field) + 1})

    groups.GroupBy.of = of  # type: ignore[method-assign]


def _when_opened(fault: Callable[[], object]) -> None:
    right = Export.__init__

    def opened(self: Export, path: Path) -> None:
        right(self, path)
        fault()

    Export.__init__ = opened  # type: ignore[method-assign]


def _spin() -> None:
    while True:
        pass


def _raise() -> None:
    raise TypeError("planted")


def _refuse() -> None:
    sys.stderr.write("nsyswrap: refused\n")
    sys.exit(65)


def _ramble() -> None:
    sys.stderr.write("an error\nof three\nlines\n")
    sys.exit(65)


FAULTS: dict[str, tuple[Callable[[], None], str]] = {
    "none": (lambda: None, ""),
    **{
        field: (partial(_wrong, field), "instead of")
        for field in ("count", "total", "avg", "med", "min", "max", "std")
    },
    "traceback": (partial(_when_opened, _raise), "a traceback: TypeError: planted"),
    "busy": (partial(_when_opened, _spin), "ran longer than 2 s"),
    "asleep": (partial(_when_opened, lambda: time.sleep(60)), "ran longer than 2 s"),
    "memory": (partial(_when_opened, lambda: bytearray(b"x" * 400_000_000)), "out of memory"),
    "changed input": (
        partial(_when_opened, lambda: _EXPORT.open("ab").write(b"\0")),
        "changed its input: x.sqlite",
    ),
    "touched input": (
        partial(_when_opened, lambda: os.utime(_EXPORT, (1, 1))),
        "changed its input: x.sqlite",
    ),
    "file beside": (
        partial(_when_opened, lambda: Path("x.sqlite-shm").touch()),
        "left files: case/x.sqlite-shm",
    ),
    "temporary file": (
        partial(_when_opened, lambda: Path(os.environ["TMPDIR"], "nsyswrap-copy").touch()),
        "left files: tmp/nsyswrap-copy",
    ),
    "refusal": (partial(_when_opened, _refuse), "exit code 65"),
    "rambling": (partial(_when_opened, _ramble), "an error of other than one line and a hint"),
    "exit code": (partial(_when_opened, lambda: sys.exit(3)), "exit code 3"),
    "signal": (partial(_when_opened, os.abort), "killed by SIGABRT"),
}


def case(random: random.Random, folder: Path) -> Case:
    """Return the five summaries of an export that is in order."""
    export = folder / _EXPORT
    export.write_bytes(bases()[random.choice(("era 2025.3.2.0", "long 2025"))])
    argv = ["report", export.name, *(word for name in SUMMARIES for word in ("-r", name)), "--format", "csv"]
    problem = partial(summaries_problem, export, SUMMARIES)
    return Case(argv, [export], problem, "nothing", must_answer=True)


def findings() -> dict[str, str]:
    """Return what the server finds of each fault."""
    found = {}
    for number, name in enumerate(FAULTS):
        server.SUBJECTS["planted"] = partial(_faulty, name)
        found[name] = server.outcome("planted", number, _LIMITS).finding
    return found


def _faulty(name: str, random: random.Random, folder: Path) -> Case:
    codes = (0, 65) if name == "rambling" else (0,)
    return case(random, folder)._replace(before=FAULTS[name][0], codes=codes, must_answer=65 not in codes)
