"""The timeline section: the data that the page's script draws, and a table of the lanes.

The script gets lanes, kept events column by column, and bins of all events in lanes that keep only some.
All times are in ns after ``origin``, the time of the first event. Ascending columns are written as
differences, which are shorter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.gpu_operations import gpu_operations_of
from nsyswrap.base.units import Unit
from nsyswrap.render import colors
from nsyswrap.render.page.density import PER_MILLE, density, kept_events, level
from nsyswrap.render.page.html import Markup, Section, data, element, plain, section
from nsyswrap.render.page.tables import clipped, folded_table
from nsyswrap.render.readable_names import distinct_names
from nsyswrap.render.timeline.lanes import (
    CALLS,
    COPIES,
    KERNELS,
    OTHERS,
    RANGES,
    ranges_left_out,
    streams,
    threads,
)
from nsyswrap.reports.table import Column, Schema, table_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture
    from nsyswrap.render.page.density import Level
    from nsyswrap.render.page.subject import Subject
    from nsyswrap.render.timeline.lanes import Lane
    from nsyswrap.reports.table import Table


_MOST_BINS, _FEWEST_BINS = 4096, 128
_NAME_LENGTH = 300  # characters; the tables have longer names
_STYLES = {
    KERNELS: colors.KERNELS,
    COPIES: colors.COPIES,
    CALLS: colors.CALLS,
    RANGES: colors.RANGES,
    OTHERS: colors.OTHERS,
}
_SPELLED = {"synchronise": "synchronize", "range": "NVTX range"}  # kinds as people read them
_NO_CALL, _CALL_NOT_KEPT = -1, -2

_CAPTURES = 8  # that get a timeline
_LANES = 60  # of one capture; the lanes with the fewest events are left out
_EVENTS = 9_000  # kept one by one, for all captures together
_CELLS = 140_000  # bins, for all lanes, series and captures together

LANE_TABLE = Schema(
    name="timeline",
    title="Timeline by lane",
    columns=(
        Column("group", "GPU or Thread", Unit.TEXT, "GPU or host thread"),
        Column("lane", "Lane", Unit.TEXT, "stream, or kind of event on the thread"),
        Column("events", "Events", Unit.COUNT, "events in the lane, without calls inside other calls"),
        Column("busy_ns", "Busy", Unit.NS, "time with at least one event"),
        Column("longest_ns", "Longest", Unit.NS, "duration of the longest event"),
        Column("first_start_ns", "First", Unit.NS, "start of the first event", 1),
        Column("kept", "Drawn Singly", Unit.COUNT, "events that the picture shows one by one", 1),
    ),
)


@dataclass(frozen=True)
class Picture:
    """The lanes of a picture, and for each lane the positions of its kept events.

    ``ends`` are the first and the last time of the picture, in ns.
    """

    lanes: Sequence[Lane]
    kept: Sequence[NDArray[Any]]
    ends: tuple[int, int]

    @cached_property
    def kinds(self) -> list[tuple[str, str]]:
        """The kinds of events in all lanes, each once."""
        return list(dict.fromkeys(lane.kinds[i] for lane in self.lanes for i in lane.present))

    @cached_property
    def _numbers(self) -> list[NDArray[Any]]:
        number = {kind: i for i, kind in enumerate(self.kinds)}
        return [np.array([number.get(kind, -1) for kind in lane.kinds], np.int32) for lane in self.lanes]

    def series(self, lane: int, rows: NDArray[Any] | slice = slice(None)) -> NDArray[Any]:
        """Return the position in ``kinds`` of each event of a lane, or of the events in these rows."""
        numbers: NDArray[Any] = self._numbers[lane][self.lanes[lane].series[rows]]
        return numbers

    @cached_property
    def crowded(self) -> list[int]:
        """The lanes that do not keep all their events."""
        return [i for i, lane in enumerate(self.lanes) if len(self.kept[i]) < len(lane)]


def _script_data(capture: Capture, picture: Picture, cells: int) -> dict[str, Any]:
    """Return what the script draws. All lanes and series together get about ``cells`` bins."""
    first, last = picture.ends
    operations = gpu_operations_of(capture)
    gpu = (int(operations.start_ns.min()), int(operations.end_ns.max())) if len(operations) else None
    filled = sum(len({picture.lanes[i].kinds[j] for j in picture.lanes[i].present}) for i in picture.crowded)
    levels = _levels((first, last), gpu, cells // filled) if filled else []
    return {
        "origin": first,
        "length": max(last - first, 1),
        "gpu": [time - first for time in gpu] if gpu else None,
        "series": [_series(*kind) for kind in picture.kinds],
        "lanes": [_lane(lane, whole=i not in picture.crowded) for i, lane in enumerate(picture.lanes)],
        "levels": [_binned(picture, of) for of in levels],
        "events": _events(picture),
    }


def _series(family: str, kind: str) -> dict[str, Any]:
    style = colors.style_of(_STYLES[family], kind)
    name = plain(_SPELLED.get(kind, kind))
    return {"family": family, "name": name, "hue": style.hue, "texture": style.texture}


def _lane(lane: Lane, *, whole: bool) -> dict[str, Any]:
    return {"group": plain(lane.group), "title": plain(lane.title), "whole": whole, "count": len(lane)}


def _levels(ends: tuple[int, int], gpu: tuple[int, int] | None, bins: int) -> list[Level]:
    """Return bins of the whole time. Add bins of the GPU work alone if it takes less than half the time."""
    windows = [ends]
    if gpu and 2 * (gpu[1] - gpu[0]) < ends[1] - ends[0]:
        windows.append(gpu)
    share = min(max(bins // len(windows), _FEWEST_BINS), _MOST_BINS)
    return [level(*window, share) for window in windows]


def _binned(picture: Picture, of: Level) -> dict[str, Any]:
    """Return the bins of one level that hold something, for each crowded lane and series.

    ``at`` are the bins, ``share`` is the taken part in per mille, ``begun`` counts the events that start in a
    bin.
    """
    lanes: dict[str, Any] = {}
    for i in picture.crowded:
        lane = picture.lanes[i]
        part = density(lane.start_ns, lane.end_ns, picture.series(i), len(picture.kinds), of)
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
    return {"start": of.start_ns - picture.ends[0], "width": of.width_ns, "bins": of.bins, "lanes": lanes}


def _events(picture: Picture) -> dict[str, Any]:
    """Return the kept events, column by column.

    ``call`` is the position of the API call that launched an event: -1 if no call was recorded, -2 if the
    call was not kept.
    """

    def column(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate([part[rows] for part, rows in zip(parts, picture.kept, strict=True)])

    start, end, row, call = (
        column([getattr(lane, field) for lane in picture.lanes])
        for field in ("start_ns", "end_ns", "row", "call")
    )
    names, name = _names(picture)
    position = {api: number for number, api in enumerate(row.tolist()) if api >= 0}
    return {
        "lane": np.repeat(np.arange(len(picture.lanes)), [len(rows) for rows in picture.kept]).tolist(),
        "start": np.diff(start, prepend=picture.ends[0]).tolist(),
        "duration": (end - start).tolist(),
        "series": np.concatenate([picture.series(i, kept) for i, kept in enumerate(picture.kept)]).tolist(),
        "name": name,
        "call": [_NO_CALL if api < 0 else position.get(api, _CALL_NOT_KEPT) for api in call.tolist()],
        "names": names,
    }


def _names(picture: Picture) -> tuple[list[str], list[int]]:
    """Return the readable names, and for each kept event the position of its name."""
    numbers: dict[str, int] = {}
    name = [
        numbers.setdefault(lane.names[code], len(numbers))
        for lane, rows in zip(picture.lanes, picture.kept, strict=True)
        for code in lane.name[rows].tolist()
    ]
    readable = distinct_names(numbers)
    return [clipped(plain(readable[text]), _NAME_LENGTH) for text in numbers], name


def timeline(subject: Subject) -> Markup:
    """Return a picture for each capture, and the table of all lanes."""
    drawn = dict(list(subject.captures.items())[:_CAPTURES])
    frames: list[Markup] = []
    tables: dict[str, Table] = {}
    for label, picture, lanes_left_out in _pictures(drawn):
        tables[label] = _table(picture)
        script_data = _script_data(drawn[label], picture, _CELLS // len(drawn))
        left_out = (lanes_left_out, ranges_left_out(drawn[label]))
        frames.append(_frame(label, f"timeline-{len(frames)}", script_data, left_out, is_first=not frames))
    all_lanes = subject.as_one(tables)
    return section(
        "timeline",
        "Timeline",
        *frames,
        None if frames else _note(f"No event with a start and an end was recorded{subject.within}."),
        _left_out(len(subject.captures) - len(drawn), "capture", "open fewer captures at once"),
        folded_table(all_lanes) if all_lanes is not None else None,
    )


def _pictures(captures: Mapping[str, Capture]) -> Iterator[tuple[str, Picture, int]]:
    """Yield label, picture and the number of lanes left out of it, for each capture with events."""
    for _, labels in groupby(captures, lambda label: captures[label].source):
        lanes = {label: every for label in labels if (every := _lanes(captures[label]))}
        for label, every in lanes.items():
            busiest = _busiest(every)
            kept = kept_events(captures[label], busiest, _EVENTS // len(captures))
            yield label, Picture(busiest, kept, _ends(lanes.values())), len(every) - len(busiest)


def _lanes(capture: Capture) -> list[Lane]:
    return [lane for lane in (*streams(capture), *threads(capture)) if len(lane)]


def _ends(every: Iterable[list[Lane]]) -> tuple[int, int]:
    """Return the first start and the last end, in ns, so that all parts of one capture share a window."""
    lanes = [lane for part in every for lane in part]
    return min(int(lane.start_ns.min()) for lane in lanes), max(int(lane.end_ns.max()) for lane in lanes)


def _busiest(every: list[Lane]) -> list[Lane]:
    """Return the lanes with the most events, in the order given."""
    order = np.argsort([-len(lane) for lane in every], kind="stable")[:_LANES]
    return [every[i] for i in sorted(order.tolist())]


def _table(picture: Picture) -> Table:
    return table_of(
        LANE_TABLE,
        [
            (
                lane.group,
                lane.title,
                len(lane),
                lane.busy_ns,
                int((lane.end_ns - lane.start_ns).max()),
                int(lane.start_ns.min()),
                len(rows),
            )
            for lane, rows in zip(picture.lanes, picture.kept, strict=True)
        ],
    )


def _frame(
    label: str, name: str, script_data: dict[str, Any], left_out: tuple[int, int], *, is_first: bool
) -> Markup:
    """Return the frame that the script draws a picture into. ``left_out`` counts lanes and NVTX ranges.

    Only the first frame shows how to use it.
    """
    canvas = element(
        "canvas",
        tabindex="0",
        role="application",
        aria_label=f"Timeline of {label}",
        aria_describedby=f"{name}-keys",
    )
    has_gpu_work = script_data["gpu"] is not None
    buttons = (_button(*button, enabled=button[0] != "gpu" or has_gpu_work) for button in _BUTTONS)
    return element(
        "article",
        element("h3", label),
        element("div", *buttons, class_="tools", role="group", aria_label=f"View of {label}"),
        element("p", "Point at the picture, tap it, or use the keys.", class_="readout", role="status"),
        element("div", element("div", class_="labels"), element("div", canvas), class_="picture"),
        element("div", class_="legends"),
        element("p", _KEYS, id=f"{name}-keys", class_="note keys" if is_first else "unseen"),
        _left_out(left_out[0], "lane", "those with the fewest events"),
        _left_out(left_out[1], "NVTX range", "nested too deep, or ended on another thread"),
        data(script_data, name),
        class_="timeline",
        data_content=name,
    )


def _button(action: str, text: str, meaning: str, *, enabled: bool) -> Markup:
    return element(
        "button",
        text,
        type="button",
        data_action=action,
        disabled=not enabled,
        aria_label=meaning,
        title=meaning if enabled else f"{meaning}: none recorded",
    )


def _note(text: str) -> Markup:
    return element("p", text, class_="note")


def _left_out(count: int, noun: str, reason: str) -> Markup | None:
    return _note(f"{count:,} {noun}{'' if count == 1 else 's'} left out: {reason}.") if count > 0 else None


_BUTTONS = (
    ("in", "+", "Zoom in"),
    ("out", "\N{MINUS SIGN}", "Zoom out"),
    ("left", "←", "Earlier"),
    ("right", "→", "Later"),
    ("home", "All", "Show the whole time"),
    ("gpu", "GPU work", "Show the time of GPU work"),
    ("previous", "◂ event", "Select the previous event of the lane"),
    ("next", "event ▸", "Select the next event of the lane"),
)


_KEYS = (
    "Drag to move, scroll to zoom. Keys: ← and → move, + and \N{MINUS SIGN} zoom, Home shows all, "
    "↑ and ↓ choose a lane, N and P select its next and previous event. A box with an outline is one event. "
    "Where events are narrower than a pixel, the height is the share of time taken. Pale: many "
    "events drawn as one."
)


SECTION = Section("timeline", "Timeline", timeline)
