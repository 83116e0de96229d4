"""What it all comes to, first: launching, timing, and what to do, with the figures that carry it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.page.markup import Markup, element
from nsyswrap.page.section import section
from nsyswrap.page.tables import folded
from nsyswrap.units import Unit, human

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nsyswrap.page.subject import Subject
    from nsyswrap.report import Table

# Report, heading, columns of its first row that carry the verdict.
_TOLD = (
    ("launch_overhead", "Launch overhead", ("launches", "api_med_ns", "latency_med_ns", "kernel_med_ns")),
    ("gpu_time", "GPU time", ("window_ns", "busy_ns", "utilisation_percent")),
)
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
    parts = [_told(subject, label, *told) for told in _TOLD]
    name = element("h3", label) if subject.several else None
    return element("div", name, *parts, _audit(subject, label), _advice(subject, label))


def _told(subject: Subject, label: str, report: str, title: str, carrying: tuple[str, ...]) -> Markup:
    table = subject.tables(report).get(label)
    if table is None or not len(table):
        return _tile(subject, title, report, "Nothing to judge: nothing of the kind was recorded.")
    return _tile(subject, title, report, table.verdict, _figures(table, carrying))


def _audit(subject: Subject, label: str) -> Markup:
    """Say which NVTX ranges time what they launch, with how often each verdict was given."""
    table = subject.tables("timing_audit").get(label)
    if table is None or not len(table):
        return _tile(subject, "Timing audit", "timing_audit", "Nothing to judge: no NVTX ranges or calls.")
    given: dict[str, int] = {}
    for verdict, instances in zip(table.data["verdict"], table.data["instances"], strict=True):
        given[str(verdict)] = given.get(str(verdict), 0) + int(instances)
    figures = [(name, count, f"{count:,}") for name, count in given.items()]
    return _tile(subject, "Timing audit", "timing_audit", table.verdict, figures)


def _figures(table: Table, names: Iterable[str]) -> list[tuple[str, object, str]]:
    """Return header, value and text of columns in the table's first row."""
    row = dict(zip((column.name for column in table.columns), table.rows(1)[0], strict=True))
    columns = {column.name: column for column in table.columns}
    return [
        (columns[name].header, row[name], human(row[name], columns[name].unit) + _sign(columns[name].unit))
        for name in names
        if row[name] is not None
    ]


def _sign(unit: Unit) -> str:
    return " %" if unit is Unit.PERCENT else ""


def _tile(
    subject: Subject, title: str, report: str, said: str, figures: Iterable[tuple[str, object, str]] = ()
) -> Markup:
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
        said = "Nothing ran on a GPU: no advice." if table is None else "Nothing found: no advice."
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
