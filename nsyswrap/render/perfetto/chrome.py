"""Write a trace as Chrome trace events in JSON, for speedscope and chrome://tracing.

Each slice has its name, lane, start and duration. Arrows, counters and arguments are left out.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from nsyswrap.render.timeline.packing import by_lane

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from nsyswrap.render.perfetto.lanes import Track
    from nsyswrap.render.perfetto.packets import Block
    from nsyswrap.render.perfetto.slices import Slices
    from nsyswrap.render.perfetto.trace import Trace

BLOCK_ROWS = 20_000  # about 2 MB of text
_NS_PER_US = 1_000


def blocks(trace: Trace) -> Iterator[Block]:
    """Yield functions that return the trace in blocks of bytes: a line for each event."""
    about = json.dumps({"displayTimeUnit": "ns", "otherData": trace.about})
    head = f'{about[:-1]}, "traceEvents": [\n' + ",\n".join(_metadata(trace.lanes.tracks))
    yield head.encode
    yield from _events(trace)
    yield "\n]}\n".encode


def _metadata(tracks: list[Track]) -> Iterator[str]:
    """Yield the events that name and order processes and lanes."""
    for order, track in enumerate(tracks):
        if track.kind == "counter":
            continue
        kind = "process" if track.kind in ("process", "gpu") else "thread"
        head = f'"pid":{track.process},"tid":{track.thread or track.process}'
        for name, arguments in (("name", {"name": track.name}), ("sort_index", {"sort_index": order})):
            yield f'{{"ph":"M","name":"{kind}_{name}",{head},"args":{json.dumps(arguments)}}}'


def _events(trace: Trace) -> Iterator[Block]:
    numbers, names = trace.looks.names()
    texts = [json.dumps(name) for name in names]
    for slices in trace.slices:
        for lane in by_lane(slices.lane):
            track = trace.lanes.tracks[int(slices.lane[lane.start])]
            place = f'"pid":{track.process},"tid":{track.thread or track.process},"ts":%s'
            template = f'{{"ph":"X","name":%s,{place},"dur":%s}}'
            if slices.points:
                template = f'{{"ph":"i","s":"{"t" if track.thread else "p"}","name":%s,{place}}}'
            for at in range(lane.start, lane.stop, BLOCK_ROWS):
                rows = slice(at, min(at + BLOCK_ROWS, lane.stop))
                yield partial(_lines, template, slices, rows, (numbers, texts))


def _lines(template: str, slices: Slices, rows: slice, names: tuple[NDArray[Any], Sequence[str]]) -> bytes:
    numbers, texts = names
    start, end = slices.start_ns[rows], slices.end_ns[rows]
    name = [texts[number] for number in numbers[slices.look[rows]].tolist()]
    columns = [name, map(_micros, start.tolist())]
    if not slices.points:
        columns.append(map(_micros, (end - start).tolist()))
    return (",\n" + ",\n".join(map(template.__mod__, zip(*columns, strict=True)))).encode()


def _micros(ns: int) -> str:
    return f"{'-' * (ns < 0)}{abs(ns) // _NS_PER_US}.{abs(ns) % _NS_PER_US:03d}"
