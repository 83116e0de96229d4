"""The figures of launches, GPU time and the timing check, and the tables behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nsyswrap.base.units import Unit, human
from nsyswrap.render.page.html import Markup, Section, element, section, side_by_side
from nsyswrap.render.page.tables import folded_table
from nsyswrap.render.timeline.names import id_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nsyswrap.render.page.subject import Subject
    from nsyswrap.reports.table import Table

    Figure = tuple[str, object, str, str]  # header, value, the value as text, and what the header means
    Figures = Callable[[Table], list[Figure]]

# The columns of the tiles.
_LAUNCH_COLUMNS = ("repeat_launches", "api_med_ns", "kernel_med_ns", "uncontended", "latency_med_ns")
_HEADERS = {"uncontended": "Repeats into an idle stream"}  # where the column's header says too little
_DEVICE_COLUMNS = ("window_ns", "busy_ns", "utilisation_percent")
_MOST_DEVICES = 8
_WHOLE = "Whole capture, start-up included."
_TABLES = ("launch_overhead", "gpu_time", "timing_audit")
_ROWS = 100


def figures(subject: Subject) -> Markup:
    """Return the figures of all captures side by side, and their tables."""
    tiles = {
        label: [_figure_tile(subject, label, *report) for report in _FIGURES] for label in subject.captures
    }
    tables = [subject.table(name) for name in _TABLES]
    return section(
        "figures",
        "Figures",
        side_by_side(tiles),
        *(folded_table(table, top=_ROWS) for table in tables if table is not None),
    )


def _figure_tile(subject: Subject, label: str, report: str, title: str, figures: Figures) -> Markup:
    """Return a tile with figures. Only the timing audit has its verdict: the answer has the others."""
    table = subject.tables(report).get(label)
    if table is None or not len(table):
        return _tile(subject, title, report, f"No figures: {subject.why_empty(report, label)}.")
    text = table.verdict if report == "timing_audit" else _WHOLE if subject.is_steady(label) else ""
    return _tile(subject, title, report, text, figures(table))


def _launch_figures(table: Table) -> list[Figure]:
    return _figures(table, _LAUNCH_COLUMNS, table.rows(1)[0])


def _device_figures(table: Table) -> list[Figure]:
    """Return all figures of a single device, or the utilization of each of several devices."""
    if len(table) == 1:
        return _figures(table, _DEVICE_COLUMNS, table.rows(1)[0])
    row_of_device: dict[Any, tuple[object, ...]] = {}
    for device, row in zip(table.data["device_id"], table.rows(), strict=True):
        row_of_device.setdefault(device, row)  # the first row of a device counts all its processes
    return [
        (f"{header}, GPU {id_text(int(device))}", value, text, meaning)
        for device, row in list(row_of_device.items())[:_MOST_DEVICES]
        for header, value, text, meaning in _figures(table, _DEVICE_COLUMNS[-1:], row)
    ]


def _audit_figures(table: Table) -> list[Figure]:
    """Return the number of NVTX range instances with each verdict."""
    counts: dict[str, int] = {}
    for verdict, instances in zip(table.data["verdict"], table.data["instances"], strict=True):
        counts[str(verdict)] = counts.get(str(verdict), 0) + int(instances)
    return [(name, count, f"{count:,}", "NVTX ranges with this verdict") for name, count in counts.items()]


def _figures(table: Table, names: Iterable[str], row: Iterable[object]) -> list[Figure]:
    """Return header, value, text and meaning of the named columns in a row of the table."""
    cells = {column.name: (column, value) for column, value in zip(table.columns, row, strict=True)}
    return [
        (
            _HEADERS.get(column.name, column.header),
            value,
            human(value, column.unit) + (" %" if column.unit is Unit.PERCENT else ""),
            column.help,
        )
        for column, value in map(cells.__getitem__, names)
        if value is not None
    ]


# Report, heading, and its figures.
_FIGURES: tuple[tuple[str, str, Figures], ...] = (
    ("launch_overhead", "Launches", _launch_figures),
    ("gpu_time", "GPU time", _device_figures),
    ("timing_audit", "NVTX timing check", _audit_figures),
)


def _tile(subject: Subject, title: str, report: str, text: str, figures: Iterable[Figure] = ()) -> Markup:
    pairs = (
        element("div", element("dt", name, title=meaning), element("dd", value_text, data_value=repr(value)))
        for name, value, value_text, meaning in figures
    )
    return element(
        "article",
        element("h4" if subject.several else "h3", title),
        element("dl", *pairs, class_="figures") if figures else None,
        element("p", text, class_="lead") if text else None,
        class_="tile",
        data_report=report,
    )


SECTION = Section("figures", "Figures", figures, reads=_TABLES, of_gpu=True)
