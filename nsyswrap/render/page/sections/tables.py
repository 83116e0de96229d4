"""Sections with a table each: GPU idle time, launch latency, and copies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.launches import launches_of
from nsyswrap.base.text import counted
from nsyswrap.base.units import Unit, duration, human
from nsyswrap.capture.capture import Capture
from nsyswrap.render import colors
from nsyswrap.render.colors import LAUNCHES
from nsyswrap.render.page.charts import filled, single_bar, swatch
from nsyswrap.render.page.html import (
    Markup,
    Section,
    both_parts,
    element,
    empty,
    missing,
    section,
    verdict_paragraphs,
)
from nsyswrap.render.page.subject import Subject
from nsyswrap.render.page.tables import folded_table
from nsyswrap.reports.table import Column, Schema, Table, table_of

_MOST_GAPS = 50  # in the table of the longest gaps
_ROWS = 100  # of launches and of devices
_BINS_PER_DECADE = 6
_HEIGHT = 90  # of each half, in pixels
HISTOGRAM = Schema(
    name="launch_latency",
    title="Launch latency",
    columns=(
        Column("from_ns", "From", Unit.NS, "lower end of the latency range"),
        Column("to_ns", "To", Unit.NS, "upper end of the latency range, not part of it"),
        Column("repeat", "Repeat Launches", Unit.COUNT, "repeat launches into an idle stream"),
        Column(
            "first",
            "First Launches",
            Unit.COUNT,
            "first launches of a kernel in its process, into an idle stream",
        ),
    ),
)
_MOST_BARS = 30  # the table has all classes


def idle(subject: Subject) -> Markup:
    """Return the table of the longest gaps."""
    return section("idle", "GPU idle time", both_parts(subject, _gaps))


def _gaps(subject: Subject) -> Iterator[Markup | None]:
    yield verdict_paragraphs(subject.tables("gpu_idle", _MOST_GAPS))
    yield empty(subject, "gpu_idle")
    gaps = subject.table("gpu_idle")
    if gaps is not None and len(gaps):
        yield folded_table(gaps, f"{min(_MOST_GAPS, len(gaps))} longest gaps", top=_MOST_GAPS)
    yield missing(subject.missing("gpu_idle"))
    times = subject.table("gpu_time")
    yield folded_table(times, top=_ROWS) if times is not None else None


IDLE = Section("idle", "GPU idle time", idle, of_gpu=True, turn=1)


def latency(subject: Subject) -> Markup:
    """Return a histogram for each capture, all on one axis, and their numbers."""
    by_label = {label: latencies(subject.captures[label]) for label in subject.tables("launch_overhead")}
    every = np.concatenate([np.empty(0, np.int64), *(part for pair in by_label.values() for part in pair)])
    if not len(every):
        text = f"No launch into an idle stream was recorded{subject.within}. "
        text += "In a busy stream, latency cannot be separated from waiting."
        reasons = subject.missing("launch_overhead")
        return section("latency", "Launch latency", missing(reasons) if reasons else element("p", text))
    edges = _edges(every)
    tables = {label: _table(edges, *pair) for label, pair in by_label.items() if any(map(len, pair))}
    all_tables, launches = subject.as_one(tables), subject.table("launch_overhead")
    return section(
        "latency",
        "Launch latency",
        element(
            "p",
            "From the start of the launch call to the start on the GPU, for launches into an idle stream.",
        ),
        element("div", *(_histogram(subject, *pair) for pair in tables.items()), class_="histograms"),
        folded_table(all_tables) if all_tables is not None else None,
        folded_table(launches, top=_ROWS) if launches is not None else None,
    )


def latencies(capture: Capture) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the latencies in ns of repeated and of first launches into idle streams.

    The definition is that of ``launch_overhead``. Launches that seem to start before their call are left out.
    A stream that has not run anything counts as idle if the launch is a first one.
    """
    launches = launches_of(capture)
    measurable = launches.uncontended & (launches.latency_ns >= 0)
    return launches.latency_ns[measurable & ~launches.first], launches.latency_ns[measurable & launches.first]


def _edges(every: NDArray[Any]) -> NDArray[Any]:
    """Return bin edges in whole ns, equally spaced on a logarithmic axis. 0 ns counts as 1 ns."""
    steps = np.log10(np.maximum(every, 1)) * _BINS_PER_DECADE
    first, last = int(np.floor(steps.min())), int(np.floor(steps.max())) + 1
    edges = np.unique(np.round(10.0 ** (np.arange(first, last + 1) / _BINS_PER_DECADE)).astype(np.int64))
    outer = min(edges[0], int(every.min())), max(edges[-1], int(every.max()) + 1)
    return np.array([outer[0], *edges[1:-1], outer[1]])


def _table(edges: NDArray[Any], repeat: NDArray[Any], first: NDArray[Any]) -> Table:
    counts = [np.histogram(part, np.append(edges, edges[-1] + 1))[0][:-1] for part in (repeat, first)]
    columns = (edges[:-1], edges[1:], *counts)
    return table_of(HISTOGRAM, list(zip(*(column.tolist() for column in columns), strict=True)))


def _histogram(subject: Subject, label: str, table: Table) -> Markup:
    parts = {kind: np.asarray(table.data[kind]) for kind in LAUNCHES}
    counts = ", ".join(_launches(kind, int(part.sum())) for kind, part in parts.items())
    halves = (_half(kind, part, table) for kind, part in parts.items() if part.any())
    drawing = element("div", *halves, _axis(table), class_="histogram")
    return element("div", element("h3", subject.heading(label, counts)), drawing)


def _launches(kind: str, count: int) -> str:
    return counted(count, f"{kind} launches")


def _half(kind: str, counts: NDArray[Any], table: Table) -> Markup:
    """Return the histogram of one kind of launches. Its highest bar has the full height."""
    width, most = 100 / len(counts), int(counts.max())
    drawn: list[Markup] = []
    ends = zip(
        np.asarray(table.data["from_ns"]).tolist(), np.asarray(table.data["to_ns"]).tolist(), strict=True
    )
    for i, (count, (low, high)) in enumerate(zip(counts.tolist(), ends, strict=True)):
        height = max(_HEIGHT * count / most, 1.5 if count else 0)
        place = {"x": f"{i * width:.3f}%", "width": f"{width * 0.94:.3f}%"}
        place |= {"y": f"{_HEIGHT - height:.1f}", "height": f"{height:.1f}"}
        if count:
            text = f"{duration(low)} to {duration(high)}: {_launches(kind, count)}"
            drawn.append(element("g", element("title", text), *filled(LAUNCHES[kind], **place)))
    text = f"{kind} launches, tallest bar: {most:,}"
    svg = element("svg", *drawn, class_="columns", height=str(_HEIGHT), role="img", aria_label=text)
    caption = element("figcaption", swatch(LAUNCHES[kind]), text)
    return element("figure", caption, svg)


def _axis(table: Table) -> Markup:
    marks = (
        element("text", text, x=f"{place:.2f}%", y="14", text_anchor=anchor)
        for place, text, anchor in _ticks([*table.data["from_ns"], table.data["to_ns"][-1]])
    )
    return element("svg", *marks, class_="axis", height="18", aria_hidden="true")


def _ticks(edges: Sequence[Any]) -> Iterator[tuple[float, str, str]]:
    """Yield position in percent, text and anchor of at most five labels, the outer edges among them."""
    last = len(edges) - 1
    for i in dict.fromkeys(round(part * last / 4) for part in range(5)):
        anchor = "start" if i == 0 else "end" if i == last else "middle"
        yield 100 * i / last, duration(int(edges[i])), anchor


LATENCY = Section("latency", "Launch latency", latency, of_gpu=True)


def copies(subject: Subject) -> Markup:
    """Return a bar for each class of copies, as long as its bandwidth."""
    return section("copies", "Copies", both_parts(subject, _copies))


def _copies(subject: Subject) -> Iterator[Markup | None]:
    table = subject.table("memcpy_bandwidth")
    if table is not None:
        rows = table.records(_MOST_BARS)
        most = max((row["bandwidth_bytes_per_s"] or 0.0 for row in rows), default=0.0)
        yield verdict_paragraphs(subject.tables("memcpy_bandwidth"))
        yield empty(subject, "memcpy_bandwidth")
        yield element("div", *(_bar(row, most) for row in rows), class_="bars")
        yield folded_table(table)
    yield missing(subject.missing("memcpy_bandwidth"))


def _bar(row: Mapping[str, Any], most: float) -> Markup:
    bandwidth = row["bandwidth_bytes_per_s"]
    label = str(row["operation"]).removeprefix("[CUDA ").removesuffix("]").removeprefix("memcpy ")
    kinds = " → ".join(kind for kind in (row["src_kind"], row["dst_kind"]) if kind)
    parts = (
        row.get("capture"),
        label,
        kinds,
        f"≤ {row['up_to']}".replace(" ", "\N{NO-BREAK SPACE}") if row["up_to"] else None,
    )
    one, more = ("memset", "memsets") if label == "memset" else ("copy", "copies")
    number = f"{row['count']:,} {one if row['count'] == 1 else more}"
    size = f"{human(row['total_bytes'], Unit.BYTES)} in {number}"
    style = colors.copy_color(label)
    return element(
        "div",
        element("span", swatch(style), " · ".join(filter(None, parts)), class_="label"),
        single_bar(bandwidth / most, style) if bandwidth else element("span"),
        element("span", element("b", human(bandwidth, Unit.BYTES_PER_S)), f" · {size}", class_="value"),
    )


COPIES = Section("copies", "Copies", copies, of_gpu=True)
