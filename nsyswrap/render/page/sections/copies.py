"""The copy section: the bandwidth of copies by direction, kind of memory and size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nsyswrap.base.units import Unit, human
from nsyswrap.render import colors
from nsyswrap.render.page.bars import single_bar
from nsyswrap.render.page.colors import swatch
from nsyswrap.render.page.columns import Scale
from nsyswrap.render.page.html import Markup, Section, element, empty, missing, section, verdict_paragraphs
from nsyswrap.render.page.tables import folded_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nsyswrap.render.page.subject import Subject

_MOST_BARS = 30  # the table has all classes


def copies(subject: Subject) -> Markup:
    """Return a bar for each class of copies, as long as its bandwidth."""
    table = subject.table("memcpy_bandwidth")
    if table is None:
        return section("copies", "Copies", missing(subject.missing("memcpy_bandwidth")))
    names = [column.name for column in table.columns]
    rows: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in table.rows(_MOST_BARS)]
    scale = Scale.of([row["bandwidth_bytes_per_s"] or 0.0 for row in rows])
    return section(
        "copies",
        "Copies",
        verdict_paragraphs(subject.tables("memcpy_bandwidth")),
        empty(subject, "memcpy_bandwidth"),
        _axis(scale),
        element("div", *(_bar(row, scale) for row in rows), class_="bars"),
        folded_table(table),
        missing(subject.missing("memcpy_bandwidth")),
    )


def _axis(scale: Scale) -> Markup | None:
    """Return what a logarithmic axis begins with; None for one from 0."""
    if not scale.low:
        return None
    text = f"Logarithmic axis from {human(scale.low, Unit.BYTES_PER_S)}: ten times as much is as far again."
    return element("p", text, class_="note")


def _bar(row: Mapping[str, Any], scale: Scale) -> Markup:
    bandwidth = row["bandwidth_bytes_per_s"]
    label = str(row["operation"]).removeprefix("[CUDA ").removesuffix("]").removeprefix("memcpy ")
    kinds = " → ".join(kind for kind in (row["src_kind"], row["dst_kind"]) if kind)
    parts = (
        row.get("capture"),
        label,
        kinds,
        f"≤ {row['up_to']}".replace(" ", "\N{NO-BREAK SPACE}") if row["up_to"] else None,
    )
    one, more = ("memset", "memsets") if label == "memset" else ("copy", "copies")
    number = f"{row['count']:,} {one if row['count'] == 1 else more}"
    size = f"{human(row['total_bytes'], Unit.BYTES)} in {number}"
    style = colors.copy_color(label)
    return element(
        "div",
        element("span", swatch(style), " · ".join(filter(None, parts)), class_="label"),
        single_bar(scale.share(bandwidth), style) if bandwidth else element("span"),
        element("span", element("b", human(bandwidth, Unit.BYTES_PER_S)), f" · {size}", class_="value"),
    )


SECTION = Section("copies", "Copies", copies, reads=("memcpy_bandwidth",), of_gpu=True)
