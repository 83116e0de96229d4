"""Gaps and their causes beside a second opinion that looks at every nanosecond, on captures drawn by lot."""

import random
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from sampled import sampled
from tiny_export import Row, call, global_id, graph, kernel, memcpy, memset, opened, row

from nsyswrap.analysis import gpu_gaps
from nsyswrap.analysis.gpu_gaps import CAUSES, gaps_of
from nsyswrap.analysis.gpu_operations import gpu_operations_of, window
from nsyswrap.analysis.names import call_class
from nsyswrap.api import CaptureReader, open_capture
from nsyswrap.capture import stream

CALLS = (
    "cudaMalloc",
    "cuModuleLoad",
    "cudaDeviceSynchronize",
    "cudaMemcpy",
    "cudaEventRecord",
    "cudaLaunchKernel",
)
CALLS_BY_KIND = {
    "kernel": CALLS[-1],
    "memcpy": "cudaMemcpyAsync",
    "memset": "cudaMemset",
    "graph": "cudaGraphLaunch",
}
RANKS = {cause: i for i, cause in enumerate(CAUSES)}
LATENCY_NS, LENGTH = 6, 150


class Operation(NamedTuple):
    """In the order in which equal starts come; ``call`` is start, end and thread of what launched it."""

    start: int
    kind: int
    row: int
    end: int
    pid: int
    device: int
    call: tuple[int, int, int] | None


class Drawn(NamedTuple):
    """What was drawn: operations, what threads did (thread, start, end, cause), and the export's rows."""

    operations: list[Operation]
    doing: list[tuple[int, int, int, str]]
    rows: list[Row]


def draw(dice: random.Random) -> Drawn:
    drawn = Drawn([], [], [])
    counts = dict.fromkeys(CALLS_BY_KIND, 0)
    for number in range(1, dice.randrange(3, 14)):
        kind, pid, device = dice.choice(list(CALLS_BY_KIND)), dice.choice((7, 8)), dice.choice((0, 0, 1))
        start = dice.randrange(LENGTH)
        end = start + dice.choice((0, dice.randrange(1, 25)))
        began = start - dice.randrange(-2, 40)
        span = (began, began + dice.randrange(30), pid * 10 + dice.randrange(2))
        launched = dice.random() < 0.9
        if launched:
            drawn.rows.append(call(CALLS_BY_KIND[kind], *span[:2], number, pid=pid, tid=span[2]))
            drawn.doing.append((span[2], *span[:2], "copy" if kind.startswith("mem") else "launch"))
        place = {"deviceId": device, "globalPid": global_id(pid), "correlationId": number}
        drawn.rows.append(on_gpu(kind, start, end, **place))
        order = (start, list(CALLS_BY_KIND).index(kind), counts[kind], end)
        drawn.operations.append(Operation(*order, pid, device, span if launched else None))
        counts[kind] += 1
    for _ in range(dice.randrange(12)):
        begins, tid = dice.randrange(LENGTH), dice.choice((70, 71, 80, 81))
        ends, name = begins + dice.randrange(40), dice.choice((*CALLS, "overhead"))
        cells = {"start": begins, "end": ends, "globalTid": global_id(tid // 10, tid), "nameId": "nsys"}
        drawn.rows.append(
            row("PROFILER_OVERHEAD", **cells)
            if name == "overhead"
            else call(name, begins, ends, 0, pid=tid // 10, tid=tid)
        )
        drawn.doing.append((tid, begins, ends, {"overhead": "profiler"}.get(name) or cause_of(name)))
    return drawn


def cause_of(name: str) -> str:
    return {"other": "call"}.get(call_class(name), call_class(name))


def on_gpu(kind: str, start: int, end: int, **more: object) -> Row:
    if kind == "kernel":
        return kernel("k", start, end, **more)  # type: ignore[arg-type]
    if kind == "graph":
        return graph(start, end, 0, **more)
    return memcpy(1, start, end, 8, **more) if kind == "memcpy" else memset(start, end, 8, **more)


def cause_at(ns: int, before: Operation | None, after: Operation | None, drawn: Drawn) -> str:
    """Tell why nothing ran in one nanosecond of the gap between two operations."""
    if after is None and before and before.call:
        now = [
            cause for tid, first, last, cause in drawn.doing if tid == before.call[2] and first <= ns < last
        ]
        return min(now, key=lambda cause: RANKS[cause], default="host")
    if after is None or after.call is None:
        return "unknown"
    start, end, thread = after.call
    now = [cause for tid, first, last, cause in drawn.doing if tid == thread and first <= ns < last]
    first = min(now, key=lambda cause: RANKS[cause], default="host")
    own = "launch" if after.kind in (0, 3) else "copy"
    if before and end <= before.end:
        return "queued"
    if ns < start:
        return first
    if ns < end:
        return first if first in ("profiler", "load") else own
    return "queued" if after.start - end > LATENCY_NS else own


def explained(
    drawn: Drawn, chosen: tuple[int, int] | None
) -> list[tuple[int, int, int, int, dict[str, int]]]:
    """Process, device, start, end and causes of every gap, found by looking at each nanosecond."""
    found = []
    for pid, device in sorted({(operation.pid, operation.device) for operation in drawn.operations}):
        mine = sorted(o for o in drawn.operations if (o.pid, o.device) == (pid, device))
        first, last = chosen or (mine[0].start, max(o.end for o in mine))
        # A selected operation begins in the window, or began before it and ends in it.
        if not any(first <= o.start < last or o.start < first < o.end for o in mine):
            continue
        idle_ns = [ns for ns in range(first, last) if not any(o.start <= ns < o.end for o in mine)]
        cuts = {o.start for o in mine if first < o.start < last}  # an empty operation parts a gap too
        begins = [ns for ns in idle_ns if ns - 1 not in idle_ns or ns in cuts]
        for start in begins:
            end = next(
                ns for ns in range(start + 1, last + 1) if ns not in idle_ns or ns in cuts or ns == last
            )
            after = next((o for o in mine if o.start >= end), None)
            earlier = [o for o in mine if o.end <= start]
            before = max(reversed(earlier), key=lambda o: o.end, default=None)  # of equal ends the last
            causes = [cause_at(ns, before, after, drawn) for ns in range(start, end)]
            found.append((pid, device, start, end, {cause: causes.count(cause) for cause in set(causes)}))
    return found


def said(capture: CaptureReader) -> list[tuple[int, int, int, int, dict[str, int]]]:
    found = gaps_of(capture)
    ids = [pid >> 24 & 0xFFFFFF for pid in found.global_pid.tolist()]
    parts = [
        {cause: int(part[i]) for cause, part in found.parts.items() if part[i]} for i in range(len(found))
    ]
    assert [sum(part.values()) for part in parts] == found.duration_ns.tolist()
    return list(
        zip(ids, found.device_id.tolist(), found.start_ns.tolist(), found.end_ns.tolist(), parts, strict=True)
    )


@sampled("seed", range(150), fast=(*range(0, 150, 20), *range(1, 150, 20)))
def test_every_gap_and_nanosecond(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_gaps, "longest_latency", lambda _: LATENCY_NS)
    if seed % 2:  # several blocks of gaps
        monkeypatch.setattr(stream, "BLOCK_ROWS", 3)
        monkeypatch.setattr(gpu_gaps, "BLOCK_ROWS", 3)
    dice = random.Random(seed)  # noqa: S311 - no secret
    drawn = draw(dice)
    first, last = sorted(dice.sample(range(LENGTH), 2))
    capture = opened(tmp_path, *drawn.rows)
    assert said(capture) == explained(drawn, None)
    part = capture.select(time=f"{first}/{last}", clip=True)
    assert said(part) == explained(drawn, (first, last))


@sampled("seed", range(30), fast=6)
def test_busy_and_idle_are_the_window(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)  # noqa: S311 - no secret
    drawn = draw(dice)
    capture = opened(tmp_path, *drawn.rows)
    for part in (capture, capture.select(time="30/99", clip=True), capture.select(time="30/99", clip=False)):
        if not len(gpu_operations_of(part)):
            continue
        table = part.report("gpu_time").frame
        table = table[table.process_id.notna()]
        assert (table.busy_ns + table.idle_ns == table.window_ns).all()
        ends = [
            window(part, gpu_operations_of(part).of(rows))
            for _, _, rows in gpu_operations_of(part).by_device()
        ]
        assert table.window_ns.sum() == sum(last - first for first, last in ends)
        assert table.idle_ns.sum() == gaps_of(part).duration_ns.sum()


@sampled("seed", range(30), fast=6)
def test_those_of_a_process_are_a_part_of_those_of_all(seed: int, tmp_path: Path) -> None:
    drawn = draw(random.Random(seed))  # noqa: S311 - no secret
    read_alone = opened(tmp_path, *drawn.rows)
    read_whole = open_capture(read_alone.path)
    every = gaps_of(read_whole)
    assert len(gaps_of(read_whole.select(process=999))) == 0
    for pid in {operation.pid for operation in drawn.operations}:
        alone, part = (gaps_of(capture.select(process=pid)) for capture in (read_alone, read_whole))
        assert np.shares_memory(part.start_ns, every.start_ns) or not len(part)
        assert part.owners == alone.owners
        for name in ("start_ns", "end_ns", "before", "after", "thread", "launching_ns"):
            assert getattr(part, name).tolist() == getattr(alone, name).tolist()
        assert [values.tolist() for values in part.segments] == [values.tolist() for values in alone.segments]


@pytest.mark.parametrize("few", [0.0, 1.0])  # all segments are looked at, or those of the gaps looked up
@sampled("seed", range(20), fast=5)
def test_segments_in_marked_gaps(
    seed: int, few: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_gaps, "_FEW", few)
    dice = random.Random(seed)  # noqa: S311 - no secret
    gaps = gaps_of(opened(tmp_path, *draw(dice).rows))
    of_gap, *_, numbers = (part.tolist() for part in gaps.segments)
    for share in (0.0, 0.5, 1.0):
        marks = [dice.random() < share for _ in range(len(gaps))]
        causes = dice.sample(CAUSES, dice.choice((1, 4)))
        mine = [
            i
            for i, (gap, number) in enumerate(zip(of_gap, numbers, strict=True))
            if marks[gap] and CAUSES[number] in causes
        ]
        assert gaps.segments_in(np.array(marks, bool), causes).tolist() == mine
