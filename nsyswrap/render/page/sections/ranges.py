"""The range section: GPU time of NVTX ranges or modules as an icicle, and its table.

A click on a part of the icicle zooms to it and filters the table; a row of the table marks its part.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from nsyswrap.analysis.range_tree.figures import autograd_outside
from nsyswrap.analysis.range_tree.tree import NO_MODULE, NO_RANGE
from nsyswrap.base.units import duration, percent
from nsyswrap.render.page.html import Markup, Section, both_parts, element, section, verdict_paragraphs
from nsyswrap.render.page.subject import Subject
from nsyswrap.render.page.tables import folded_table
from nsyswrap.reports.table import Table

_MOST_LEVELS = 12
_HEIGHT, _BAND = 26, 5  # of a level and of its band of phases, in pixels
_NARROW = 0.02  # percent of the width: less is not drawn
_PHASES = {"forward": "shade-3", "backward": "shade-5"}  # dark and light are told apart by everybody


class _Node(NamedTuple):
    """One part of the picture: place in percent, level, and what it shows."""

    left: float
    width: float
    level: int
    row: dict[str, Any]


def ranges(subject: Subject) -> Markup | None:
    """Return a picture for each capture with GPU work in ranges; None if there is none."""
    if not any(map(_in_ranges, subject.tables("nvtx_tree").values())):
        return None
    return section("ranges", "Ranges and modules", both_parts(subject, _parts))


def _parts(subject: Subject) -> Iterator[Markup | None]:
    tables = {label: table for label, table in subject.tables("nvtx_tree").items() if _in_ranges(table)}
    pictures = (
        _picture(
            subject.heading(label, _title(table)),
            table,
            sum(autograd_outside(subject.captures[label]).values()),
        )
        for label, table in tables.items()
    )
    table = subject.as_one(tables)
    phases = [name for name in _PHASES if any(sum(_times(part, name)) for part in tables.values())]
    yield verdict_paragraphs(tables)
    yield from pictures
    if phases:
        items = (element("li", _patch(_PHASES[name]), name) for name in phases)
        yield element("ul", *items, class_="legend")
    yield folded_table(table) if table is not None else None


def _in_ranges(table: Table) -> bool:
    return any(not str(path).startswith("(") for path in table.data["path"])


def _times(table: Table, name: str) -> list[int]:
    times: list[int] = np.asarray(table.data[f"{name}_ns"]).tolist()
    return times


def _title(table: Table) -> str:
    return f"{duration(_whole(table))} of kernel time by range, those around others on top"


def _whole(table: Table) -> int:
    roots = np.asarray(table.data["depth"]) == 0
    return int(np.asarray(table.data["total_ns"])[roots].sum())


def _picture(title: str, table: Table, autograd_ns: int) -> Markup:
    """Return the tree; ``autograd_ns`` is the time in no range that autograd's threads launched."""
    nodes = list(_nodes(table))
    height = str(_HEIGHT * (max((node.level for node in nodes), default=0) + 1))
    label = f"{title}; the table below has the same figures"
    drawn = element(
        "svg",
        *(_drawn(node, autograd_ns) for node in nodes),
        class_="icicle",
        height=height,
        role="img",
        aria_label=label,
    )
    return element("div", element("h3", title), drawn, class_="stacked")


def _nodes(table: Table) -> Iterator[_Node]:
    """Yield the parts from the left to the right; the rows of the report come parents first."""
    whole = max(_whole(table), 1)
    starts = [0.0]  # where the next part of each level begins
    for row in table.records():
        level, width = row["depth"], 100 * row["total_ns"] / whole
        del starts[level + 1 :]
        left = starts[level]
        starts[level] += width
        starts.append(left)
        if level < _MOST_LEVELS and width >= _NARROW:
            yield _Node(left, width, level, row)


def _drawn(node: _Node, autograd_ns: int) -> Markup:
    row = node.row
    label, ours = str(row["range"]).strip(), autograd_ns if row["path"] in {NO_RANGE, NO_MODULE} else 0
    figures = {name: row[f"{name}_ns"] for name in ("total", "own", "forward", "backward", "idle")}
    label += ": backward (autograd)" if 2 * ours > figures["total"] else ""
    text = ", ".join(
        [
            f"{row['path']}: {duration(figures['total'])}, {percent(row['time_percent'])}",
            *(
                f"{name} {duration(figures[name])}"
                for name in ("own", "forward", "backward")
                if figures[name]
            ),
            f"idle inside {duration(figures['idle'])}",
            *([f"launched by autograd threads, so of backward: {duration(ours)}"] if ours else []),
        ]
    )
    bands, left = [], 0.0
    for name, shade in _PHASES.items():
        width = 100 * figures[name] / max(figures["total"], 1)
        place = {
            "x": f"{left:.3f}%",
            "y": str(_HEIGHT - _BAND),
            "width": f"{width:.3f}%",
            "height": str(_BAND),
        }
        bands += [element("rect", class_=shade, **place)] if width else []
        left += width
    return element(
        "svg",
        element("title", text),
        element("rect", width="100%", height=str(_HEIGHT - 1), class_="node"),
        *bands,
        element("text", label, x="5", y="15"),
        x=f"{node.left:.3f}%",
        y=str(node.level * _HEIGHT),
        width=f"{node.width:.3f}%",
        height=str(_HEIGHT),
        data_path=str(row["path"]),
    )


def _patch(shade: str) -> Markup:
    rectangle = element("rect", class_=shade, width="14", height="14")
    return element("svg", rectangle, class_="swatch", aria_hidden="true")


SECTION = Section("ranges", "Ranges and modules", ranges)
