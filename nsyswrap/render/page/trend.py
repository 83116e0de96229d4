"""Draw a row over points in time as SVG: its median, the spread of the runs, and where it changed.

Places are percentages, so that a picture fits any screen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from nsyswrap.analysis.compare.history import Change, History, Series, stretches
from nsyswrap.analysis.compare.model import Obstacle
from nsyswrap.base.units import duration
from nsyswrap.render.page.html import Markup, element

SIGNS = {"slower": "▲", "faster": "▼", "clock": "◆"}
_HEIGHT = "96"  # in pixels
_EDGE = 4.0  # percent of the width beside the first and the last point
_LEAST_SPAN = 0.1  # the axis shows at least this share of the value: noise must not fill the picture
_MARGIN = 0.12  # of the span, above and below


class _Scale:
    """The places of points and times, in percent of the picture from its upper left corner."""

    def __init__(self, series: Series) -> None:
        values = [value for point in series.values_ns for value in point]
        low, high = min(values), max(values)
        missing = max(_LEAST_SPAN * (low + high) / 2 - (high - low), 0)
        self.low = max(low - missing / 2, 0)
        self.high = max(high + missing / 2, self.low + 1)
        self._points = len(series.values_ns)

    def x(self, point: float) -> float:
        steps = self._points - 1
        return _EDGE + (100 - 2 * _EDGE) * point / steps if steps else 50.0

    def y(self, ns: float) -> float:
        part = (ns - self.low) / (self.high - self.low)
        return 100 * (1 - _MARGIN - (1 - 2 * _MARGIN) * part)


def trend(history: History, series: Series, name: str) -> Markup:
    """Return the picture of a series with the ends of both axes."""
    scale = _Scale(series)
    svg = element(
        "svg",
        element(
            "svg",
            *_lines(history, series, scale),
            viewBox="0 0 100 100",
            preserveAspectRatio="none",
            width="100%",
            height="100%",
        ),
        *_breaks(history, scale),
        *(_mark(change, history, scale) for change in series.found),
        *_points(history, series, scale),
        class_="trend",
        height=_HEIGHT,
        role="img",
        aria_label=_in_words(history, series, name),
    )
    ends = [duration(scale.high), duration(scale.low)]
    labels = (history.points[0].label, history.points[-1].label) if len(history.points) > 1 else ("", "")
    return element(
        "div",
        element("div", *(element("span", text) for text in ends), class_="scale", aria_hidden="true"),
        svg,
        element("div", *(element("span", text) for text in labels), class_="span", aria_hidden="true"),
        class_="framed",
    )


def _lines(history: History, series: Series, scale: _Scale) -> Iterator[Markup]:
    """Yield the band of the runs and the line of the medians, for each part without a gap."""
    for part in _parts(history, series):
        low, high = ([(scale.x(i), scale.y(end(series.values_ns[i]))) for i in part] for end in (min, max))
        yield element("polygon", points=_corners([*low, *reversed(high)]), class_="band")
        middle = ((i, series.medians_ns[i]) for i in part)
        yield element(
            "polyline",
            points=_corners([(scale.x(i), scale.y(ns)) for i, ns in middle if ns is not None]),
            class_="line",
        )


def _parts(history: History, series: Series) -> Iterator[list[int]]:
    for stretch in stretches(history.points):
        for there, numbers in groupby(stretch, lambda i: bool(series.values_ns[i])):
            if there:
                yield list(numbers)


def _corners(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.2f},{y:.2f}" for x, y in places)


def _breaks(history: History, scale: _Scale) -> Iterator[Markup]:
    for number, point in enumerate(history.points):
        if point.breaks:
            x = f"{scale.x(number - 0.5):.2f}%"
            title = element("title", "; ".join(break_text(point.breaks)))
            yield element("line", title, x1=x, x2=x, y1="0", y2="100%", class_="break")


def break_text(breaks: Sequence[Obstacle]) -> list[str]:
    """Return what differs between two points."""
    return [f"{one.about}: {one.base} → {one.new}" for one in breaks]


def _mark(change: Change, history: History, scale: _Scale) -> Markup:
    x = f"{scale.x(change.since):.2f}%"
    outcome = change.judgement.outcome
    title = element("title", f"{outcome} since {history.points[change.since].label}")
    line = element("line", x1=x, x2=x, y1="14", y2="100%")
    return element("g", title, line, element("text", SIGNS[outcome], x=x, y="12"), class_=f"mark-{outcome}")


def _points(history: History, series: Series, scale: _Scale) -> Iterator[Markup]:
    for number, (point, values) in enumerate(zip(history.points, series.values_ns, strict=True)):
        ns = series.medians_ns[number]
        if ns is None:
            continue
        x, low, high = f"{scale.x(number):.2f}%", *(f"{scale.y(end(values)):.2f}%" for end in (min, max))
        runs = (
            "1 run"
            if len(values) == 1
            else f"{len(values)} runs, {duration(min(values))} to {duration(max(values))}"
        )
        yield element(
            "g",
            element("title", f"{point.label}: {duration(ns)} ({runs})"),
            element("line", x1=x, x2=x, y1=low, y2=high, class_="spread"),
            element(
                "circle", cx=x, cy=f"{scale.y(ns):.2f}%", r="3", class_="" if point.is_compared else "few"
            ),
            class_="point",
        )


def _in_words(history: History, series: Series, name: str) -> str:
    known = [
        (point.label, ns)
        for point, ns in zip(history.points, series.medians_ns, strict=True)
        if ns is not None
    ]
    (first, start), (last, end) = known[0], known[-1]
    return f"{name}: {duration(start)} at {first}, {duration(end)} at {last}"
