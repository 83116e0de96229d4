"""The ranks of one job: which rank delays the others, what each did on its GPU, and in which steps.

The other sections show ranks side by side; of many ranks those that differ most. A step is an NVTX range that
occurs on several ranks, the k-th of one with the k-th of the others. Heat maps shade each cell by its value.
Where there are more steps than columns, a column is the mean of several.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nsyswrap.analysis.ranks.members import missing_ranks, places
from nsyswrap.analysis.ranks.steps import steps
from nsyswrap.base.errors import NotInCapture
from nsyswrap.base.units import Unit, duration, percent
from nsyswrap.render.page.html import Markup, Section, element, joined, missing, section
from nsyswrap.render.page.tables import ROWS, folded
from nsyswrap.reports.ranks import make
from nsyswrap.reports.table import Column, Schema, table_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from nsyswrap.analysis.ranks.job import Job
    from nsyswrap.analysis.ranks.members import Member
    from nsyswrap.analysis.ranks.steps import Steps
    from nsyswrap.capture.capture import Capture
    from nsyswrap.render.page.subject import Subject
    from nsyswrap.reports.table import Table

    Row = dict[str, Any]


_CELLS = 6_400  # of all ranks together
_FEWEST, _MOST = 10, 200  # bins
_TELLING = 0.5  # of the most GPU time that ranges of one name hold
SLOWER_PERCENT = (2, 5, 10, 20, 50, 100)  # than the median of the ranks: where the next shade begins

SHADES = 7

_WITH_FIGURES = 8  # columns up to which figures fit into the cells

_BESIDE = 8  # ranks that the other sections show
_TITLE = "GPU time and waiting, by rank"
_HEADERS = ("Own work", "Communi\N{SOFT HYPHEN}cation", "Waiting", "Last to arrive")


@dataclass(frozen=True)
class Bins:
    """Steps by columns: ``width`` of the ``count`` steps to each, in the last one the rest.

    ``own_ns`` is the mean own GPU time of a step, by rank and column.
    """

    name: str
    labels: tuple[str, ...]
    count: int
    width: int
    own_ns: NDArray[Any]

    @property
    def median_ns(self) -> NDArray[Any]:
        """The median over the ranks, a value per column."""
        return np.median(self.own_ns, axis=0)  # type: ignore[no-any-return]

    @property
    def shades(self) -> NDArray[Any]:
        """How much slower each cell is than the median of its column, as the number of a shade."""
        middle = np.maximum(self.median_ns, 1)
        return np.digitize((self.own_ns / middle - 1) * 100, SLOWER_PERCENT)  # type: ignore[no-any-return]

    def steps(self, column: int) -> tuple[int, int]:
        """Return the first and the last step of a column, from 0."""
        return column * self.width, min((column + 1) * self.width, self.count) - 1


def most_telling(every: Sequence[Steps]) -> Steps | None:
    """Return the ranges that hold much of the own GPU time; of several the most frequent, then the outer."""
    holding = [(int(step.own_ns.sum()), step) for step in every if step.on_gpu]
    most = max((own for own, _ in holding), default=0)
    telling = (step for own, step in holding if own >= _TELLING * most)
    return max(telling, key=lambda step: step.own_ns.shape[1], default=None)


def binned(job: Job, found: Steps) -> Bins:
    """Put steps into as many columns as the page has room for."""
    ranks, count = found.own_ns.shape
    room = min(max(_CELLS // ranks, _FEWEST), _MOST)
    width = -(-count // room)
    first = np.arange(0, count, width)
    sums = np.add.reduceat(found.own_ns, first, axis=1)
    labels = tuple(job.members[number].label for number in found.ranks)
    return Bins(found.name, labels, count, width, sums / np.diff(np.append(first, count)))


def numbers(bins: Bins) -> Table:
    """Return a row per column of the picture, with the mean of each rank."""
    columns = (
        Column("first_step", "First", Unit.NUMBER, "first step of the row, from 0"),
        Column("last_step", "Last", Unit.NUMBER, "its last step"),
        Column("median_own_ns", "Median", Unit.NS, "median over the ranks"),
        *(
            Column(
                f"{label} own_ns", label, Unit.NS, f"own GPU time of {label} a step, the mean of the row's"
            )
            for label in bins.labels
        ),
    )
    schema = Schema("ranks_by_step", "Ranks by step", columns)
    times = zip(bins.median_ns.tolist(), *bins.own_ns.tolist(), strict=True)
    return table_of(schema, [(*bins.steps(column), *row) for column, row in enumerate(times)])


class Cell(NamedTuple):
    """What a cell shows, its unrounded value, how dark it is (None: nothing is known), and what it means."""

    text: str
    value: float | None
    shade: int | None
    said: str


def shade(part: float, whole: float) -> int:
    """Return the shade of a part: 0, the palest, for nothing; the darkest for the whole."""
    return min(int(part / whole * SHADES), SHADES - 1) if whole else 0


def heat(title: str, columns: Sequence[str], rows: Mapping[str, Sequence[Cell]]) -> Markup:
    """Return a heat map of a row per rank."""
    names = (element("th", name, scope="col") for name in ("Rank", *columns))
    body = (
        element("tr", element("th", label, scope="row"), *map(_cell, cells)) for label, cells in rows.items()
    )
    caption = element("caption", title, class_="unseen")
    head = element("thead", element("tr", *names))
    grid = element("table", caption, head, element("tbody", *body), class_="heat")
    return element("div", grid, class_="wide-picture", tabindex="0", role="region", aria_label=title)


def scale(name: str, texts: Iterable[str]) -> Markup:
    """Return what the shades stand for, the palest first."""
    patches = (element("li", _patch(number), text) for number, text in enumerate(texts))
    return element("ul", element("li", name), *patches, class_="legend")


def _cell(cell: Cell) -> Markup:
    value = "" if cell.value is None else repr(cell.value)
    shown = "" if cell.shade is None else f"shade-{cell.shade}"
    return element("td", cell.text, class_=shown, title=cell.said, data_value=value)


def _patch(number: int) -> Markup:
    rect = element("rect", class_=f"shade-{number}", width="14", height="14")
    return element("svg", rect, class_="swatch", aria_hidden="true")


def by_step(job: Job) -> Markup:
    """Return the picture and its numbers, or say that there are no steps to compare."""
    every, notes = steps(job)
    found = most_telling(every)
    if found is None:
        said = "No NVTX range that several ranks have holds work on the GPU: no steps to compare."
        return element("p", said, class_="note")
    bins = binned(job, found)
    title = f"Own GPU time in each “{bins.name}”, by rank"
    picture = _figures(bins, title) if bins.own_ns.shape[1] <= _WITH_FIGURES else _strips(bins, title)
    texts = ("less", *(f"{percent} %" for percent in SLOWER_PERCENT))
    table = replace(numbers(bins), notes=tuple(notes), selection=job.selection)
    return element(
        "article",
        element("h3", title),
        element("p", _about(bins, len(job.members)), class_="note"),
        picture,
        scale("Slower than the median of the ranks, by this or more:", texts),
        folded(table, title, top=len(table)),
        class_="steps",
        data_range=bins.name,
    )


def _about(bins: Bins, ranks: int) -> str:
    said = [f"NVTX range “{bins.name}”, {bins.count:,} time{'' if bins.count == 1 else 's'}"]
    said += [f"a cell is the mean of {bins.width:,}"] if bins.width > 1 else []
    said += [f"{len(bins.labels):,} of {ranks:,} ranks have it"] if len(bins.labels) < ranks else []
    return "; ".join(said)


def _said(bins: Bins, column: int) -> str:
    first, last = bins.steps(column)
    return f"step {first}" if first == last else f"steps {first} to {last}"


def _figures(bins: Bins, title: str) -> Markup:
    """Return a table that has room for the figures."""
    medians, shades = bins.median_ns.tolist(), bins.shades.tolist()
    rows = {
        label: [
            Cell(duration(own), own, level, f"{label}, {_said(bins, i)}; median {duration(medians[i])}")
            for i, (own, level) in enumerate(zip(bins.own_ns[rank].tolist(), shades[rank], strict=True))
        ]
        for rank, label in enumerate(bins.labels)
    }
    return heat(title, [_said(bins, i).capitalize() for i in range(len(medians))], rows)


def _strips(bins: Bins, title: str) -> Markup:
    """Return a strip per rank; the script tells of what is pointed at, from the table of numbers."""
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
        "p", "Point at the picture, tap it, or use the arrow keys.", class_="readout", role="status"
    )
    ends = (element("span", f"step {step:,}") for step in (0, bins.count - 1))
    axis = element("div", element("span"), element("div", *ends), class_="strip ends", aria_hidden="true")
    strip = element("div", *strips, class_="strips", tabindex="0", role="application", aria_label=title)
    return joined((readout, strip, axis))


def _step_cells(shades: NDArray[Any]) -> Iterator[Markup]:
    """Draw one row: of each shade a path of the runs that have it."""
    edges = np.flatnonzero(np.diff(shades, prepend=-1, append=-1)).tolist()
    runs: dict[int, list[str]] = {}
    for start, end in pairwise(edges):
        runs.setdefault(int(shades[start]), []).append(f"M{start} 0h{end - start}v1H{start}z")
    for number, paths in runs.items():
        yield element("path", class_=f"shade-{number}", d="".join(paths))


def ranks(subject: Subject) -> Markup | None:
    """Return the verdict, both heat maps and their numbers; None where there are no ranks."""
    job = subject.job
    if job is None:
        return None
    return section(
        "ranks",
        "Ranks",
        *_verdict_and_picture(job),
        _note(missing_ranks(places([member.capture.source for member in job.members]))),
        _note(_left_out(job, subject)),
    )


def side_by_side(job: Job, members: Sequence[Member]) -> dict[str, Capture]:
    """Return the captures that the other sections show, by label: of many those that wait least and most.

    Where none waits, they are those that work longest and shortest.
    """
    chosen: Sequence[int] = range(len(members))
    if len(members) > _BESIDE:
        waiting, own = (
            np.array([int(part.sum()) for part in parts])
            for parts in zip(*((times.waiting_ns, times.own_ns) for times in job.times), strict=True)
        )
        order = np.lexsort((-own, waiting)).tolist()
        chosen = sorted(order[: _BESIDE // 2] + order[-_BESIDE // 2 :])
    return {members[number].label: members[number].capture for number in chosen}


def _verdict_and_picture(job: Job) -> tuple[object, ...]:
    try:
        table = make(job, "rank_waiting")
    except NotInCapture as error:
        return (missing([f"{error}; {error.hint}"]), by_step(job))
    said = element("p", table.verdict, class_="lead") if table.verdict else joined(map(_note, table.notes))
    return (said, element("div", _by_rank(job, table), by_step(job), class_="two"))


def _by_rank(job: Job, table: Table) -> Markup:
    """Return a row per rank: its times, shaded against the longest GPU time, and how often it came last."""
    names = [column.name for column in table.columns]
    rows: list[Row] = [dict(zip(names, row, strict=True)) for row in table.rows()]
    longest = max(row["gpu_ns"] for row in rows)
    labels = [member.label for member in job.members]
    cells = {label: _cells(label, row, longest) for label, row in zip(labels, rows, strict=True)}
    texts = (f"{math.ceil(100 * number / SHADES)} %" for number in range(SHADES))
    return element(
        "article",
        element("h3", _TITLE),
        heat(_TITLE, _HEADERS, cells),
        scale(f"Share of the longest GPU time, {duration(longest)}, and of the collectives:", texts),
        folded(table, top=max(ROWS, len(rows))),
    )


def _cells(label: str, row: Row, longest: int) -> list[Cell]:
    own, communication, waiting = (row[name] for name in ("own_ns", "communication_ns", "waiting_ns"))
    last, of, gpu = row["last"], row["collectives"], row["gpu_ns"]
    told = [
        (own, f"{label}: {duration(own)} of GPU time that does not communicate"),
        (communication, f"{label}: {duration(communication)} in communication kernels, waiting included"),
    ]
    cells = [Cell(duration(ns), ns, shade(ns, longest), said) for ns, said in told]
    if waiting is None or not of:  # nothing tells who waited
        text = "not known" if waiting is None else "-"
        return [*cells, *[Cell(text, None, None, f"{label}: no collective of it could be matched")] * 2]
    said = f"{label}: waited {duration(waiting)}, {_percent(waiting, gpu)} of its GPU time"
    cells.append(Cell(duration(waiting), waiting, shade(waiting, longest), said))
    said = f"{label}: the last to arrive at {last:,} of {of:,} collectives"
    return [*cells, Cell(f"{last:,} of {of:,}", last, shade(last, of), said)]


def _percent(part: float, whole: float) -> str:
    return percent(100 * part / whole) if whole else "-"


def _left_out(job: Job, subject: Subject) -> str:
    if len(subject.captures) == len(job.members):
        return ""
    return (
        f"The other sections show {len(subject.captures)} of {len(job.members)} ranks side by side, "
        f"those that differ most: {', '.join(subject.captures)}. To see others, name their captures."
    )


def _note(text: str) -> Markup | None:
    return element("p", text, class_="note") if text else None


SECTION = Section("ranks", "Ranks", ranks)
