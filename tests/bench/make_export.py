"""Make a large export as nsys 2025.3 would have written it.

    python tests/bench/make_export.py OUT KERNELS [SEED [NAMES]]

Schema, machine, processes and all that is no event come from a recorded capture of two ranks; the events are
made up, the same of the same seed. Rows lie in the file in the order of time, those of all tables mixed.
"""

# ruff: noqa: S608 - tables and columns are named here and in the recorded capture
import lzma
import sqlite3
import sys
from collections.abc import Iterable
from contextlib import closing
from itertools import count, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from made_calls import CALLS, Columns, Ints, made_calls, made_kinds, without_lost
from made_gpu_work import GpuWork
from made_kernels import Kernels, made_kernels, made_names

from nsyswrap.capture.schema import EVENTS, PROCESS_MASK, STRINGS

RECORDED = Path(__file__).resolve().parents[1] / "data" / "recorded" / "ddp" / "even" / "report.sqlite.xz"
KERNEL, MEMCPY, MEMSET, API = (EVENTS[kind].table for kind in ("kernel", "memcpy", "memset", "api"))
KERNEL_NAMES = 5_000  # at most; a program of few launches has fewer kernels
_EVENT_TABLES = ("CUPTI_ACTIVITY_KIND_%", "NVTX_%", "PROFILER_OVERHEAD")
_LAUNCHES = 5  # of a kernel, at least in the mean
_FEWEST = 1_000  # of which some are in graphs, and some have lost their call
_STRETCH_ROWS = 50_000  # of all tables, inserted before the next stretch of time
_ON_GPU = {"contextId": 1, "greenContextId": 0}
# What is the same in all rows; a column that is neither here nor made up is NULL.
_SAME = {
    API: {"eventClass": 0, "returnValue": 0},
    KERNEL: {
        **_ON_GPU,
        **dict.fromkeys(("launchType", "cacheConfig", "gridZ", "blockY", "blockZ"), 1),
        **dict.fromkeys(("localMemoryPerThread", "localMemoryTotal"), 0),
    },
    MEMCPY: {**_ON_GPU, "copyCount": 1},
    MEMSET: {**_ON_GPU, "value": 0, "memKind": 2},
}


class Process(NamedTuple):
    """Who makes the calls, and the GPU that they are for."""

    global_pid: int
    device_id: int
    threads: list[int]


def make(out: Path, kernels: int, seed: int = 1, names: int = KERNEL_NAMES) -> None:
    """Write an export of so many kernels, of at most ``names`` names, that two processes launched."""
    if kernels < _FEWEST:
        sys.exit(f"an export has {_FEWEST:,} kernels or more: {kernels:,} is too few")
    dice = np.random.default_rng(seed)
    out.write_bytes(lzma.decompress(RECORDED.read_bytes()))
    with closing(sqlite3.connect(out)) as db:
        db.executescript("PRAGMA journal_mode = off; PRAGMA synchronous = off")
        processes = _processes(db)
        _throw_events_away(db)
        called = made_names(min(names, kernels // _LAUNCHES), dice)
        which = made_kernels([_ids(db, texts) for texts in zip(*called, strict=True)], dice)
        call_names = _ids(db, [call.name for call in CALLS])
        shares = np.diff(np.linspace(0, kernels, len(processes) + 1).astype(int)).tolist()
        made = [
            _events(process, share, which, call_names, dice)
            for process, share in zip(processes, shares, strict=True)
        ]
        _insert(db, {table: _in_time_order([events[table] for events in made]) for table in _SAME})
        db.commit()


def _events(
    process: Process, kernels: int, which: Kernels, call_names: Ints, dice: np.random.Generator
) -> dict[str, Columns]:
    """Return what one process did, a table each; its correlation ids are those of the other process too."""
    kinds = made_kinds(kernels, dice)
    work = GpuWork(kinds, which, dice)
    calls = made_calls(kinds, work.first_launches(), process.threads, dice)
    on_gpu = {KERNEL: work.kernels(calls), MEMCPY: work.copies(calls), MEMSET: work.memsets(calls)}
    for columns in on_gpu.values():
        columns["globalPid"] = np.full(len(columns["start"]), process.global_pid)
        columns["deviceId"] = np.full(len(columns["start"]), process.device_id)
    return {API: without_lost({**calls, "nameId": call_names[kinds]}, kinds, dice), **on_gpu}


def _processes(db: sqlite3.Connection) -> list[Process]:
    """Return those that launched the recorded kernels, each with the two threads that called most."""
    found = db.execute(f"SELECT DISTINCT globalPid, deviceId FROM {KERNEL} ORDER BY 2").fetchall()
    busiest = f"SELECT globalTid FROM {API} WHERE globalTid & ? = ? GROUP BY 1 ORDER BY count(*) DESC LIMIT 2"
    return [
        Process(pid, device, [tid for (tid,) in db.execute(busiest, (PROCESS_MASK, pid))])
        for pid, device in found
    ]


def _throw_events_away(db: sqlite3.Connection) -> None:
    for like in _EVENT_TABLES:
        tables = db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE ?", (like,))
        for (table,) in tables.fetchall():
            db.execute(f"DELETE FROM {table}")
    db.commit()
    db.execute("VACUUM")


def _ids(db: sqlite3.Connection, texts: Iterable[str]) -> Ints:
    """Return the ids of these strings; one that the export lacks is added."""
    texts = list(texts)
    ids = {text: number for number, text in db.execute(f"SELECT id, value FROM {STRINGS}")}
    free = count(max(ids.values()) + 1)
    new = {text: next(free) for text in dict.fromkeys(texts) if text not in ids}
    db.executemany(f"INSERT INTO {STRINGS} (value, id) VALUES (?, ?)", new.items())
    ids.update(new)
    return np.array([ids[text] for text in texts])


def _in_time_order(parts: list[Columns]) -> Columns:
    """Put the rows of all processes together."""
    columns = {column: np.concatenate([part[column] for part in parts]) for column in parts[0]}
    order = np.argsort(columns["start"], kind="stable")
    return {column: numbers[order] for column, numbers in columns.items()}


def _insert(db: sqlite3.Connection, tables: dict[str, Columns]) -> None:
    """Insert the rows of all tables, one stretch of time after the other."""
    starts = np.sort(np.concatenate([columns["start"] for columns in tables.values()]))
    statements = {table: _statement(table, columns) for table, columns in tables.items()}
    for stretch in pairwise([*starts[::_STRETCH_ROWS], starts[-1] + 1]):
        for table, columns in tables.items():
            rows = slice(*np.searchsorted(columns["start"], stretch))
            cells = (numbers[rows].tolist() for numbers in columns.values())
            db.executemany(statements[table], zip(*cells, strict=True))


def _statement(table: str, columns: Iterable[str]) -> str:
    """Return the INSERT of a row; a kernel outside all graphs has no node."""
    same = _SAME[table]
    names = ", ".join(f'"{column}"' for column in (*columns, *same))
    marks = ["NULLIF(?, 0)" if column == "graphNodeId" else "?" for column in columns]
    return f"INSERT INTO {table} ({names}) VALUES ({', '.join([*marks, *map(str, same.values())])})"


if __name__ == "__main__":
    path, kernels, *more = sys.argv[1:]
    make(Path(path), int(float(kernels)), *map(int, more))
