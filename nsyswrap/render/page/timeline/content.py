"""Make what the page's script draws: lanes, kept events column by column, and bins of all events.

All times are in ns after ``origin``, the first time of the picture.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.capture.capture import Capture
from nsyswrap.render.names import distinct_names
from nsyswrap.render.page.html import plain
from nsyswrap.render.page.tables import clipped
from nsyswrap.render.page.timeline.facts import facts_of
from nsyswrap.render.page.timeline.focus import Focus, lane_of
from nsyswrap.render.page.timeline.kept import PER_MILLE, Kept, Level, finest, lane_density
from nsyswrap.render.timeline.curves import Curve
from nsyswrap.render.timeline.lanes import Lane
from nsyswrap.render.timeline.names import CALLS, Kind, name_of, style_of

_MARGIN = 20  # of the time with fine bins, at each end
_NAME_LENGTH, _LONGEST_NAME = 300, 4_000  # characters of a readable and of a full name
_NO_CALL, _CALL_NOT_KEPT = -1, -2
_TENTHS = 10
_RAW = -15  # window bits of zlib: without header, as the browser's "deflate-raw" reads it
_ASCENDING = frozenset(("start", "call", "correlation", "at", "times"))


@dataclass(frozen=True)
class Picture:
    """The lanes of a picture, which of their events are kept, and its first and last time in ns."""

    lanes: Sequence[Lane]
    kept: Kept
    ends: tuple[int, int]
    focus: Focus
    curves: Sequence[Curve] = ()

    @cached_property
    def kinds(self) -> list[Kind]:
        """The kinds of events in all lanes, each once."""
        return list(dict.fromkeys(lane.kinds[i] for lane in self.lanes for i in lane.present))

    def series(self, lane: Lane) -> NDArray[Any]:
        """Return the position in ``kinds`` of each of a lane's own kinds; -1 if it has none of it."""
        number = {kind: i for i, kind in enumerate(self.kinds)}
        return np.array([number.get(kind, -1) for kind in lane.kinds], np.int64)

    @cached_property
    def crowded(self) -> list[int]:
        """The lanes that do not keep all their events."""
        rows = self.kept.rows
        return [i for i, lane in enumerate(self.lanes) if len(rows[i]) < len(lane)]


class Cells(NamedTuple):
    """Filled bins in order of level, lane, series and place, and what they belong to."""

    columns: dict[str, NDArray[Any]]
    parts: list[list[int]]  # level, lane, series, number of bins


def script_data(capture: Capture, picture: Picture, most_cells: int) -> dict[str, Any]:
    """Return what the script draws; about ``most_cells`` bins for all lanes and series together."""
    first, last = picture.ends
    events, texts = _events(capture, picture)
    levels = _levels(picture, most_cells)
    cells = _cells(picture, levels)
    near = [(max(start, first) - first, min(end, last) - first) for start, end in picture.kept.windows]
    opens, gpu = (
        [end - first for end in span] if span else None for span in (picture.focus.opens, picture.focus.gpu)
    )
    return {
        "origin": first,
        "length": max(last - first, 1),
        "opens": opens,
        "why": picture.focus.why,
        "gpu": gpu,
        "detail": near,
        "series": [_series(kind) for kind in picture.kinds],
        "lanes": [
            {
                "group": plain(lane.group),
                "title": plain(lane.title),
                "family": lane.family,
                "level": lane.level,
                "kept": len(picture.kept.rows[i]),
                "count": len(lane),
            }
            for i, lane in enumerate(picture.lanes)
        ],
        "levels": [[of.start_ns - first, of.width_ns, of.bins] for of in levels],
        "cells": cells.parts,
        "findings": {
            name: [start - first, end - first, lane_of(picture.lanes, start, end)]
            for name, (start, end) in picture.focus.findings.items()
        },
        "source": plain(capture.source.name),
        "curves": [
            [plain(text) for text in (curve.group, curve.title, curve.unit, curve.joined)]
            + [len(curve.values), _parts(curve)]
            for curve in picture.curves
        ],
        **pack({**events, **cells.columns, **_curves(picture)}, texts, _ASCENDING),
    }


def _curves(picture: Picture) -> dict[str, NDArray[Any]]:
    empty = np.empty(0, np.int64)
    times = np.concatenate([empty, *(curve.times_ns for curve in picture.curves)])
    values = [np.round(curve.values * _parts(curve)).astype(np.int64) for curve in picture.curves]
    return {"times": times - picture.ends[0], "values": np.concatenate([empty, *values])}


def _parts(curve: Curve) -> int:
    """Return how many parts of its unit a curve is written in: 1, or 10 where values are no integers."""
    return 1 if (curve.values == np.round(curve.values)).all() else _TENTHS


def _series(kind: Kind) -> dict[str, Any]:
    style = style_of(kind)
    return {"family": kind[0], "name": plain(name_of(kind)), "hue": style.hue, "texture": style.texture}


def _levels(picture: Picture, most_cells: int) -> list[Level]:
    """Return bins of the whole time, and finer ones of the time of GPU work and of what is looked at first.

    Each part has half of the bins that are left, or fewer where those are the finest; the whole has the rest.
    """
    lanes = [picture.lanes[i] for i in picture.crowded]
    first, last = picture.ends
    spans = [picture.ends]
    for start, end in filter(None, (picture.focus.gpu, picture.focus.opens)):
        margin = (end - start) // _MARGIN
        part = max(start - margin, first), min(end + margin, last)
        if 2 * (part[1] - part[0]) <= spans[-1][1] - spans[-1][0]:
            spans.append(part)
    found: list[Level] = []
    left = float(most_cells)
    while spans and lanes:
        fine, filled = finest(lanes, spans.pop(), left / 2 if spans else left)
        found.insert(0, fine)
        left -= filled
    return found


def _cells(picture: Picture, levels: Sequence[Level]) -> Cells:
    """Return the bins of all levels that hold something, for each crowded lane and series.

    ``at`` are the bins, ``share`` is the taken part in per mille, ``begun`` counts the events that start in a
    bin.
    """
    parts: list[list[int]] = []
    columns: dict[str, list[NDArray[Any]]] = {"at": [], "share": [], "begun": []}
    for number, of in enumerate(levels):
        for i in picture.crowded:
            found = lane_density(picture.lanes[i], of)
            share = np.minimum(-(-found.taken_ns * PER_MILLE // of.width_ns), PER_MILLE)
            series, counts = picture.series(picture.lanes[i]), np.bincount(found.series)
            parts += [[number, i, int(series[kind]), int(counts[kind])] for kind in np.flatnonzero(counts)]
            for name, values in (("at", found.bin), ("share", share), ("begun", found.begun)):
                columns[name].append(values)
    empty = np.empty(0, np.int64)
    return Cells({name: np.concatenate([empty, *each]) for name, each in columns.items()}, parts)


def _events(capture: Capture, picture: Picture) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the kept events, lane by lane, and their texts.

    ``call`` is the position of the call that launched an event: -1 if no call was recorded, -2 if it was not
    kept. ``look`` numbers the pairs of series and name.
    """
    rows = picture.kept.rows

    def column(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate([part[mine] for part, mine in zip(parts, rows, strict=True)]).astype(np.int64)

    start, end, row, call = (
        column([getattr(lane, field) for lane in picture.lanes])
        for field in ("start_ns", "end_ns", "row", "call")
    )
    of_series = [
        picture.series(lane)[lane.series[mine]] for lane, mine in zip(picture.lanes, rows, strict=True)
    ]
    series = np.concatenate(of_series)
    name, names = _names(picture)
    codes, looks = _pairs(series, name)
    is_call = np.repeat([lane.family == CALLS for lane in picture.lanes], [len(mine) for mine in rows])
    facts = facts_of(capture, picture.lanes, rows)
    texts = {
        **names,
        "looks": looks,
        "shapes": [plain(text) for text in facts.shapes],
        "paths": [clipped(plain(text), _NAME_LENGTH) for text in facts.paths],
    }
    return {
        "start": start - picture.ends[0],
        "duration": end - start,
        "look": codes,
        "call": _positions(row, call, is_call),
        "shape": facts.shape,
        "path": facts.path,
        "bytes": facts.bytes,
        "correlation": facts.correlation,
    }, texts


def _pairs(series: NDArray[Any], name: NDArray[Any]) -> tuple[NDArray[Any], list[list[int]]]:
    most = int(name.max(initial=0)) + 1
    known, codes = np.unique(series * most + name, return_inverse=True)
    return codes, [[int(pair) // most, int(pair) % most] for pair in known.tolist()]


def _positions(row: NDArray[Any], call: NDArray[Any], is_call: NDArray[Any]) -> NDArray[Any]:
    """Return the position among the kept events of the call that launched each of them."""
    place = np.full(int(max(row[is_call].max(initial=-1), call.max(initial=-1))) + 2, _CALL_NOT_KEPT)
    place[row[is_call]] = np.flatnonzero(is_call)
    place[-1] = _NO_CALL
    found: NDArray[Any] = place[call]
    return found


def _names(picture: Picture) -> tuple[NDArray[Any], dict[str, list[str]]]:
    """Return for each kept event the number of its name, the readable names, and the full ones."""
    numbers: dict[str, int] = {}
    parts = [np.empty(0, np.int64)]
    for lane, rows in zip(picture.lanes, picture.kept.rows, strict=True):
        used, codes = np.unique(lane.name[rows], return_inverse=True)
        known = [numbers.setdefault(lane.names[code], len(numbers)) for code in used.tolist()]
        parts.append(np.array(known, np.int64)[codes])
    readable = distinct_names(numbers)
    return np.concatenate(parts), {
        "names": [clipped(plain(readable[text]), _NAME_LENGTH) for text in numbers],
        "full": [clipped(plain(text), _LONGEST_NAME) for text in numbers],
    }


def pack(columns: Mapping[str, NDArray[Any]], texts: object, ascending: frozenset[str]) -> dict[str, Any]:
    """Return the columns and a JSON value of texts as one compressed text, and what unpacks them.

    The n-th bytes of all values of a column lie together, so that the zeros of small values take no room.
    ``ascending`` names the columns that are written as differences. Values are at most 2^53 apart.
    """
    described, parts = [], []
    for name, values in columns.items():
        numbers = (
            np.diff(values.astype(np.int64), prepend=0) if name in ascending else values.astype(np.int64)
        )
        base = int(numbers.min(initial=0))
        numbers = numbers - base
        size = (int(numbers.max(initial=0)).bit_length() + 7) // 8
        described.append([name, len(values), size, base, int(name in ascending)])
        parts.append(numbers.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :size].T.tobytes())
    text = json.dumps(texts, separators=(",", ":"), allow_nan=False).encode()
    # In columns of bytes only repeats of one byte are worth looking for, which takes a tenth of the time.
    runs, words = (
        zlib.compressobj(wbits=_RAW, strategy=how) for how in (zlib.Z_RLE, zlib.Z_DEFAULT_STRATEGY)
    )
    compressed = [
        *map(runs.compress, parts),
        runs.flush(zlib.Z_FULL_FLUSH),
        words.compress(text),
        words.flush(),
    ]
    return {"columns": described, "packed": base64.b64encode(b"".join(compressed)).decode()}
