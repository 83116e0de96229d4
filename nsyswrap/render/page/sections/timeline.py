"""The timeline section: a frame that the page's script draws into, its data, and a table of the lanes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from nsyswrap.analysis.gpu_gaps import gaps_of
from nsyswrap.analysis.launches import launches_of
from nsyswrap.analysis.names import by_thread, is_autograd
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import SPANS
from nsyswrap.render.colors import Style
from nsyswrap.render.page.html import (
    Markup,
    Subject,
    data,
    element,
    folded_table,
    note,
    section,
    swatch,
)
from nsyswrap.render.page.timeline import KeptEvents, Picture, focus, longest_gaps, script_data
from nsyswrap.render.timeline.lanes import Lane, curves, idle, ranges_left_out, steps, streams, threads
from nsyswrap.render.timeline.names import RANGES
from nsyswrap.reports.table import Column, Schema, Table, table_of

_CAPTURES = 8  # that get a timeline
_LANES = 60  # of one capture; the lanes with the fewest events are left out
_EVENTS = 200_000  # kept one by one, for all captures together
_CELLS = 1_000_000  # bins, for all lanes, series and captures together

LANE_TABLE = Schema(
    "timeline",
    "Timeline by lane",
    Column("group", "GPU or Thread", "GPU or host thread"),
    Column("lane", "Lane", "stream, or kind of event on the thread"),
    Column.count("events", "Events", "events in the lane, without calls inside other calls"),
    Column("busy_ns", "Busy", "time with at least one event"),
    Column("longest_ns", "Longest", "duration of the longest event"),
    Column("first_start_ns", "First", "start of the first event", 1),
    Column.count("kept", "Drawn Singly", "events that the picture shows one by one", 1),
)


def timeline(subject: Subject) -> Markup:
    """Return a picture for each capture, and the table of all lanes."""
    drawn = dict(list(subject.captures.items())[:_CAPTURES])
    for capture in subject.captures.values():
        capture.whole.release(launches_of, by_thread)  # lanes need the memory
    frames: list[Markup] = []
    tables: dict[str, Table] = {}
    for label, picture, left_out in _pictures(subject, drawn):
        tables[label] = table_of(
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
                for lane, rows in zip(picture.lanes, picture.kept.rows, strict=True)
            ],
        )
        content = script_data(drawn[label], picture, _CELLS // len(drawn))
        frames.append(_frame(label, f"timeline-{len(frames)}", content, left_out))
    all_lanes = subject.as_one(tables)
    return section(
        "timeline",
        "Timeline",
        *frames,
        None if frames else note(f"No event with a start and an end was recorded{subject.within}."),
        _left_out(len(subject.captures) - len(drawn), "capture", "open fewer captures at once"),
        folded_table(all_lanes) if all_lanes is not None else None,
    )


def _pictures(
    subject: Subject, captures: Mapping[str, Capture]
) -> Iterator[tuple[str, Picture, tuple[int, int]]]:
    """Yield label, picture and the numbers of lanes and ranges left out, for each capture with events."""
    for _, labels in groupby(captures, lambda label: captures[label].source):
        lanes = {label: every for label in labels if (every := _lanes(captures[label]))}
        ends = _ends(lanes.values()) if lanes else (0, 0)
        for label, every in lanes.items():
            order = np.argsort([-len(lane) for lane in every], kind="stable")[:_LANES]
            busiest = [every[i] for i in sorted(order.tolist())]
            answer = subject.summaries[label].answer
            where = focus(captures[label], answer.findings if answer else (), ends)
            captures[label].release_columns({"api": (*SPANS, "global_tid")})
            kept = KeptEvents(busiest, where.spots, _EVENTS // len(captures))
            picture = Picture(busiest, kept, ends, where, list(curves(captures[label])))
            left_out = (len(every) - len(busiest), ranges_left_out(captures[label], every))
            yield label, picture, left_out


def _lanes(capture: Capture) -> list[Lane]:
    causes = list(idle(capture))
    longest_gaps(capture)  # nothing else is made of the gaps, and they take much memory
    capture.release(gaps_of)
    gpu = sorted((*streams(capture), *causes), key=lambda lane: lane.group)
    host = list(threads(capture))
    ranges = [
        replace(lane, group=f"{lane.group}: modules and ranges") for lane in host if lane.family == RANGES
    ]
    calls = [
        replace(lane, group=f"{lane.group}: backward") if is_autograd(capture, lane.owner) else lane
        for lane in host
        if lane.family != RANGES
    ]
    return [lane for lane in (*steps(capture), *ranges, *gpu, *calls) if len(lane)]


def _ends(every: Iterable[list[Lane]]) -> tuple[int, int]:
    """Return the first start and the last end, in ns, so that all parts of one capture share a window."""
    lanes = [lane for part in every for lane in part]
    return min(int(lane.start_ns.min()) for lane in lanes), max(int(lane.end_ns.max()) for lane in lanes)


def _frame(label: str, name: str, content: dict[str, Any], left_out: tuple[int, int]) -> Markup:
    """Return the frame that the script draws a picture into. ``left_out`` counts lanes and NVTX ranges."""
    canvas = element(
        "canvas",
        tabindex="0",
        role="application",
        aria_label=f"Timeline of {label}",
        aria_describedby=f"{name}-keys",
    )
    has_gpu_work = content["gpu"] is not None
    buttons = (
        _button(action, text or _title(content["why"]), meaning, enabled=action != "gpu" or has_gpu_work)
        for action, text, meaning in _BUTTONS
        if text or content["why"] not in ("all", "GPU work")
    )
    return element(
        "article",
        element("h3", label),
        element("div", *buttons, _search(label), class_="tools", role="group", aria_label=f"View of {label}"),
        element("canvas", class_="overview", aria_hidden="true"),
        element("div", element("div", class_="labels"), element("div", canvas), class_="picture"),
        element("p", class_="paper note"),
        _panel(label),
        element(
            "details",
            element("summary", "Legend and keys"),
            element("div", *_legends(content["series"]), class_="legends"),
            element("p", _KEYS, id=f"{name}-keys", class_="note keys"),
            class_="numbers",
        ),
        _left_out(left_out[0], "lane", "those with the fewest events"),
        _left_out(left_out[1], "NVTX range", "nested too deep, or ended on another thread"),
        data(content, name),
        class_="timeline",
        data_content=name,
        data_label=label,
    )


def _panel(label: str) -> Markup:
    """Return where the script writes. It stays on the screen with the picture. Long texts scroll."""
    return element(
        "div",
        element("p", class_="limit note"),
        element("p", "Point at the picture or tap it.", class_="readout", role="status"),
        _button(*_WAY_BACK, enabled=True),
        element("div", class_="measure", role="status", hidden=True),
        class_="panel",
        tabindex="0",
        role="group",
        aria_label=f"Details of {label}",
    )


def _legends(series: Iterable[Mapping[str, Any]]) -> Iterator[Markup]:
    families: dict[str, list[Markup]] = {}
    for look in series:
        item = element("li", swatch(Style(look["hue"], look["texture"])), look["name"])
        families.setdefault(look["family"], []).append(item)
    for family, items in families.items():
        yield element("ul", element("li", f"{family}:"), *items, class_="legend")


def _search(label: str) -> Markup:
    field = element("input", type="search", aria_label=f"Search {label}", autocomplete="off")
    return element("span", element("label", "Search ", field), " ", element("output"), class_="search")


def _button(action: str, text: str, meaning: str, *, enabled: bool) -> Markup:
    return element(
        "button",
        text,
        type="button",
        data_action=action,
        disabled=not enabled,
        aria_label=meaning,
        title=meaning if enabled else f"{meaning}: none recorded",
        hidden=action == "back",
    )


def _title(text: str) -> str:
    return text[0].upper() + text[1:]


def _left_out(count: int, noun: str, reason: str) -> Markup | None:
    return note(f"{count:,} {noun}{'' if count == 1 else 's'} left out: {reason}.") if count > 0 else None


_BUTTONS = (
    ("in", "+", "Zoom in"),
    ("out", "\N{MINUS SIGN}", "Zoom out"),
    ("left", "←", "Earlier"),
    ("right", "→", "Later"),
    ("undo", "Back", "Go back to the view before"),
    ("home", "All", "Show the whole time"),
    ("opens", "", "Show the time that the page opened on"),
    ("gpu", "GPU work", "Show the time of GPU work"),
    ("previous", "◂ same", "Select the previous event of the same name"),
    ("next", "same ▸", "Select the next event of the same name"),
    ("lanes", "All lanes", "Show the lanes that are folded"),
)
_WAY_BACK = ("back", "Nearest event", "Show the event nearest to this view")


_KEYS = (
    "Drag to move, Ctrl and scroll to zoom, drag with Shift to measure, double-click to fit. Keys: ← and → "
    "move, + and \N{MINUS SIGN} zoom, Home shows all. U goes back, F fits the selected event, / searches. "
    "↑ and ↓ choose a lane; comma and full stop select its previous and next event. N and P select the "
    "next and previous event of the same name. A box is one event. Where events are narrower than a pixel, "
    "the height is the share of time taken. Faint: many events drawn as one."
)
