"""How long launches take to reach the GPU: a histogram, with the first launch of each kernel apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.launches import launches_of
from nsyswrap.base.units import Unit, duration
from nsyswrap.render.page.colors import BLUE, SOLID, STRIPES, VERMILION, Look, filled, swatch
from nsyswrap.render.page.html import Markup, Section, element, missing, section
from nsyswrap.render.page.tables import folded
from nsyswrap.reports.table import Column, Report, no_capture, table_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture
    from nsyswrap.render.page.subject import Subject
    from nsyswrap.reports.table import Table

_PER_DECADE = 6
_HEIGHT = 90  # of each half, in pixels
_LOOKS = {"repeat": Look(BLUE, SOLID), "first": Look(VERMILION, STRIPES)}

HISTOGRAM = Report(
    name="launch_latency",
    title="Launch latency",
    layer="analysis",
    needs=(("kernel", "graph"), ("api",)),
    columns=(
        Column("from_ns", "From", Unit.NS, "least latency of the row"),
        Column("to_ns", "To", Unit.NS, "latency below which its launches lie"),
        Column("repeat", "Repeat", Unit.COUNT, "repeat launches into a stream that had been idle"),
        Column("first", "First", Unit.COUNT, "the same of first launches: of each kernel in its process"),
    ),
    compute=no_capture,
)


def latency(subject: Subject) -> Markup:
    """Return a histogram per capture, all on one axis, and its numbers."""
    found = {label: latencies(subject.captures[label]) for label in subject.tables("launch_overhead")}
    every = np.concatenate([np.empty(0, np.int64), *(part for pair in found.values() for part in pair)])
    if not len(every):
        said = f"No launch into an idle stream was recorded{subject.within}: "
        said += "of others a latency cannot be told from waiting."
        reasons = subject.missing("launch_overhead")
        return section("latency", "Launch latency", missing(reasons) if reasons else element("p", said))
    edges = _edges(every)
    tables = {label: _table(edges, *pair) for label, pair in found.items() if any(map(len, pair))}
    made = subject.as_one(tables)
    return section(
        "latency",
        "Launch latency",
        element("p", "From the launch call to the start on the GPU, of launches into an idle stream."),
        element("div", *(_histogram(*pair) for pair in tables.items()), class_="histograms"),
        folded(made) if made is not None else None,
    )


def latencies(capture: Capture) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the latencies of repeat launches and of first ones, into idle streams, in ns.

    As in ``launch_overhead``; those that seem to begin before their call are left out. A stream in which
    nothing had run yet was idle too, where the launch is a first one.
    """
    launches = launches_of(capture)
    told = launches.uncontended & (launches.latency_ns >= 0)
    return launches.latency_ns[told & ~launches.first], launches.latency_ns[told & launches.first]


def _edges(every: NDArray[Any]) -> NDArray[Any]:
    """Return whole ns, equally far apart on a logarithmic axis, around all values; 0 counts as 1."""
    steps = np.log10(np.maximum(every, 1)) * _PER_DECADE
    first, last = int(np.floor(steps.min())), int(np.floor(steps.max())) + 1
    edges = np.unique(np.round(10.0 ** (np.arange(first, last + 1) / _PER_DECADE)).astype(np.int64))
    outer = min(edges[0], int(every.min())), max(edges[-1], int(every.max()) + 1)
    return np.array([outer[0], *edges[1:-1], outer[1]])


def _table(edges: NDArray[Any], repeat: NDArray[Any], first: NDArray[Any]) -> Table:
    counts = [np.histogram(part, np.append(edges, edges[-1] + 1))[0][:-1] for part in (repeat, first)]
    columns = (edges[:-1], edges[1:], *counts)
    return table_of(HISTOGRAM, list(zip(*(column.tolist() for column in columns), strict=True)))


def _histogram(label: str, table: Table) -> Markup:
    parts = {kind: np.asarray(table.data[kind]) for kind in _LOOKS}
    told = ", ".join(f"{int(part.sum()):,} {kind}" for kind, part in parts.items())
    halves = (_half(kind, part) for kind, part in parts.items() if part.any())
    drawing = element("div", *halves, _axis(table), class_="histogram")
    return element("div", element("h3", f"{label}: {told}"), drawing)


def _half(kind: str, counts: NDArray[Any]) -> Markup:
    """Return one kind of launches; its highest bar is as high as there is room."""
    width, most = 100 / len(counts), int(counts.max())
    drawn: list[Markup] = []
    for i, count in enumerate(counts.tolist()):
        height = max(_HEIGHT * count / most, 1.5 if count else 0)
        place = {"x": f"{i * width:.3f}%", "width": f"{width * 0.94:.3f}%"}
        place |= {"y": f"{_HEIGHT - height:.1f}", "height": f"{height:.1f}"}
        if count:
            drawn.append(element("g", element("title", f"{count:,}"), *filled(_LOOKS[kind], **place)))
    said = f"{kind} launches, most in one bar: {most:,}"
    svg = element("svg", *drawn, class_="columns", height=str(_HEIGHT), role="img", aria_label=said)
    caption = element("figcaption", swatch(_LOOKS[kind]), f"{kind} launches, up to {most:,} a bar")
    return element("figure", caption, svg)


def _axis(table: Table) -> Markup:
    marks = (
        element("text", text, x=f"{place:.2f}%", y="14", text_anchor=anchor)
        for place, text, anchor in _ticks([*table.data["from_ns"], table.data["to_ns"][-1]])
    )
    return element("svg", *marks, class_="axis", height="18", aria_hidden="true")


def _ticks(edges: Sequence[Any]) -> Iterator[tuple[float, str, str]]:
    """Yield place, text and anchor of the edges that get a label: at most five, the outer ones among them."""
    last = len(edges) - 1
    for i in dict.fromkeys(round(part * last / 4) for part in range(5)):
        anchor = "start" if i == 0 else "end" if i == last else "middle"
        yield 100 * i / last, duration(int(edges[i])), anchor


SECTION = Section("latency", "Latency", latency, reads=("launch_overhead",))
