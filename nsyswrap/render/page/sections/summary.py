"""Sections of the page that sum up: the answer, the findings, figures, and where the captures come from."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from nsyswrap.analysis.finding import Finding
from nsyswrap.base.units import Unit, human
from nsyswrap.render.page.html import Markup, Section, element, marked, section, side_by_side
from nsyswrap.render.page.subject import Subject, part_shown
from nsyswrap.render.page.tables import folded_table
from nsyswrap.render.timeline.names import id_text
from nsyswrap.reports.answer import Line, with_command
from nsyswrap.reports.summary import Summary
from nsyswrap.reports.table import Table
from nsyswrap.reports.wording.advice import SAVINGS, words

Figure = tuple[str, str, object, str, str]  # key, header, value, its text, and what the header means
Figures = Callable[[Table], list[Figure]]

_MOST_ADVICE = 5
# The columns of the tiles.
_LAUNCH_COLUMNS = ("repeat_launches", "api_med_ns", "kernel_med_ns", "uncontended", "latency_med_ns")
_HEADERS = {"uncontended": "Repeats into an idle stream"}  # where the column's header says too little
_DEVICE_COLUMNS = ("window_ns", "busy_ns", "utilisation_percent")
_MOST_DEVICES = 8
_WHOLE = "Whole capture, start-up included."
_TABLES = ("launch_overhead", "gpu_time", "timing_audit")
_ROWS = 100


def answer(subject: Subject) -> Markup:
    """Return the answers of all captures side by side."""
    tiles = {label: [_answer_tile(subject, label)] for label in subject.captures}
    return section("answer", "Answer", side_by_side(tiles))


def _answer_tile(subject: Subject, label: str) -> Markup:
    """Return the lines of the answer as the screen has them; how a failed run ended comes first.

    Commands are left out that show what the page has: advice, and reports.
    """
    summary = subject.summaries[label]
    ending = element("p", summary.ending, class_="warning") if summary.ending else None
    lines = [line for line in summary.lines if not line.typed.startswith(("--advice", "-r "))]
    command = f"nsyswrap report {shlex.quote(subject.captures[label].source.name)}"
    return element("article", ending, *map(_line, with_command(lines, command)), class_="tile wide answer")


def _line(line: Line) -> Markup:
    bar = element("span", line.blocks(), class_="blocks", aria_hidden="true") if line.bar else None
    level = "warning" if line.level == "bad" else line.level
    classes = " ".join(part for part in (f"answer-{line.kind}", level) if part)
    in_heading = [figure for figure in line.figures if figure.text in line.heading]
    bold = element("b", *marked(line.begin, in_heading)) if line.heading else None
    rest = replace(line, report="").rest  # the page has its table
    others = [figure for figure in line.figures if figure not in in_heading]
    return element("p", bold, *marked(rest, others), " " if bar else None, bar, class_=classes)


ANSWER = Section("answer", "Answer", answer)


def findings(subject: Subject) -> Markup:
    """Return the findings of all captures side by side, and their table."""
    tiles = {label: [_findings_tile(subject, label)] for label in subject.captures}
    table = subject.table("advice")
    return section(
        "findings",
        "Findings",
        side_by_side(tiles) if any(tile for [tile] in tiles.values()) else element("p", "No findings."),
        folded_table(table, top=_ROWS) if table is not None else None,
    )


def _findings_tile(subject: Subject, label: str) -> Markup | None:
    answer = subject.summaries[label].answer
    if answer is None or not answer.findings:
        return None
    more = len(answer.findings) - _MOST_ADVICE
    return element(
        "article",
        element("ol", *(_advice_item(label, one) for one in answer.findings[:_MOST_ADVICE]), class_="advice"),
        element("p", f"{more} more in the table below", class_="note") if more > 0 else None,
        class_="tile wide",
        data_report="advice",
    )


def _advice_item(label: str, finding: Finding) -> Markup:
    wording = words(finding)
    share = human(finding.saved_percent, Unit.PERCENT)
    potential = "a doubt about the figures" if finding.ceiling_ns is None else "saving not known"
    if finding.saved_ns is not None:
        potential = SAVINGS[finding.status].format(f"{human(finding.saved_ns, Unit.NS)}, {share} %")
    code = element("code", wording.example) if wording.example else ""
    do = (wording.do, ". For example: " if code else "", code)
    parts = (("Seen", (wording.evidence,)), ("Do", do), ("Unless", (wording.unless,)))
    return element(
        "li",
        element(
            "p",
            element("b", f"{wording.heading}:" if wording.heading else wording.what),
            f" {wording.sentence}" if wording.heading else None,
            " ",
            element("span", potential, class_="stake"),
        ),
        *(element("p", element("i", name), " ", *texts) for name, texts in parts if texts[0]),
        data_finding=finding.kind,
        data_label=label,
    )


FINDINGS = Section("findings", "Findings", findings, of_gpu=True)


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
        (f"{key}.{id_text(int(device))}", f"{header}, GPU {id_text(int(device))}", value, text, meaning)
        for device, row in list(row_of_device.items())[:_MOST_DEVICES]
        for key, header, value, text, meaning in _figures(table, _DEVICE_COLUMNS[-1:], row)
    ]


def _audit_figures(table: Table) -> list[Figure]:
    """Return the number of NVTX range instances with each verdict."""
    counts: dict[str, int] = {}
    for verdict, instances in zip(table.data["verdict"], table.data["instances"], strict=True):
        counts[str(verdict)] = counts.get(str(verdict), 0) + int(instances)
    return [
        (f"timing_audit.{name}", name, count, f"{count:,}", "NVTX ranges with this verdict")
        for name, count in counts.items()
    ]


def _figures(table: Table, names: Iterable[str], row: Iterable[object]) -> list[Figure]:
    """Return key, header, value, text and meaning of the named columns in a row of the table."""
    cells = {column.name: (column, value) for column, value in zip(table.columns, row, strict=True)}
    return [
        (
            f"{table.schema.name}.{column.name}",
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
        element(
            "div",
            element("dt", name, title=meaning),
            element("dd", value_text, data_value=repr(value), data_figure=key),
        )
        for key, name, value, value_text, meaning in figures
    )
    return element(
        "article",
        element("h4" if subject.several else "h3", title),
        element("dl", *pairs, class_="figures") if figures else None,
        element("p", text, class_="lead") if text else None,
        class_="tile",
        data_report=report,
    )


FIGURES = Section("figures", "Figures", figures, of_gpu=True)


def head(subject: Subject) -> Markup:
    """Return a card for each capture and the table of all checks."""
    cards = (_card(subject, label, subject.summaries[label]) for label in subject.captures)
    checks = subject.table("diagnostics")
    return section(
        "program",
        "Program and checks",
        element("div", *cards, class_="cards"),
        folded_table(checks, "Checks of the recording") if checks is not None else None,
    )


def _card(subject: Subject, label: str, summary: Summary) -> Markup:
    warnings = summary.trust.remarks
    selected = part_shown(subject.captures[label])
    return element(
        "article",
        element("h3", label),
        element("p", element("code", summary.command), class_="command") if summary.command else None,
        element("p", summary.origin),
        element("p", f"selected: {selected}", class_="warning") if selected else None,
        element("p", summary.trust.contents, class_="trust"),
        *(element("p", text.strip(), class_="warning") for text in (*warnings, *subject.remarks(label))),
        class_="card",
    )


HEAD = Section("program", "Program and checks", head)
