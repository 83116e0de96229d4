"""The answer of each capture, what to do, the timing audit, and the tables behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.base.units import Unit, human
from nsyswrap.render.answer_bar import answer_bar
from nsyswrap.render.page.html import Markup, Section, element, section
from nsyswrap.render.page.tables import folded_table
from nsyswrap.reports.answer import sentences

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nsyswrap.analysis.advice import Advice
    from nsyswrap.render.page.subject import Subject
    from nsyswrap.reports.answer import Line
    from nsyswrap.reports.table import Table

    Figure = tuple[str, object, str]  # header, value, and the value as text

_TABLES = ("launch_overhead", "gpu_time", "timing_audit", "advice")
_MOST_ADVICE = 5
_ROWS = 100  # of each table below the verdicts


def verdicts(subject: Subject) -> Markup:
    """Return the answers of all captures side by side, and the tables that they rest on."""
    columns = (_capture_column(subject, label) for label in subject.captures)
    tables = [subject.table(name) for name in _TABLES]
    return section(
        "verdicts",
        "How busy, why idle, what to do",
        element("div", *columns, class_="verdicts several" if subject.several else "verdicts"),
        *(folded_table(table, top=_ROWS) for table in tables if table is not None),
    )


def _capture_column(subject: Subject, label: str) -> Markup:
    name = element("h3", label) if subject.several else None
    return element(
        "div", name, _answer_tile(subject, label), _advice_tile(subject, label), _audit_tile(subject, label)
    )


def _answer_tile(subject: Subject, label: str) -> Markup:
    """Return the lines of the answer as the screen has them; how a failed run ended comes first."""
    summary = subject.summaries[label]
    ending = element("p", summary.ending, class_="warning") if summary.ending else None
    return element("article", ending, *map(_line, sentences(summary.lines)), class_="tile wide answer")


def _line(line: Line) -> Markup:
    bar = element("span", answer_bar(line), class_="blocks", aria_hidden="true") if line.bar else None
    classes = " ".join(part for part in (line.kind, line.level) if part)
    return element("p", line.text, " " if bar else None, bar, class_=classes)


def _audit_tile(subject: Subject, label: str) -> Markup:
    table = subject.tables("timing_audit").get(label)
    if table is None or not len(table):
        why = subject.why_empty("timing_audit", label)
        return _tile(subject, "Timing audit", "timing_audit", f"Nothing to judge: {why}.")
    return _tile(subject, "Timing audit", "timing_audit", table.verdict, _audit_figures(table))


def _audit_figures(table: Table) -> list[Figure]:
    """Return the number of NVTX range instances with each verdict."""
    counts: dict[str, int] = {}
    for verdict, instances in zip(table.data["verdict"], table.data["instances"], strict=True):
        counts[str(verdict)] = counts.get(str(verdict), 0) + int(instances)
    return [(name, count, f"{count:,}") for name, count in counts.items()]


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


def _advice_tile(subject: Subject, label: str) -> Markup | None:
    answer = subject.summaries[label].answer
    if answer is None or not answer.findings:
        return None
    more = len(answer.findings) - _MOST_ADVICE
    return element(
        "article",
        element("h4" if subject.several else "h3", "What to do"),
        element("ol", *map(_advice_item, answer.findings[:_MOST_ADVICE]), class_="advice"),
        element("p", f"{more} more below, in its numbers", class_="note") if more > 0 else None,
        class_="tile wide",
        data_report="advice",
    )


def _advice_item(finding: Advice) -> Markup:
    share = human(finding.potential_percent, Unit.PERCENT)
    potential = "about the figures"
    if finding.potential_ns is not None:
        potential = f"at most {human(finding.potential_ns, Unit.NS)}, {share} %"
    code = element("code", finding.example) if finding.example else ""
    do = (finding.do, ". For example: " if code else "", code)
    parts = (("Seen", (finding.evidence,)), ("Do", do), ("Unless", (finding.unless,)))
    return element(
        "li",
        element("p", element("b", finding.what), " ", element("span", potential, class_="stake")),
        *(element("p", element("i", name), " ", *texts) for name, texts in parts if texts[0]),
    )


SECTION = Section("verdicts", "Answer", verdicts, reads=_TABLES)
