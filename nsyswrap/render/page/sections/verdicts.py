"""The verdict section: launch overhead, GPU time, timing audit and advice, with the figures behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nsyswrap.base.units import Unit, human
from nsyswrap.render.page.html import Markup, Section, element, section
from nsyswrap.render.page.lanes import id_text
from nsyswrap.render.page.tables import folded_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from nsyswrap.render.page.subject import Subject
    from nsyswrap.reports.table import Table

    Figure = tuple[str, object, str]  # header, value, and the value as text

# The columns that a verdict rests on.
_LAUNCH_COLUMNS = ("repeat_launches", "api_med_ns", "kernel_med_ns", "uncontended", "latency_med_ns")
_DEVICE_COLUMNS = ("window_ns", "busy_ns", "utilisation_percent")
_MOST_DEVICES = 8
_MOST_ADVICE = 5
_ROWS = 100  # of each table below the verdicts


def verdicts(subject: Subject) -> Markup:
    """Return the verdicts of all captures side by side, and the tables that they rest on."""
    columns = (_capture_column(subject, label) for label in subject.captures)
    tables = [subject.table(name) for name in ("launch_overhead", "gpu_time", "timing_audit", "advice")]
    return section(
        "verdicts",
        "Verdicts",
        element("div", *columns, class_="verdicts several" if subject.several else "verdicts"),
        *(folded_table(table, top=_ROWS) for table in tables if table is not None),
    )


def _capture_column(subject: Subject, label: str) -> Markup:
    name = element("h3", label) if subject.several else None
    tiles = [_verdict_tile(subject, label, *report) for report in _REPORTS]
    return element("div", name, *tiles, _advice_tile(subject, label))


def _verdict_tile(
    subject: Subject, label: str, report: str, title: str, figures: Callable[[Table], list[Figure]]
) -> Markup:
    table = subject.tables(report).get(label)
    if table is None or not len(table):
        return _tile(subject, title, report, f"Nothing to judge: {subject.why_empty(report, label)}.")
    return _tile(subject, title, report, table.verdict, figures(table))


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
        (f"{header}, device {id_text(int(device))}", value, text)
        for device, row in list(row_of_device.items())[:_MOST_DEVICES]
        for header, value, text in _figures(table, _DEVICE_COLUMNS[-1:], row)
    ]


def _audit_figures(table: Table) -> list[Figure]:
    """Return the number of NVTX range instances with each verdict."""
    counts: dict[str, int] = {}
    for verdict, instances in zip(table.data["verdict"], table.data["instances"], strict=True):
        counts[str(verdict)] = counts.get(str(verdict), 0) + int(instances)
    return [(name, count, f"{count:,}") for name, count in counts.items()]


def _figures(table: Table, names: Iterable[str], row: Iterable[object]) -> list[Figure]:
    """Return header, value and text of the named columns in a row of the table."""
    cells = {column.name: (column, value) for column, value in zip(table.columns, row, strict=True)}
    return [
        (column.header, value, human(value, column.unit) + (" %" if column.unit is Unit.PERCENT else ""))
        for column, value in map(cells.__getitem__, names)
        if value is not None
    ]


# Report, heading, and the figures that its verdict rests on.
_REPORTS: tuple[tuple[str, str, Callable[[Table], list[Figure]]], ...] = (
    ("launch_overhead", "Launch overhead", _launch_figures),
    ("gpu_time", "GPU time", _device_figures),
    ("timing_audit", "Timing audit", _audit_figures),
)


def _tile(subject: Subject, title: str, report: str, text: str, figures: Iterable[Figure] = ()) -> Markup:
    pairs = (
        element("div", element("dt", name), element("dd", value_text, data_value=repr(value)))
        for name, value, value_text in figures
    )
    return element(
        "article",
        element("h4" if subject.several else "h3", title),
        element("dl", *pairs, class_="figures") if figures else None,
        element("p", text, class_="lead"),
        class_="tile",
        data_report=report,
    )


def _advice_tile(subject: Subject, label: str) -> Markup:
    table = subject.tables("advice").get(label)
    if table is None or not len(table):
        nothing = "Nothing ran on a GPU" if table is None else "Nothing found"
        notes = () if table is None or subject.within else table.notes
        sentences = (f"{note[0].upper()}{note[1:]}." for note in notes)
        text = " ".join([f"{nothing}{subject.within}: no advice.", *sentences])
        return _tile(subject, "Advice", "advice", text)
    names = [column.name for column in table.columns]
    items = [_advice_item(dict(zip(names, row, strict=True))) for row in table.rows(_MOST_ADVICE)]
    more = len(table) - _MOST_ADVICE
    return element(
        "article",
        element("h4" if subject.several else "h3", "Advice"),
        element("ol", *items, class_="advice"),
        element("p", f"{more} more below, in its numbers", class_="note") if more > 0 else None,
        class_="tile wide",
        data_report="advice",
    )


def _advice_item(row: Mapping[str, object]) -> Markup:
    potential_ns, share = row["at_stake_ns"], human(row["at_stake_percent"], Unit.PERCENT)
    potential = (
        f"{human(potential_ns, Unit.NS)} at stake, {share} %"
        if potential_ns is not None
        else "about the figures"
    )
    parts = (("Seen", "evidence"), ("Do", "advice"), ("Unless", "unless"))
    return element(
        "li",
        element("p", element("b", row["what"]), " ", element("span", potential, class_="stake")),
        *(element("p", element("i", name), " ", row[key]) for name, key in parts if row[key]),
    )


SECTION = Section(
    "verdicts", "Verdicts", verdicts, reads=("launch_overhead", "gpu_time", "timing_audit", "advice")
)
