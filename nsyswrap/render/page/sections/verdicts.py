"""What it all comes to, first: launching, timing, and what to do, with the figures that carry it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nsyswrap.base.units import Unit, human
from nsyswrap.render.page.html import Markup, Section, element, section
from nsyswrap.render.page.lanes import said
from nsyswrap.render.page.tables import folded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from nsyswrap.render.page.subject import Subject
    from nsyswrap.reports.table import Table

    Figure = tuple[str, object, str]  # header, value, and how it is written

# Columns that carry the verdict: of all launches, of one device.
_LAUNCHING = ("launches", "api_med_ns", "latency_med_ns", "kernel_med_ns")
_BUSY = ("window_ns", "busy_ns", "utilisation_percent")
_DEVICES_SHOWN = 8
_ADVICE_SHOWN = 5
_ROWS = 100  # of the tables that verdicts come from


def verdicts(subject: Subject) -> Markup:
    """Return the verdicts of each capture side by side, and below them the tables they come from."""
    columns = (_of_capture(subject, label) for label in subject.captures)
    tables = [subject.table(name) for name in ("launch_overhead", "gpu_time", "timing_audit", "advice")]
    return section(
        "verdicts",
        "Verdicts",
        element("div", *columns, class_="verdicts several" if subject.several else "verdicts"),
        *(folded(table, top=_ROWS) for table in tables if table is not None),
    )


def _of_capture(subject: Subject, label: str) -> Markup:
    name = element("h3", label) if subject.several else None
    parts = [_told(subject, label, *told) for told in _TOLD]
    return element("div", name, *parts, _advice(subject, label))


def _told(
    subject: Subject, label: str, report: str, title: str, figures: Callable[[Table], list[Figure]]
) -> Markup:
    table = subject.tables(report).get(label)
    if table is None or not len(table):
        return _tile(subject, title, report, f"Nothing to judge: {subject.why_empty(report, label)}.")
    return _tile(subject, title, report, table.verdict, figures(table))


def _launching(table: Table) -> list[Figure]:
    return _figures(table, _LAUNCHING, table.rows(1)[0])


def _busy(table: Table) -> list[Figure]:
    """Return the figures of the one device; of several the share of the time that each was busy."""
    if len(table) == 1:
        return _figures(table, _BUSY, table.rows(1)[0])
    used: dict[Any, tuple[object, ...]] = {}
    for device, row in zip(table.data["device_id"], table.rows(), strict=True):
        used.setdefault(device, row)  # the first one is of all its processes
    return [
        (f"{header}, device {said(int(device))}", value, text)
        for device, row in list(used.items())[:_DEVICES_SHOWN]
        for header, value, text in _figures(table, _BUSY[-1:], row)
    ]


def _audited(table: Table) -> list[Figure]:
    """Return how often each verdict on NVTX ranges was given."""
    given: dict[str, int] = {}
    for verdict, instances in zip(table.data["verdict"], table.data["instances"], strict=True):
        given[str(verdict)] = given.get(str(verdict), 0) + int(instances)
    return [(name, count, f"{count:,}") for name, count in given.items()]


def _figures(table: Table, names: Iterable[str], row: Iterable[object]) -> list[Figure]:
    """Return header, value and text of columns in a row of the table."""
    cells = {column.name: (column, value) for column, value in zip(table.columns, row, strict=True)}
    return [
        (column.header, value, human(value, column.unit) + _sign(column.unit))
        for column, value in map(cells.__getitem__, names)
        if value is not None
    ]


def _sign(unit: Unit) -> str:
    return " %" if unit is Unit.PERCENT else ""


# Report, heading, and the figures in its table that carry the verdict.
_TOLD: tuple[tuple[str, str, Callable[[Table], list[Figure]]], ...] = (
    ("launch_overhead", "Launch overhead", _launching),
    ("gpu_time", "GPU time", _busy),
    ("timing_audit", "Timing audit", _audited),
)


def _tile(subject: Subject, title: str, report: str, said: str, figures: Iterable[Figure] = ()) -> Markup:
    pairs = (
        element("div", element("dt", name), element("dd", text, data_value=repr(value)))
        for name, value, text in figures
    )
    return element(
        "article",
        element("h4" if subject.several else "h3", title),
        element("dl", *pairs, class_="figures") if figures else None,
        element("p", said, class_="lead"),
        class_="tile",
        data_report=report,
    )


def _advice(subject: Subject, label: str) -> Markup:
    table = subject.tables("advice").get(label)
    if table is None or not len(table):
        nothing = "Nothing ran on a GPU" if table is None else "Nothing found"
        notes = () if table is None or subject.within else table.notes
        less = (f"{note[0].upper()}{note[1:]}." for note in notes)
        said = " ".join([f"{nothing}{subject.within}: no advice.", *less])
        return _tile(subject, "Advice", "advice", said)
    names = [column.name for column in table.columns]
    found = [_finding(dict(zip(names, row, strict=True))) for row in table.rows(_ADVICE_SHOWN)]
    more = len(table) - _ADVICE_SHOWN
    return element(
        "article",
        element("h4" if subject.several else "h3", "Advice"),
        element("ol", *found, class_="advice"),
        element("p", f"{more} more below, in its numbers", class_="note") if more > 0 else None,
        class_="tile wide",
        data_report="advice",
    )


def _finding(row: Mapping[str, object]) -> Markup:
    stake, share = row["at_stake_ns"], human(row["at_stake_percent"], Unit.PERCENT)
    at_stake = f"{human(stake, Unit.NS)} at stake, {share} %" if stake is not None else "about the figures"
    told = (("Seen", "evidence"), ("Do", "advice"), ("Unless", "unless"))
    return element(
        "li",
        element("p", element("b", row["what"]), " ", element("span", at_stake, class_="stake")),
        *(element("p", element("i", name), " ", row[key]) for name, key in told if row[key]),
    )


SECTION = Section(
    "verdicts", "Verdicts", verdicts, reads=("launch_overhead", "gpu_time", "timing_audit", "advice")
)
