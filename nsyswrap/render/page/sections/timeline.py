"""The timeline: a picture that the page's script draws, and its numbers lane by lane."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.intervals import union
from nsyswrap.analysis.gpu_operations import KINDS
from nsyswrap.base.units import Unit
from nsyswrap.render.page.chosen import chosen
from nsyswrap.render.page.content import Shown, content
from nsyswrap.render.page.html import Markup, data, element
from nsyswrap.render.page.section import section
from nsyswrap.render.page.streams import streams
from nsyswrap.render.page.tables import folded
from nsyswrap.render.page.threads import ranges_left_out, threads
from nsyswrap.reports.table import Column, Report, no_capture, table_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from nsyswrap.capture.capture import Capture
    from nsyswrap.render.page.lanes import Lane
    from nsyswrap.render.page.subject import Subject
    from nsyswrap.reports.table import Table

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
