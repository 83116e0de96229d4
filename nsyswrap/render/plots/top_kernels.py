"""Which kernels take the time: bars of their total time, with how often they ran and the median.

The times are those of ``cuda_gpu_kern_sum``; the shares are of all the GPU's operations: those of
``cuda_gpu_sum``, and graphs that were recorded as a whole. Of several captures each kernel has one bar for
each.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.kernel_classes import kernel_classes
from nsyswrap.analysis.kernel_names import OTHER
from nsyswrap.analysis.names import durations, name_codes
from nsyswrap.base.units import Unit, duration, human, percent
from nsyswrap.render.colors import kernel_color
from nsyswrap.render.plots import Plot, notes_of, table_for
from nsyswrap.render.plots.figure import (
    GREY,
    NAMES,
    WIDTH_IN,
    columns_in,
    fitted,
    for_title,
    sheet,
    time_axis,
)
from nsyswrap.reports import find_report

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture
    from nsyswrap.render.plots.figure import Sheet

    Rows = Mapping[str | None, "Row"]

_MOST_BARS, _MOST_KERNELS, _FEWEST_KERNELS = 40, 12, 3
_LINE_IN, _AXIS_IN = 0.185, 0.75
_BAR, _GAP = 0.8, 0.5  # of a line
_BARS_PART = 0.6  # of the axes' width; the figures have the rest
_COLUMNS = (("total", 0.72), ("of GPU time", 0.85), ("count", 0.91), ("median", 1.0))
_LABEL_COLUMNS = 20
_WHOLE, _NEARLY_ALL = 0.1, 0.995  # below the one and above the other a share has a decimal
_GRAPHS = "graphs recorded as a whole"


@dataclass(frozen=True)
class Row:
    """One kernel in one capture; ``share`` is the part of the time of all its GPU operations."""

    total_ns: int
    count: int
    med_ns: float
    share: float
    kernel_class: str


@dataclass(frozen=True)
class Kernels:
    """The kernels of a capture by name, those of the most time first, and the shares of what is no kernel."""

    rows: dict[str | None, Row]
    others: dict[str, float]
    notes: list[str]


def read(capture: Capture) -> Kernels:
    """Return the kernels of a capture; raises NotInCapture."""
    table = table_for(capture, "cuda_gpu_kern_sum")
    names, classes = table.data["name"], _classes(capture)
    spent, *figures = (np.asarray(table.data[column]) for column in ("total_ns", "instances", "med_ns"))
    graphs = durations(capture, "graph") if capture.has("graph") else np.empty(0, np.int64)
    one_by_one = int(np.asarray(find_report("cuda_gpu_sum").make(capture).data["total_ns"]).sum())
    total = max(one_by_one + int(graphs.sum()), 1)
    others = {"copies and memsets": one_by_one - int(spent.sum()), _GRAPHS: int(graphs.sum())}
    rows = {
        name: Row(ns, count, med, ns / total, classes[name])
        for name, ns, count, med in zip(names, *(part.tolist() for part in (spent, *figures)), strict=True)
    }
    return Kernels(rows, {what: ns / total for what, ns in others.items()}, notes_of(table) + _hidden(graphs))


def _hidden(graphs_ns: NDArray[Any]) -> list[str]:
    """Say how long graphs ran whose kernels are not known."""
    if not len(graphs_ns):
        return []
    took = f"{_GRAPHS} ({len(graphs_ns):,}) took {duration(graphs_ns.sum())}, which count as GPU time"
    return [f"{took}: their kernels are not recorded (--cuda-graph-trace=node)"]


def _classes(capture: Capture) -> dict[str | None, str]:
    codes, names = name_codes(capture, "kernel")
    found, first = np.unique(codes, return_index=True)
    class_codes, classes = kernel_classes(capture)
    of_name = class_codes[first].tolist()
    return {names[code]: classes[kind] for code, kind in zip(found.tolist(), of_name, strict=True)}


def figure(found: Mapping[str, Kernels]) -> Sheet:
    """Draw the kernels of the most time over all captures."""
    by_label = {label: part.rows for label, part in found.items()}
    names, notes = _longest(by_label)
    notes += dict.fromkeys(note for part in found.values() for note in part.notes)
    classes = {rows[name].kernel_class for rows in by_label.values() for name in names if name in rows}
    colors = {kind: kernel_color(kind) for kind in sorted(classes)} if classes - {OTHER} else {}
    lines = len(names) * (1 + len(found) + _GAP)
    drawn = sheet(lines * _LINE_IN + _AXIS_IN, _title(list(found.values()), names[0]), notes, colors)
    _bars(drawn.add_subplot(), names, by_label)
    return drawn


def _longest(found: Mapping[str, Rows]) -> tuple[list[str | None], list[str]]:
    """Return the kernels to draw, and what to say of the others."""
    totals: Counter[str | None] = Counter()
    for rows in found.values():
        totals.update({name: row.total_ns for name, row in rows.items()})
    most = min(_MOST_KERNELS, max(_FEWEST_KERNELS, _MOST_BARS // len(found)))
    names = [name for name, _ in totals.most_common(most)]
    rest = len(totals) - len(names)
    spent = duration(sum(totals.values()) - sum(totals[name] for name in names))
    return names, [f"not drawn: {rest:,} more kernel{'' if rest == 1 else 's'} of {spent}"] if rest else []


def _title(found: Sequence[Kernels], name: str | None) -> str:
    """Say how much the longest kernel takes, and what takes more; of several captures, in which of them."""
    taken = [part.rows[name].share for part in found if name in part.rows]
    least, most = _percent(min(taken)), _percent(max(taken))
    said = f"{for_title(name)} takes {least}"
    if len(found) > 1:
        more = f" to {most}" if most != least else ""
        return f"{said}{more} of the GPU time in {len(taken)} of {len(found)} captures"
    longer = {what: share for what, share in found[0].others.items() if share > taken[0]}
    return ", ".join([f"{said} of the GPU time", *(f"{what} {_percent(longer[what])}" for what in longer)])


def _percent(share: float) -> str:
    """Write a share without decimals where that says enough: nearly all is not all."""
    return f"{100 * share:.0f} %" if _WHOLE <= share < _NEARLY_ALL or share == 1 else percent(100 * share)


def _bars(axes: Axes, names: list[str | None], found: Mapping[str, Rows]) -> None:
    labels = fitted(list(found), _LABEL_COLUMNS) if len(found) > 1 else [""]
    taken = max(map(len, labels)) + 2
    shown = fitted(names, columns_in(WIDTH_IN - 0.3) - taken)
    most = max((row.total_ns for rows in found.values() for row in rows.values()), default=1)
    ticks: list[float] = []
    for number, (name, text) in enumerate(zip(names, shown, strict=True)):
        top = number * (1 + len(found) + _GAP)
        axes.text(0, top, text, va="center", in_layout=False, **NAMES)
        for line, rows in enumerate(found.values(), 1):
            ticks.append(top + line)
            if name in rows:
                _bar(axes, top + line, rows[name])
            else:
                axes.text(0, top + line, " not there", va="center", color=GREY, fontsize=7, in_layout=False)
    axes.set(xlim=(0, most / _BARS_PART), ylim=(len(names) * (1 + len(found) + _GAP) - _GAP, -1.2))
    axes.set_yticks(ticks if len(found) > 1 else [], labels * len(names) if len(found) > 1 else [], **NAMES)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    for header, place in _COLUMNS:
        axes.text(place, 1.0, header, transform=axes.transAxes, ha="right", va="top", color=GREY, fontsize=7)
    time_axis(axes.xaxis, most, "total time")
    axes.set_xticks([place for place in axes.get_xticks() if place <= most])


def _bar(axes: Axes, line: float, row: Row) -> None:
    axes.barh(line, row.total_ns, height=_BAR, color=kernel_color(row.kernel_class))
    cells = (duration(row.total_ns), f"{100 * row.share:.1f} %", f"{row.count:,}", human(row.med_ns, Unit.NS))
    for text, (_, place) in zip(cells, _COLUMNS, strict=True):
        axes.text(
            place, line, text, transform=axes.get_yaxis_transform(), ha="right", va="center", fontsize=8
        )


PLOT = Plot("top-kernels", read, figure)
