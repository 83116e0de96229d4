"""The timeline: a picture that the page's script draws, and its numbers lane by lane.

The script gets lanes, single events column by column, and bins of the others. All times are in ns after
``origin``, the time of the first event. Columns whose values only rise are written as differences, which are
shorter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.intervals import union
from nsyswrap.analysis.gpu_operations import KINDS, gpu_operations_of
from nsyswrap.base.units import Unit
from nsyswrap.render.formats.text import told_apart
from nsyswrap.render.page import colors as colours
from nsyswrap.render.page.density import PER_MILLE, chosen, density, level
from nsyswrap.render.page.html import Markup, Section, data, element, plain, section
from nsyswrap.render.page.lanes import CALLS, COPIES, KERNELS, RANGES, ranges_left_out, streams, threads
from nsyswrap.render.page.tables import folded
from nsyswrap.reports.table import Column, Report, no_capture, table_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture
    from nsyswrap.render.page.density import Level
    from nsyswrap.render.page.lanes import Lane
    from nsyswrap.render.page.subject import Subject
    from nsyswrap.reports.table import Table


_MOST_BINS, _FEWEST_BINS = 4096, 128
_NAME = 300  # characters of one name; the tables have all of it
_LOOKS = {KERNELS: colours.KERNELS, COPIES: colours.COPIES, CALLS: colours.CALLS, RANGES: colours.RANGES}
_NO_CALL, _CALL_NOT_KEPT = -1, -2

_CAPTURES = 8  # that get a timeline
_LANES = 60  # of one capture; those of the fewest events are left out, and counted
_EVENTS = 9_000  # kept one by one, of all captures together
_CELLS = 140_000  # bins of all lanes, series and captures together

LANE_TABLE = Report(
    name="timeline",
    title="Timeline by lane",
    layer="analysis",
    needs=((*KINDS, "api", "nvtx"),),
    columns=(
        Column("group", "Of", Unit.TEXT, "the device or thread"),
        Column("lane", "Lane", Unit.TEXT, "stream, or kind of event on the thread"),
        Column("events", "Events", Unit.COUNT, "events in the lane; calls inside calls are none"),
        Column("busy_ns", "Busy", Unit.NS, "time in which at least one of them went on"),
        Column("longest_ns", "Longest", Unit.NS, "duration of the longest one"),
        Column("first_start_ns", "First", Unit.NS, "start of the first one", 1),
        Column("kept", "One by One", Unit.COUNT, "events that the picture shows one by one", 1),
    ),
    compute=no_capture,
)


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
    operations = gpu_operations_of(capture)
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


def timeline(subject: Subject) -> Markup:
    """Return a picture per capture, and the numbers of all lanes."""
    drawn = dict(list(subject.captures.items())[:_CAPTURES])
    pictures: list[Markup] = []
    tables: dict[str, Table] = {}
    for label, shown, lanes_left_out in _shown(drawn):
        tables[label] = _table(shown)
        made = content(drawn[label], shown, _CELLS // len(drawn))
        left_out = (lanes_left_out, ranges_left_out(drawn[label]))
        pictures.append(_picture(label, f"timeline-{len(pictures)}", made, left_out))
    numbers = subject.as_one(tables)
    return section(
        "timeline",
        "Timeline",
        *pictures,
        None if pictures else _note(f"Nothing was recorded{subject.within} that has a time."),
        _left_out(len(subject.captures) - len(drawn), "captures have no timeline here: name fewer at once"),
        folded(numbers) if numbers is not None else None,
    )


def _shown(captures: Mapping[str, Capture]) -> Iterator[tuple[str, Shown, int]]:
    """Yield label, what is shown, and how many lanes are left out; nothing of captures without events."""
    for _, labels in groupby(captures, lambda label: captures[label].source):
        lanes = {label: every for label in labels if (every := _lanes(captures[label]))}
        for label, every in lanes.items():
            busiest = _busiest(every)
            kept = chosen(captures[label], busiest, _EVENTS // len(captures))
            yield label, Shown(busiest, kept, _ends(lanes.values())), len(every) - len(busiest)


def _lanes(capture: Capture) -> list[Lane]:
    return [lane for lane in (*streams(capture), *threads(capture)) if len(lane)]


def _ends(every: Iterable[list[Lane]]) -> tuple[int, int]:
    """Return the first start and the last end of all lanes: parts of one capture have one window."""
    lanes = [lane for part in every for lane in part]
    return min(int(lane.start_ns.min()) for lane in lanes), max(int(lane.end_ns.max()) for lane in lanes)


def _busiest(every: list[Lane]) -> list[Lane]:
    """Return the lanes of the most events, in their order."""
    order = np.argsort([-len(lane) for lane in every], kind="stable")[:_LANES]
    return [every[i] for i in sorted(order.tolist())]


def _table(shown: Shown) -> Table:
    return table_of(
        LANE_TABLE,
        [
            (
                lane.group,
                lane.title,
                len(lane),
                union(lane.start_ns, lane.end_ns).length,
                int((lane.end_ns - lane.start_ns).max()),
                int(lane.start_ns.min()),
                len(rows),
            )
            for lane, rows in zip(shown.lanes, shown.kept, strict=True)
        ],
    )


def _picture(label: str, name: str, made: dict[str, Any], left_out: tuple[int, int]) -> Markup:
    """Return the frame that the script draws into."""
    canvas = element(
        "canvas",
        tabindex="0",
        role="application",
        aria_label=f"Timeline of {label}",
        aria_describedby=f"{name}-keys",
    )
    buttons = (_button(*button, of_use=button[0] != "gpu" or made["gpu"] is not None) for button in _BUTTONS)
    return element(
        "article",
        element("h3", label),
        element("div", *buttons, class_="tools", role="group", aria_label=f"View of {label}"),
        element("p", "Point at the picture, tap it, or use the keys.", class_="readout", role="status"),
        element("div", element("div", class_="labels"), element("div", canvas), class_="picture"),
        element("div", class_="legends"),
        element("p", _KEYS, id=f"{name}-keys", class_="note keys"),
        _left_out(left_out[0], "lanes, those of the fewest events, are left out"),
        _left_out(left_out[1], "NVTX ranges, deep in others or ended on another thread, are left out"),
        data(made, name),
        class_="timeline",
        data_content=name,
    )


def _button(action: str, text: str, meaning: str, *, of_use: bool) -> Markup:
    told = {"aria_label": meaning, "title": meaning if of_use else f"{meaning}: there is none"}
    return element("button", text, type="button", data_action=action, disabled=not of_use, **told)


def _note(text: str) -> Markup:
    return element("p", text, class_="note")


def _left_out(count: int, what: str) -> Markup | None:
    return _note(f"{count} more {what}.") if count > 0 else None


_BUTTONS = (
    ("in", "+", "Zoom in"),
    ("out", "\N{MINUS SIGN}", "Zoom out"),
    ("left", "←", "Earlier"),
    ("right", "→", "Later"),
    ("home", "All", "Show all the time"),
    ("gpu", "GPU work", "Show the time of GPU work"),
    ("previous", "◂ event", "Select the previous event of the lane"),
    ("next", "event ▸", "Select the next event of the lane"),
)


_KEYS = (
    "Drag to move, turn the wheel to zoom. Keys: arrows left and right move, + and \N{MINUS SIGN} zoom, Home "
    "shows all; arrows up and down choose a lane, N and P the next and the previous event in it. Heights are "
    "the share of time taken where events are narrower than a pixel, and pale where the page does not keep "
    "them one by one; what has an outline is a single event."
)


SECTION = Section("timeline", "Timeline", timeline)
