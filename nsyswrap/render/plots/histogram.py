"""Plot how long the executions of the kernels with most time took.

A bar is a row of ``kernel_histogram``: a class of durations of one kernel. Axes of one kernel in several
captures are alike. An axis of times that differ by more than ten times is logarithmic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from matplotlib.axes import Axes

from nsyswrap.analysis.kernel_names import distinct_names
from nsyswrap.base.text import counted
from nsyswrap.base.units import Unit, duration
from nsyswrap.capture.capture import Capture
from nsyswrap.render.colors import LAUNCHES
from nsyswrap.render.plots import Plot, notes_of, table_for
from nsyswrap.render.plots.figure import (
    NAMES,
    WIDTH_IN,
    Sheet,
    columns_in,
    count_axis,
    fitted,
    for_title,
    hue,
    log_axis,
    sheet,
    time_axis,
)

_MOST, _BODY_IN = 6, 1.35  # axes, and the height of each
_LOG_FROM = 10
_STYLE = LAUNCHES["repeat"]

Classes = list[tuple[int, int, int]]  # from and to in ns, executions


class Durations(NamedTuple):
    """The classes of each kernel, the total time of each, and the notes of the report."""

    classes: Mapping[str | None, Classes]
    total_ns: Mapping[str | None, int]
    notes: list[str]


def compute(capture: Capture) -> Durations:
    """Return the classes of durations of a capture's kernels; raises NotInCapture."""
    table = table_for(capture, "kernel_histogram")
    classes: dict[str | None, Classes] = {}
    totals: dict[str | None, int] = {}
    for row in table.records():
        classes.setdefault(row["name"], []).append((row["from_ns"], row["to_ns"], row["instances"]))
        totals[row["name"]] = row["of_kernel_ns"]
    return Durations(classes, totals, notes_of(table))


def figure(data: Mapping[str, Durations], program: str = "") -> Sheet:
    """Draw the kernels with the most time over all captures, an axis for each kernel and capture."""
    totals: Counter[str | None] = Counter()
    for part in data.values():
        totals.update(part.total_ns)
    names = [name for name, _ in totals.most_common(max(_MOST // len(data), 1))]
    drawn = [(name, label) for name in names for label, part in data.items() if name in part.classes]
    notes = list(dict.fromkeys(note for part in data.values() for note in part.notes))
    if rest := len(totals) - len(names):
        notes.append(f"not drawn: {counted(rest, 'more kernels')}")
    readable = distinct_names({name for name in totals if name})
    picture = sheet(_BODY_IN * len(drawn), _title(data, names[0], readable), notes, program=program)
    grid = picture.subplots(len(drawn), 1, squeeze=False)[:, 0]
    for axes, (name, label) in zip(grid, drawn, strict=True):
        every = [one for part in data.values() for one in part.classes.get(name, [])]
        _bars(axes, data[label].classes[name], every)
        text = readable.get(name or "", name)
        texts = [text, label] if len(data) > 1 else [text]
        axes.set_title(", ".join(fitted(texts, columns_in(WIDTH_IN) // (len(texts) + 1))), **NAMES)
    return picture


def _title(data: Mapping[str, Durations], name: str | None, readable: Mapping[str, str]) -> str:
    classes = [one for part in data.values() for one in part.classes.get(name, [])]
    number = sum(count for *_, count in classes)
    ends = duration(min(low for low, *_ in classes)), duration(max(high for _, high, _ in classes))
    kernel = for_title(readable.get(name or ""))
    holding = sum(name in part.classes for part in data.values())
    of = f"{len(data)} captures" if holding == len(data) else f"{holding} of {len(data)} captures"
    where = f" in {of}" if len(data) > 1 else ""
    return f"{kernel}: {counted(number, 'executions')} of {ends[0]} to {ends[1]}{where}"


def _bars(axes: Axes, classes: Classes, every: Classes) -> None:
    """Draw the classes of a kernel. ``every``: those of all captures, for the same axis."""
    low, high = max(min(one[0] for one in every), 1), max(one[1] for one in every)
    for start, end, count in classes:
        axes.bar(max(start, 1), count, max(end, 2) - max(start, 1), align="edge", color=hue(_STYLE))
    margin = min(0.05 * (high - low) or 1, low / 2)
    axes.set(xlim=(low - margin, high + margin), ylim=(0, 1.1 * max(count for *_, count in every)))
    if high > _LOG_FROM * low:
        log_axis(axes, "x", Unit.NS, "duration")
    else:
        time_axis(axes.xaxis, high, "duration")
    count_axis(axes.yaxis, "executions", 3)


PLOT = Plot("histogram", compute, figure)
