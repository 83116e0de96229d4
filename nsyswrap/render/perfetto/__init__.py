"""Export captures as a timeline: Perfetto's own format, or Chrome trace events in JSON.

``compose`` decides what the trace contains. ``write`` and ``stream`` write it block by block. A file is
either complete or absent. JSON is for speedscope and chrome://tracing: each slice has its name, lane, start
and duration. Arrows, counters and arguments are left out.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from numpy.typing import NDArray

from nsyswrap.base.files import replacing
from nsyswrap.base.threads import in_threads
from nsyswrap.render.perfetto.packets import Block, blocks
from nsyswrap.render.perfetto.trace import Trace, compose
from nsyswrap.render.perfetto.tracks import Slices, Track
from nsyswrap.render.timeline.lanes import by_lane

__all__ = ["FORMATS", "Trace", "compose", "format_of", "stream", "write"]

_CHROME_ROWS = 20_000  # about 2 MB of text
_NS_PER_US = 1_000
_LEVEL = 2  # of gzip: smaller than 1 in the same time; a higher one takes more than making the trace
_THREADS = 4  # more of them hold more blocks at a time
_GZIP_HEAD = b"\x1f\x8b\x08" + bytes(6) + b"\xff"  # no name and no time
_NO_MORE = b"\x03\x00"  # the last block of deflate, empty


def chrome_blocks(trace: Trace) -> Iterator[Block]:
    """Yield functions that return the trace in blocks of bytes: a line for each event."""
    about = json.dumps({"displayTimeUnit": "ns", "otherData": trace.about})
    head = f'{about[:-1]}, "traceEvents": [\n' + ",\n".join(_metadata(trace.lanes.tracks))
    yield head.encode
    yield from _chrome_events(trace)
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


def _chrome_events(trace: Trace) -> Iterator[Block]:
    numbers, names = trace.styles.names()
    texts = [json.dumps(name) for name in names]
    for slices in trace.slices:
        for lane in by_lane(slices.lane):
            track = trace.lanes.tracks[int(slices.lane[lane.start])]
            place = f'"pid":{track.process},"tid":{track.thread or track.process},"ts":%s'
            template = f'{{"ph":"X","name":%s,{place},"dur":%s}}'
            if slices.points:
                template = f'{{"ph":"i","s":"{"t" if track.thread else "p"}","name":%s,{place}}}'
            for at in range(lane.start, lane.stop, _CHROME_ROWS):
                rows = slice(at, min(at + _CHROME_ROWS, lane.stop))
                yield partial(_lines, template, slices, rows, (numbers, texts))


def _lines(template: str, slices: Slices, rows: slice, names: tuple[NDArray[Any], Sequence[str]]) -> bytes:
    numbers, texts = names
    start, end = slices.start_ns[rows], slices.end_ns[rows]
    name = [texts[number] for number in numbers[slices.style[rows]].tolist()]
    columns = [name, map(_micros, start.tolist())]
    if not slices.points:
        columns.append(map(_micros, (end - start).tolist()))
    return (",\n" + ",\n".join(map(template.__mod__, zip(*columns, strict=True)))).encode()


def _micros(ns: int) -> str:
    return f"{'-' * (ns < 0)}{abs(ns) // _NS_PER_US}.{abs(ns) % _NS_PER_US:03d}"


FORMATS = {"perfetto": blocks, "json": chrome_blocks}


def format_of(path: Path) -> str:
    """Return the format that the name of a file asks for: json for .json and .json.gz, else perfetto."""
    return "json" if path.name.lower().removesuffix(".gz").endswith(".json") else "perfetto"


def write(trace: Trace, path: Path, form: str = "") -> None:
    """Write a trace to ``path``. Compress it if the name ends in ``.gz``.

    ``form`` is one of FORMATS; by default the name decides. Raises OutputError if the file cannot be written.
    """
    form = form or format_of(path)
    with replacing(path) as part, part.open("wb") as file:
        if path.suffix.lower() == ".gz":
            _write_packed(FORMATS[form](trace), file)
        else:
            stream(trace, file, form)


def stream(trace: Trace, file: BinaryIO, form: str = "perfetto") -> None:
    """Write a trace to an open file."""
    file.writelines(in_threads(lambda make: make(), FORMATS[form](trace), _THREADS))


def _write_packed(content: Iterable[Block], file: BinaryIO) -> None:
    """Write blocks as one member of gzip, each compressed by itself."""
    check = size = 0
    file.write(_GZIP_HEAD)
    for raw, deflated in in_threads(_deflated, content, _THREADS):
        check, size = zlib.crc32(raw, check), size + len(raw)
        file.write(deflated)
    file.write(_NO_MORE + struct.pack("<II", check, size & 0xFFFFFFFF))


def _deflated(make: Block) -> tuple[bytes, bytes]:
    """Return a block, and the block compressed such that that of the next one can follow."""
    raw, deflate = make(), zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return raw, deflate.compress(raw) + deflate.flush(zlib.Z_SYNC_FLUSH)
