"""What the page's script draws of a capture: lanes, single events column by column, and bins of the others.

All times are in ns from ``origin`` on, the time of the first event. Columns that only rise are written
as distances, which are shorter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.gpu_operations import work
from nsyswrap.render.formats.text import told_apart
from nsyswrap.render.page import colors as colours
from nsyswrap.render.page.density import PER_MILLE, density, level
from nsyswrap.render.page.html import plain
from nsyswrap.render.page.lanes import CALLS, COPIES, KERNELS, RANGES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture
    from nsyswrap.render.page.density import Level
    from nsyswrap.render.page.lanes import Lane

_MOST_BINS, _FEWEST_BINS = 4096, 128
_NAME = 300  # characters of one name; the tables have all of it
_LOOKS = {KERNELS: colours.KERNELS, COPIES: colours.COPIES, CALLS: colours.CALLS, RANGES: colours.RANGES}
_NO_CALL, _CALL_NOT_KEPT = -1, -2


@dataclass(frozen=True)
class Shown:
    """The lanes that are shown, and of each the positions of the events that are kept one by one.

    ``ends`` are the first and the last time of the picture, in ns.
    """

    lanes: Sequence[Lane]
    kept: Sequence[NDArray[Any]]
    ends: tuple[int, int]

    @cached_property
    def kinds(self) -> list[tuple[str, str]]:
        """The kinds of events there are, each once."""
        present = (lane.kinds[i] for lane in self.lanes for i in np.unique(lane.series).tolist())
        return list(dict.fromkeys(present))

    @cached_property
    def series(self) -> list[NDArray[Any]]:
        """What each event of each lane is, as a number in ``kinds``."""
        number = {kind: i for i, kind in enumerate(self.kinds)}
        codes = ([number.get(kind, -1) for kind in lane.kinds] for lane in self.lanes)
        return [np.array(code)[lane.series] for code, lane in zip(codes, self.lanes, strict=True)]

    @cached_property
    def crowded(self) -> list[int]:
        """The lanes of which some events are not kept."""
        return [i for i, lane in enumerate(self.lanes) if len(self.kept[i]) < len(lane)]


def content(capture: Capture, shown: Shown, cells: int) -> dict[str, Any]:
    """Return what the script draws; ``cells`` is about how many bins all lanes and series may have."""
    first, last = shown.ends
    operations = work(capture)
    gpu = (int(operations.start_ns.min()), int(operations.end_ns.max())) if len(operations) else None
    filled = sum(len(np.unique(shown.series[i])) for i in shown.crowded)
    levels = _levels((first, last), gpu, cells // filled) if filled else []
    return {
        "origin": first,
        "length": max(last - first, 1),
        "gpu": [time - first for time in gpu] if gpu else None,
        "series": [_series(*kind) for kind in shown.kinds],
        "lanes": [_lane(lane, whole=i not in shown.crowded) for i, lane in enumerate(shown.lanes)],
        "levels": [_binned(shown, of) for of in levels],
        "events": _events(shown),
    }


def _series(family: str, kind: str) -> dict[str, Any]:
    look = colours.look(_LOOKS[family], kind)
    return {"family": family, "name": plain(kind), "hue": look.hue, "texture": look.texture}


def _lane(lane: Lane, *, whole: bool) -> dict[str, Any]:
    return {"group": plain(lane.group), "title": plain(lane.title), "whole": whole, "count": len(lane)}


def _levels(ends: tuple[int, int], gpu: tuple[int, int] | None, bins: int) -> list[Level]:
    """Return bins of the whole time; and of that of GPU work, where it is much less."""
    found = [ends]
    if gpu and 2 * (gpu[1] - gpu[0]) < ends[1] - ends[0]:
        found.append(gpu)
    share = min(max(bins // len(found), _FEWEST_BINS), _MOST_BINS)
    return [level(*pair, share) for pair in found]


def _binned(shown: Shown, of: Level) -> dict[str, Any]:
    """Return one level: of each crowded lane, for each series, the bins that hold something.

    ``at`` are the bins, ``share`` is per mille of the bin, ``begun`` counts the events that begin in it.
    """
    lanes: dict[str, Any] = {}
    for i in shown.crowded:
        lane = shown.lanes[i]
        part = density(lane.start_ns, lane.end_ns, shown.series[i], len(shown.kinds), of)
        share = np.minimum(-(-part.taken_ns * PER_MILLE // of.width_ns), PER_MILLE)
        lanes[str(i)] = {
            str(number): {
                "at": np.diff(part.bin[mine], prepend=0).tolist(),
                "share": share[mine].tolist(),
                "begun": part.begun[mine].tolist(),
            }
            for number in np.unique(part.series).tolist()
            for mine in [part.series == number]
        }
    return {"start": of.start_ns - shown.ends[0], "width": of.width_ns, "bins": of.bins, "lanes": lanes}


def _events(shown: Shown) -> dict[str, Any]:
    """Return the kept events; ``call`` is the number of the event that launched each.

    -1: no call is recorded; -2: it is not among those kept.
    """

    def column(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate([part[rows] for part, rows in zip(parts, shown.kept, strict=True)])

    start, end, row, call = (
        column([getattr(lane, field) for lane in shown.lanes])
        for field in ("start_ns", "end_ns", "row", "call")
    )
    names, name = _names(shown)
    place = {api: number for number, api in enumerate(row.tolist()) if api >= 0}
    return {
        "lane": np.repeat(np.arange(len(shown.lanes)), [len(rows) for rows in shown.kept]).tolist(),
        "start": np.diff(start, prepend=shown.ends[0]).tolist(),
        "duration": (end - start).tolist(),
        "series": column(shown.series).tolist(),
        "name": name,
        "call": [_NO_CALL if api < 0 else place.get(api, _CALL_NOT_KEPT) for api in call.tolist()],
        "names": names,
    }


def _names(shown: Shown) -> tuple[list[str], list[int]]:
    """Return names as a person reads them, and the number of each kept event's."""
    numbers: dict[str, int] = {}
    name = [
        numbers.setdefault(lane.names[code], len(numbers))
        for lane, rows in zip(shown.lanes, shown.kept, strict=True)
        for code in lane.name[rows].tolist()
    ]
    readable = told_apart(numbers)
    return [_short(plain(readable[text])) for text in numbers], name


def _short(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[:_NAME]}…"
