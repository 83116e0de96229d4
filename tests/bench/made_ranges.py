"""Add NVTX ranges to a made export: a training loop on each of its threads, three ranges deep."""

# ruff: noqa: S608 - the tables are those of nsys
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np

from nsyswrap.capture.schema import EVENTS

_CALLS_IN_STEP = 720  # so that a million kernels make 2,000 steps in four threads
_FEWEST_STEPS = 20
_PHASES, _LAYERS = ("forward", "backward", "optimizer"), 20
_PUSH_POP = 59

Range = tuple[int, int, str, int]  # start, end, text, thread


def add_ranges(export: Path) -> None:
    """Write the ranges in the order of their starts, as nsys does."""
    with closing(sqlite3.connect(export)) as db:
        threads = db.execute(
            f"SELECT globalTid, min(start), max(end), count(*) FROM {EVENTS['api'].table} GROUP BY globalTid"
        )
        ranges = sorted(one for thread in threads.fetchall() for one in _loop(*thread))
        into = f"INSERT INTO {EVENTS['nvtx'].table} (start, end, text, globalTid, eventType, domainId)"
        db.executemany(f"{into} VALUES (?, ?, ?, ?, {_PUSH_POP}, 0)", ranges)
        db.commit()


def _loop(thread: int, start: int, end: int, calls: int) -> Iterator[Range]:
    for step in _parts(start, end, max(calls // _CALLS_IN_STEP, _FEWEST_STEPS)):
        yield (*step, "train_step", thread)
        for name, phase in zip(_PHASES, _parts(*step, len(_PHASES)), strict=True):
            yield (*phase, name, thread)
            for layer, part in enumerate(_parts(*phase, _LAYERS)):
                yield (*part, f"layer {layer}", thread)


def _parts(start: int, end: int, count: int) -> list[tuple[int, int]]:
    """Return equal parts that lie inside, with a little time between them."""
    edges = np.linspace(start + 1, end - 1, count + 1).astype(int).tolist()
    return list(zip(edges[:-1], (edge - 1 for edge in edges[1:]), strict=True))
