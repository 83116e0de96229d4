"""Plot the kernels with the most time as bars, with their share of GPU time, count and median.

The times are those of ``cuda_gpu_kern_sum``. A share is a part of the time of all GPU operations: those of
``cuda_gpu_sum``, and graphs that were recorded as a whole. A kernel has a bar for each capture.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from nsyswrap.analysis.kernel_names import OTHER, distinct_names
from nsyswrap.analysis.names import name_codes
from nsyswrap.analysis.peaks import kernel_kinds
from nsyswrap.base.records import dataclass
from nsyswrap.base.text import counted
from nsyswrap.base.units import Unit, duration, human, percent
from nsyswrap.capture.capture import Capture
from nsyswrap.render.colors import kernel_color
from nsyswrap.render.plots import Plot, notes_of, table_for
from nsyswrap.render.plots.figure import (
    GRAY,
    NAMES,
    WIDTH_IN,
    Sheet,
    columns_in,
    fitted,
    for_title,
    named_rows,
    paint,
    sheet,
    time_axis,
)
from nsyswrap.reports import find_report

if TYPE_CHECKING:
    Rows = Mapping[str | None, "KernelShare"]

_MOST_BARS, _MOST_KERNELS, _FEWEST_KERNELS = 40, 12, 3
_LINE_IN, _AXIS_IN = 0.185, 0.75
_LINE: dict[str, Any] = {"va": "center", "in_layout": False}  # a text in the middle of a line
_BAR, _GAP = 0.8, 0.5  # in lines
_BARS_PART = 0.6  # of the axes' width; the rest is for the figures
_COLUMNS = (("total", 0.72), ("of GPU time", 0.85), ("count", 0.91), ("median", 1.0))
_LABEL_COLUMNS = 20
_NO_DECIMALS_FROM, _NO_DECIMALS_TO = 0.1, 0.995  # shares that are written as a whole percentage
_GRAPHS = "CUDA graphs traced as a whole"


@dataclass(frozen=True)
class KernelShare:
    """One kernel in one capture. ``share`` is its part of the time of all GPU operations."""

    total_ns: int
    count: int
    med_ns: float
    share: float
    kernel_class: str


@dataclass(frozen=True)
class TopKernels:
    """The kernels of a capture by name, the most time first, and the shares of other operations."""

    rows: dict[str | None, KernelShare]
    others: dict[str, float]
    notes: list[str]


def compute(capture: Capture) -> TopKernels:
    """Return the kernels of a capture; raises NotInCapture."""
    table = table_for(capture, "cuda_gpu_kern_sum")
    names, classes = table.data["name"], _classes(capture)
    total_ns, *figures = (np.asarray(table.data[column]) for column in ("total_ns", "instances", "med_ns"))
    graphs = capture.durations("graph") if capture.has("graph") else np.empty(0, np.int64)
    without_graphs = int(np.asarray(find_report("cuda_gpu_sum").make(capture).data["total_ns"]).sum())
    total = max(without_graphs + int(graphs.sum()), 1)
    others = {"copies and memsets": without_graphs - int(total_ns.sum()), _GRAPHS: int(graphs.sum())}
    rows = {
        name: KernelShare(ns, count, med, ns / total, classes[name])
        for name, ns, count, med in zip(names, *(part.tolist() for part in (total_ns, *figures)), strict=True)
    }
    shares = {operations: ns / total for operations, ns in others.items()}
    return TopKernels(rows, shares, notes_of(table) + _graph_note(graphs))


def _graph_note(graphs_ns: NDArray[Any]) -> list[str]:
    if not len(graphs_ns):
        return []
    took = f"{_GRAPHS} ({len(graphs_ns):,}) took {duration(graphs_ns.sum())}, counted as GPU time"
    return [f"{took}: their kernels are not recorded (--cuda-graph-trace=node)"]


def _classes(capture: Capture) -> dict[str | None, str]:
    codes, names = name_codes(capture, "kernel")
    name_codes_once, first = np.unique(codes, return_index=True)
    class_codes, classes = kernel_kinds(capture)
    class_of_name = class_codes[first].tolist()
    return {
        names[code]: classes[kind] for code, kind in zip(name_codes_once.tolist(), class_of_name, strict=True)
    }


def figure(data: Mapping[str, TopKernels], program: str = "") -> Sheet:
    """Draw the kernels with the most time over all captures."""
    by_label = {label: part.rows for label, part in data.items()}
    names, notes = _longest(by_label)
    notes += dict.fromkeys(note for part in data.values() for note in part.notes)
    classes = {rows[name].kernel_class for rows in by_label.values() for name in names if name in rows}
    colors = {kind: kernel_color(kind) for kind in sorted(classes)} if classes - {OTHER} else {}
    lines = len(names) * (1 + len(data) + _GAP)
    title = _title(list(data.values()), names[0])
    drawn = sheet(lines * _LINE_IN + _AXIS_IN, title, notes, colors, program)
    _bars(drawn.add_subplot(), names, by_label)
    return drawn


def _longest(by_label: Mapping[str, Rows]) -> tuple[list[str | None], list[str]]:
    totals: Counter[str | None] = Counter()
    for rows in by_label.values():
        totals.update({name: row.total_ns for name, row in rows.items()})
    most = min(_MOST_KERNELS, max(_FEWEST_KERNELS, _MOST_BARS // len(by_label)))
    names = [name for name, _ in totals.most_common(most)]
    rest = len(totals) - len(names)
    rest_time = duration(sum(totals.values()) - sum(totals[name] for name in names))
    return names, [f"not drawn: {counted(rest, 'more kernels')}, {rest_time} in total"] if rest else []


def _title(data: Sequence[TopKernels], name: str | None) -> str:
    shares = [part.rows[name].share for part in data if name in part.rows]
    least, most = _percent(min(shares)), _percent(max(shares))
    readable = distinct_names({other for part in data for other in part.rows if other})
    kernel = for_title(readable.get(name or ""))
    if len(data) > 1:
        more = f" to {most}" if most != least else ""
        return f"{kernel} takes {least}{more} of the GPU time in {len(shares)} of {len(data)} captures"
    longer = [f"{kind} {_percent(share)}" for kind, share in data[0].others.items() if share > shares[0]]
    return ", ".join([f"{kernel} takes {least} of the GPU time", *longer])


def _percent(share: float) -> str:
    """Write a share as a percentage. Small shares, and 99.5 % to below 100 %, have decimals."""
    whole = _NO_DECIMALS_FROM <= share < _NO_DECIMALS_TO or share == 1
    return f"{100 * share:.0f} %" if whole else percent(100 * share)


def _bars(axes: Axes, names: list[str | None], by_label: Mapping[str, Rows]) -> None:
    several = len(by_label) > 1
    lines = 1 + len(by_label) + _GAP  # of a kernel: its name, a bar for each capture and a gap
    labels = fitted(list(by_label), _LABEL_COLUMNS) if several else [""]
    label_columns = max(map(len, labels)) + 2
    readable = distinct_names({name for rows in by_label.values() for name in rows if name})
    shown = [readable.get(name or "") for name in names]
    texts = fitted(shown, columns_in(WIDTH_IN - 0.3) - label_columns)
    most = max((row.total_ns for rows in by_label.values() for row in rows.values()), default=1)
    ticks: list[float] = []
    for number, (name, text) in enumerate(zip(names, texts, strict=True)):
        top = number * lines
        axes.text(0, top, text, **_LINE, **NAMES)
        for line, rows in enumerate(by_label.values(), 1):
            ticks.append(top + line)
            if name in rows:
                _bar(axes, top + line, rows[name])
            else:
                axes.text(0, top + line, " not in this capture", **_LINE, color=GRAY, fontsize=7)
    axes.set(xlim=(0, most / _BARS_PART), ylim=(len(names) * lines - _GAP, -1.2))
    named_rows(axes, ticks if several else [], labels * len(names) if several else [])
    for header, place in _COLUMNS:
        axes.text(place, 1.0, header, transform=axes.transAxes, ha="right", va="top", color=GRAY, fontsize=7)
    time_axis(axes.xaxis, most, "total time", ticks=9)
    axes.set_xticks([place for place in axes.get_xticks() if place <= most])


def _bar(axes: Axes, line: float, row: KernelShare) -> None:
    axes.barh(line, row.total_ns, height=_BAR, **paint(kernel_color(row.kernel_class)))
    cells = (duration(row.total_ns), f"{100 * row.share:.1f} %", f"{row.count:,}", human(row.med_ns, Unit.NS))
    for text, (_, place) in zip(cells, _COLUMNS, strict=True):
        axes.text(
            place, line, text, transform=axes.get_yaxis_transform(), ha="right", va="center", fontsize=8
        )


PLOT = Plot("top-kernels", compute, figure)
