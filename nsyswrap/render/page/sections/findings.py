"""The findings: what costs time in each capture, what to do, and the table of all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.base.units import Unit, human
from nsyswrap.render.answer_parts import split_heading
from nsyswrap.render.page.html import Markup, Section, element, section, side_by_side
from nsyswrap.render.page.tables import folded_table
from nsyswrap.reports.wording.advice import words

if TYPE_CHECKING:
    from nsyswrap.analysis.finding import Finding
    from nsyswrap.render.page.subject import Subject

_MOST_ADVICE = 5
_ROWS = 100


def findings(subject: Subject) -> Markup:
    """Return the findings of all captures side by side, and their table."""
    tiles = {label: [_tile(subject, label)] for label in subject.captures}
    table = subject.table("advice")
    return section(
        "findings",
        "Findings",
        side_by_side(tiles) if any(tile for [tile] in tiles.values()) else element("p", "No findings."),
        folded_table(table, top=_ROWS) if table is not None else None,
    )


def _tile(subject: Subject, label: str) -> Markup | None:
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
    heading, rest = split_heading(wording.what)
    share = human(finding.ceiling_percent, Unit.PERCENT)
    potential = "a doubt about the figures"
    if finding.ceiling_ns is not None:
        potential = f"at most {human(finding.ceiling_ns, Unit.NS)}, {share} %"
    code = element("code", wording.example) if wording.example else ""
    do = (wording.do, ". For example: " if code else "", code)
    parts = (("Seen", (wording.evidence,)), ("Do", do), ("Unless", (wording.unless,)))
    return element(
        "li",
        element(
            "p",
            element("b", heading or rest),
            rest if heading else None,
            " ",
            element("span", potential, class_="stake"),
        ),
        *(element("p", element("i", name), " ", *texts) for name, texts in parts if texts[0]),
        data_finding=finding.kind,
        data_label=label,
    )


SECTION = Section("findings", "Findings", findings, reads=("advice",), of_gpu=True)
