"""Ranks by steps: a picture of how long each rank's own GPU work took in the steps of a job."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.ranks.steps import steps
from nsyswrap.base.units import duration
from nsyswrap.render.page.html import Markup, element, joined
from nsyswrap.render.page.ranks_bins import SLOWER_PERCENT, Bins, binned, most_telling, numbers
from nsyswrap.render.page.ranks_heat import Cell, heat, scale
from nsyswrap.render.page.tables import folded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nsyswrap.analysis.ranks.job import Job

_WITH_FIGURES = 8  # columns up to which figures fit into the cells


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
            element("svg", *_cells(row), viewBox=f"0 0 {columns} 1", preserveAspectRatio="none"),
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


def _cells(shades: NDArray[Any]) -> Iterator[Markup]:
    """Draw one row: of each shade a path of the runs that have it."""
    edges = np.flatnonzero(np.diff(shades, prepend=-1, append=-1)).tolist()
    runs: dict[int, list[str]] = {}
    for start, end in pairwise(edges):
        runs.setdefault(int(shades[start]), []).append(f"M{start} 0h{end - start}v1H{start}z")
    for number, paths in runs.items():
        yield element("path", class_=f"shade-{number}", d="".join(paths))
