"""The rank section: which rank delays the others, as heat maps by rank and by step.

A step is an NVTX range that occurs on several ranks: its k-th instance on each rank is step k. If there are
more steps than columns, a column holds the mean of several steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.gpu_operations import gpu_operations_of
from nsyswrap.analysis.ranks.job import RankJob, offsets_ns
from nsyswrap.analysis.ranks.members import places
from nsyswrap.analysis.ranks.waiting import RankedRanges, judged_steps, step_times, steps
from nsyswrap.base.errors import NotInCapture
from nsyswrap.base.records import dataclass
from nsyswrap.base.text import counted
from nsyswrap.base.units import duration, percent
from nsyswrap.capture.intervals import union
from nsyswrap.render.page.html import (
    ROWS,
    Markup,
    Subject,
    element,
    folded_table,
    joined,
    missing,
    note,
    patch,
    section,
)
from nsyswrap.reports.ranks import make
from nsyswrap.reports.table import Column, Schema, Table, table_of
from nsyswrap.reports.wording.notes import note_texts
from nsyswrap.reports.wording.ranks import alignment, missing_ranks

_CELLS = 6_400  # of the steps heat map, for all ranks together
_FEWEST_COLUMNS, _MOST_COLUMNS = 10, 200
_MUCH_GPU_TIME = 0.5  # as a part of the most GPU time that ranges of one name hold
SLOWER_PERCENT = (2, 5, 10, 20, 50, 100)  # than the median of the ranks: where each shade starts

SHADES = 7

_WITH_FIGURES = 8  # columns up to which figures fit into the cells

_MOST_ROWS = 64  # ranks on one clock
_ROW_WIDTH, _NS_PER_MS = 1000, 1_000_000
_CLOCK = {"own": "own work", "talks": "communication", "waits": "waiting for other ranks"}

_TITLE = "GPU time and waiting, by rank"
_HEADERS = ("Own work", "Communi\N{SOFT HYPHEN}cation", "Waiting", "Last to arrive")


@dataclass(frozen=True)
class Bins:
    """``count`` steps in columns of ``width`` steps. The last column may hold fewer.

    ``own_ns`` is the mean own GPU time of a step, of shape (ranks, columns).
    """

    name: str
    labels: tuple[str, ...]
    count: int
    width: int
    own_ns: NDArray[Any]

    @property
    def median_ns(self) -> NDArray[Any]:
        """The median over the ranks, one value per column."""
        return np.median(self.own_ns, axis=0)  # type: ignore[no-any-return]

    @property
    def shades(self) -> NDArray[Any]:
        """The shade of each cell: how much slower it is than the median of its column."""
        median = np.maximum(self.median_ns, 1)
        return np.digitize((self.own_ns / median - 1) * 100, SLOWER_PERCENT)  # type: ignore[no-any-return]

    def steps(self, column: int) -> tuple[int, int]:
        """Return the first and the last step of a column, counted from 0."""
        return column * self.width, min((column + 1) * self.width, self.count) - 1


def most_telling(every: Sequence[RankedRanges]) -> RankedRanges | None:
    """Return the ranges to compare the ranks by, or None if no range holds GPU work.

    Of the ranges that hold much of the own GPU time, this is the most frequent one, then the outermost.
    """
    holding = [(int(step.own_ns.sum()), step) for step in every if step.on_gpu]
    most = max((own for own, _ in holding), default=0)
    candidates = (step for own, step in holding if own >= _MUCH_GPU_TIME * most)
    return max(candidates, key=lambda step: step.own_ns.shape[1], default=None)


def binned(job: RankJob, compared: RankedRanges) -> Bins:
    """Put steps into as many columns as the page has room for."""
    ranks, count = compared.own_ns.shape
    columns = min(max(_CELLS // ranks, _FEWEST_COLUMNS), _MOST_COLUMNS)
    width = -(-count // columns)
    first = np.arange(0, count, width)
    sums = np.add.reduceat(compared.own_ns, first, axis=1)
    labels = tuple(job.members[number].label for number in compared.ranks)
    return Bins(compared.name, labels, count, width, sums / np.diff(np.append(first, count)))


def step_table(bins: Bins) -> Table:
    """Return a table with a row for each column of the heat map and a mean for each rank."""
    columns = (
        Column.number("first_step", "First Step", "first step of the row; steps count from 0"),
        Column.number("last_step", "Last Step", "last step of the row"),
        Column("median_own_ns", "Median", "median of the ranks"),
        *(
            Column(f"{label} own_ns", label, f"mean own GPU time of {label} in a step of the row")
            for label in bins.labels
        ),
    )
    schema = Schema("ranks_by_step", "Ranks by step", *columns)
    times = zip(bins.median_ns.tolist(), *bins.own_ns.tolist(), strict=True)
    return table_of(schema, [(*bins.steps(column), *row) for column, row in enumerate(times)])


class Cell(NamedTuple):
    """A cell of a heat map: its text, its unrounded value, its shade (None if unknown) and its tooltip."""

    text: str
    value: float | None
    shade: int | None
    tooltip: str


def shade(value: float, whole: float) -> int:
    """Return the shade of a value: 0, the palest, for nothing, and the darkest for the whole."""
    return min(int(value / whole * SHADES), SHADES - 1) if whole else 0


def heat(title: str, columns: Sequence[str], rows: Mapping[str, Sequence[Cell]]) -> Markup:
    """Return a heat map with a row for each rank."""
    names = (element("th", name, scope="col") for name in ("Rank", *columns))
    body = (
        element("tr", element("th", label, scope="row"), *map(_cell, cells)) for label, cells in rows.items()
    )
    caption = element("caption", title, class_="unseen")
    head = element("thead", element("tr", *names))
    grid = element("table", caption, head, element("tbody", *body), class_="heat")
    return element("div", grid, class_="wide-picture", tabindex="0", role="region", aria_label=title)


def scale(name: str, texts: Iterable[str]) -> Markup:
    """Return the legend of the shades, the palest first."""
    patches = (element("li", patch(f"shade-{number}"), text) for number, text in enumerate(texts))
    return element("ul", element("li", name), *patches, class_="legend")


def _cell(cell: Cell) -> Markup:
    value = "" if cell.value is None else repr(cell.value)
    css_class = "" if cell.shade is None else f"shade-{cell.shade}"
    return element("td", cell.text, class_=css_class, title=cell.tooltip, data_value=value)


def one_clock(job: RankJob) -> Markup | None:
    """Return the median step on one clock: a row for each rank, with its work, communication and waits.

    None if the clocks cannot be aligned, or the ranks have different steps.
    """
    offsets, times = offsets_ns(job), step_times(job)
    if offsets is None or times is None:
        return None
    number, starts, ends = times
    window = int((starts + offsets).min()), int((ends + offsets).max())
    length = window[1] - window[0]
    rows = (_clock_row(job, i, window, int(offset)) for i, offset in enumerate(offsets[:_MOST_ROWS]))
    labels = (element("span", text) for text in ("0 ms", f"{length / _NS_PER_MS:.3g} ms"))
    axis = element(
        "div", element("span"), element("div", *labels), class_="clock-row ends", aria_hidden="true"
    )
    return element(
        "article",
        element("h3", f"Step {number:,} of all ranks on one clock: {duration(length)}"),
        element("div", *rows, axis, class_="clock-rows"),
        element(
            "ul", *(element("li", _swatch(kind), name) for kind, name in _CLOCK.items()), class_="legend"
        ),
        note(alignment(job, offsets)),
    )


def _swatch(kind: str) -> Markup:
    return element("svg", element("rect", width="14", height="14", class_=kind), class_="swatch")


def _clock_row(job: RankJob, number: int, window: tuple[int, int], offset: int) -> Markup:
    """Return the row of a rank: a path for each of its states, with times in thousandths of the window."""
    member, times = job.members[number], job.all_times[number]
    operations = gpu_operations_of(member.everything)
    start, end = operations.start_ns + offset, operations.end_ns + offset
    scale = _ROW_WIDTH / max(window[1] - window[0], 1)
    parts = {
        "own": (times.own_ns > 0, end),
        "talks": (times.communication_ns > 0, end),
        "waits": (times.waiting_ns > 0, start + times.waiting_ns),
    }
    paths, told = [], []
    for kind, (marks, until) in parts.items():
        rows = np.flatnonzero(marks & (start < window[1]) & (until > window[0]))
        cover = union(np.maximum(start[rows], window[0]), np.minimum(until[rows], window[1]))
        spans = zip(*((scale * (edge - window[0])).tolist() for edge in cover), strict=True)
        path = "".join(f"M{left:.1f} 0H{max(right, left + 0.5):.1f}v1H{left:.1f}z" for left, right in spans)
        paths += [element("path", d=path, class_=kind)] if path else []
        told.append(f"{_CLOCK[kind]} {duration(cover.length)}")
    text = f"{member.label}: {', '.join(told)}"
    box = {"viewBox": f"0 0 {_ROW_WIDTH} 1", "preserveAspectRatio": "none"}
    svg = element("svg", element("title", text), *paths, role="img", aria_label=text, **box)
    return element("div", element("span", member.label), svg, class_="clock-row")


def by_step(job: RankJob) -> Markup:
    """Return the heat map of the steps and its numbers, or a note that there are no steps to compare."""
    every, notes = steps(job)
    compared = _compared(job, every)
    if compared is None:
        text = "No steps to compare: no NVTX range with GPU work occurs on several ranks."
        return element("p", text, class_="note")
    bins = binned(job, compared)
    title = f"Own GPU time in each '{bins.name}', by rank"
    picture = _figure_cells(bins, title) if bins.own_ns.shape[1] <= _WITH_FIGURES else _strips(bins, title)
    texts = (f"under {SLOWER_PERCENT[0]} %", *(f"{percent} %" for percent in SLOWER_PERCENT))
    table = replace(step_table(bins), notes=note_texts(notes), selection=job.selection)
    return element(
        "article",
        element("h3", title),
        note(_about(bins, len(job.members))),
        picture,
        scale("Slower than the median of the ranks by at least:", texts),
        folded_table(table, title, top=len(table)),
        class_="steps",
        data_range=bins.name,
    )


def _compared(job: RankJob, every: Sequence[RankedRanges]) -> RankedRanges | None:
    judged = judged_steps(job)
    if judged is None:
        return most_telling(every)
    return next((one for one in every if one.name == judged.name and one.on_gpu), judged)


def _about(bins: Bins, ranks: int) -> str:
    where = f"{len(bins.labels):,} of {ranks:,} ranks" if len(bins.labels) < ranks else "each rank"
    mean = f"; a cell is the mean of {bins.width:,} instances" if bins.width > 1 else ""
    return f"'{bins.name}', {counted(bins.count, 'instances')} on {where}{mean}"


def _step_text(bins: Bins, column: int) -> str:
    first, last = bins.steps(column)
    return f"step {first}" if first == last else f"steps {first} to {last}"


def _figure_cells(bins: Bins, title: str) -> Markup:
    medians, shades = bins.median_ns.tolist(), bins.shades.tolist()
    rows = {
        label: [
            Cell(duration(own), own, level, f"{label}, {_step_text(bins, i)}; median {duration(medians[i])}")
            for i, (own, level) in enumerate(zip(bins.own_ns[rank].tolist(), shades[rank], strict=True))
        ]
        for rank, label in enumerate(bins.labels)
    }
    return heat(title, [_step_text(bins, i).capitalize() for i in range(len(medians))], rows)


def _strips(bins: Bins, title: str) -> Markup:
    """Return a strip of cells for each rank. The script reads a cell's time from the table of numbers."""
    columns = bins.own_ns.shape[1]
    strips = (
        element(
            "div",
            element("span", label, title=label),
            element("svg", *_step_cells(row), viewBox=f"0 0 {columns} 1", preserveAspectRatio="none"),
            class_="strip",
        )
        for label, row in zip(bins.labels, bins.shades, strict=True)
    )
    readout = element(
        "p",
        "Point at the picture or tap it",
        element("span", ", or use the arrow keys", class_="keys"),
        ".",
        class_="readout",
        role="status",
    )
    ends = (element("span", f"step {step:,}") for step in (0, bins.count - 1))
    axis = element("div", element("span"), element("div", *ends), class_="strip ends", aria_hidden="true")
    strip = element("div", *strips, class_="strips", tabindex="0", role="application", aria_label=title)
    return joined((readout, strip, axis))


def _step_cells(shades: NDArray[Any]) -> Iterator[Markup]:
    """Yield a path for each shade, made of the runs of cells that have it."""
    edges = np.flatnonzero(np.diff(shades, prepend=-1, append=-1)).tolist()
    runs: dict[int, list[str]] = {}
    for start, end in pairwise(edges):
        runs.setdefault(int(shades[start]), []).append(f"M{start} 0h{end - start}v1H{start}z")
    for number, paths in runs.items():
        yield element("path", class_=f"shade-{number}", d="".join(paths))


def ranks(subject: Subject) -> Markup | None:
    """Return the verdict and both heat maps, or None if the captures are not the ranks of a job."""
    job = subject.job
    if job is None:
        return None
    return section(
        "ranks",
        "Ranks",
        *_verdict_and_picture(job),
        note(missing_ranks(places([member.capture.source for member in job.members]))),
        note(_ranks_left_out(job, subject)),
    )


def _verdict_and_picture(job: RankJob) -> tuple[object, ...]:
    try:
        table = make(job, "rank_waiting")
    except NotInCapture as error:
        return (missing([f"{error.message}; {error.hint}"]), by_step(job))
    verdict = element("p", table.verdict, class_="lead") if table.verdict else joined(map(note, table.notes))
    return (verdict, one_clock(job), element("div", _by_rank(job, table), by_step(job), class_="two"))


def _by_rank(job: RankJob, table: Table) -> Markup:
    rows = table.records()
    longest = max(row["gpu_ns"] for row in rows)
    labels = [member.label for member in job.members]
    cells = {label: _cells(label, row, longest) for label, row in zip(labels, rows, strict=True)}
    texts = (f"{math.ceil(100 * number / SHADES)} %" for number in range(SHADES))
    return element(
        "article",
        element("h3", _TITLE),
        heat(_TITLE, _HEADERS, cells),
        scale(
            f"Share of the longest GPU time, {duration(longest)}; in the last column, of the collectives:",
            texts,
        ),
        folded_table(table, top=max(ROWS, len(rows))),
    )


def _cells(label: str, row: dict[str, Any], longest: int) -> list[Cell]:
    own, communication, waiting = (row[name] for name in ("own_ns", "communication_ns", "waiting_ns"))
    last, of, gpu = row["last"], row["collectives"], row["gpu_ns"]
    times = [
        (own, f"{label}: {duration(own)} of GPU time outside communication kernels"),
        (communication, f"{label}: {duration(communication)} in communication kernels, waiting included"),
    ]
    cells = [Cell(duration(ns), ns, shade(ns, longest), tooltip) for ns, tooltip in times]
    if waiting is None or not of:  # without a matched collective the waiting time is unknown
        text = "unknown" if waiting is None else "-"
        return [*cells, *[Cell(text, None, None, f"{label}: none of its collectives could be matched")] * 2]
    tooltip = f"{label}: waited {duration(waiting)}, {_percent(waiting, gpu)} of its GPU time"
    cells.append(Cell(duration(waiting), waiting, shade(waiting, longest), tooltip))
    tooltip = f"{label}: last to arrive at {last:,} of {of:,} collectives"
    return [*cells, Cell(f"{last:,} of {of:,}", last, shade(last, of), tooltip)]


def _percent(value: float, whole: float) -> str:
    return percent(100 * value / whole) if whole else "-"


def _ranks_left_out(job: RankJob, subject: Subject) -> str:
    if len(subject.captures) == len(job.members):
        return ""
    return (
        f"The other sections show {len(subject.captures)} of {len(job.members)} ranks, those that wait least "
        f"and most: {', '.join(subject.captures)}. To see other ranks, name their captures."
    )
