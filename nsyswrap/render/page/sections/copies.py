"""Copies by direction, kinds of memory and size, and the bandwidth that they reached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nsyswrap.base.units import Unit, human
from nsyswrap.render.page import colors as colours
from nsyswrap.render.page.bars import single
from nsyswrap.render.page.html import Markup, Section, element, empty, missing, section, verdicts
from nsyswrap.render.page.tables import folded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nsyswrap.render.page.subject import Subject

_SHOWN = 30  # bars; the table has all


def copies(subject: Subject) -> Markup:
    """Return a bar per class of copies, as long as its bandwidth."""
    table = subject.table("memcpy_bandwidth")
    if table is None:
        return section("copies", "Copies", missing(subject.missing("memcpy_bandwidth")))
    names = [column.name for column in table.columns]
    rows: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in table.rows(_SHOWN)]
    most = max((row["bandwidth_bytes_per_s"] or 0.0 for row in rows), default=0.0)
    return section(
        "copies",
        "Copies by size, and their bandwidth",
        verdicts(subject.tables("memcpy_bandwidth")),
        empty(subject, "memcpy_bandwidth"),
        element("div", *(_bar(row, most) for row in rows), class_="bars"),
        folded(table),
        missing(subject.missing("memcpy_bandwidth")),
    )


def _bar(row: Mapping[str, Any], most: float) -> Markup:
    bandwidth = row["bandwidth_bytes_per_s"]
    label = str(row["operation"]).removeprefix("[CUDA ").removesuffix("]").removeprefix("memcpy ")
    kinds = " → ".join(kind for kind in (row["src_kind"], row["dst_kind"]) if kind)
    said = (row.get("capture"), label, kinds, f"up to {row['up_to']}" if row["up_to"] else None)
    size = f"{human(row['total_bytes'], Unit.BYTES)} in {row['count']:,}"
    look = colours.look(colours.COPIES, label)
    return element(
        "div",
        element("span", colours.swatch(look), " · ".join(filter(None, said)), class_="label"),
        single(bandwidth / most, look) if bandwidth and most else element("span"),
        element("span", element("b", human(bandwidth, Unit.BYTES_PER_S)), f" · {size}", class_="value"),
    )


SECTION = Section("copies", "Copies", copies, reads=("memcpy_bandwidth",))
