"""Sections of the page that sum up: the answer, the findings, and where the captures come from."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.answer import Answer
from nsyswrap.analysis.conditions import FEWEST_SAMPLES, RunConditions, WorkingGpu, run_conditions_of
from nsyswrap.analysis.finding import Finding
from nsyswrap.base.run_facts import Gpu, Host
from nsyswrap.base.text import counted, shorten, without_folders
from nsyswrap.base.units import Unit, human, percent
from nsyswrap.render.colors import REST, state_color
from nsyswrap.render.page.html import (
    BarPart,
    Markup,
    Subject,
    element,
    folded_table,
    in_parts,
    joined,
    marked,
    missing,
    note,
    section,
    selection_text,
    side_by_side,
    stacked_bar,
    verdict_paragraphs,
)
from nsyswrap.reports.answer import AnswerLine, answer_lines, with_command
from nsyswrap.reports.answer.line import shares_of, whole_percent
from nsyswrap.reports.answer.lines import part_name
from nsyswrap.reports.summary import SummaryScreen
from nsyswrap.reports.wording.advice import SAVINGS, Wording, words
from nsyswrap.reports.wording.states import OTHER_NAME, state_name

_MOST_ADVICE = 3
_ROWS = 100
_BRIEFLY = {"bound": "at most ", "estimate": "about "}  # before a percentage


def answer(subject: Subject) -> Markup:
    """Return the answers of all captures side by side."""
    tiles = {label: [_answer_tile(subject, label)] for label in subject.captures}
    return section("answer", "Answer", side_by_side(tiles))


def _answer_tile(subject: Subject, label: str) -> Markup:
    """Return how busy the GPU was, and the lines of the screen; how a failed run ended comes first.

    Commands are left out that show what the page has: advice, and reports.
    """
    summary = subject.summaries[label]
    ending = element("p", summary.ending, class_="warning") if summary.ending else None
    command = f"nsyswrap report {shlex.quote(subject.captures[label].source.name)}"
    parts = [_judged(summary.answer, with_command(_kept(summary), command))]
    whole = subject.whole_answer(label)
    if whole is not None:
        lines = answer_lines(subject.captures[label], whole)
        busy = [line for line in lines if line.kind in ("verdict", "shares")]
        parts = [in_parts(parts[0], _judged(whole, busy, "whole."))]
    return element("article", ending, *parts, class_="tile wide answer")


def _kept(summary: SummaryScreen) -> Iterator[AnswerLine]:
    """Yield the lines without those that the page has elsewhere: findings, and reports."""
    listed = summary.answer is not None and bool(summary.answer.findings)
    of_finding = False
    for line in summary.lines:
        of_finding = line.kind == "finding" or (of_finding and line.kind == "detail")
        if not (listed and of_finding) and not line.typed.startswith(("--advice", "-r ")):
            yield line


def _judged(answer: Answer | None, lines: Sequence[AnswerLine], before: str = "") -> Markup:
    """Return the busy share in large letters, a bar of what filled the time, and the lines.

    ``before`` stands before the keys of the figures.
    """
    if answer is None or not answer.devices:
        return joined(map(_line, lines))
    keyed = [
        replace(line, figures=tuple(one._replace(key=f"{before}{one.key}") for one in line.figures))
        for line in lines
    ]
    (share, *others), verdict = keyed[0].figures, keyed[0]
    of = {"steady part": "in a step", "selected part": "of the selection"}.get(answer.scope)
    if answer.steps is not None and answer.steps.chosen:
        of = f"in {part_name(answer)}"
    number = element("data", share.text, value=repr(share.value), data_figure=share.key)
    name = element("span", f" busy {of or 'of the whole capture'}")
    return joined(
        (
            element("p", number, name, class_=f"busy {verdict.level}"),
            _bar(answer),
            element("p", *marked(verdict.sentence, others), class_="answer-verdict"),
            *map(_line, keyed[1:]),
        )
    )


def _bar(answer: Answer) -> Markup:
    shares = shares_of(answer)
    looks = {
        state: (OTHER_NAME, REST) if state == OTHER_NAME else (state_name(state), state_color(state))
        for state in shares.busy_parts
    }
    parts = [
        BarPart(name, shares.busy_parts[state], f"{shares.text(shares.busy_parts[state])} %", style)
        for state, (name, style) in looks.items()
    ]
    if shares.idle:
        parts.append(BarPart("idle", shares.idle, f"{shares.text(shares.idle)} %", None))
    return stacked_bar("", parts, shares.units)


def _line(line: AnswerLine) -> Markup:
    level = "warning" if line.level == "bad" else line.level
    classes = " ".join(part for part in (f"answer-{line.kind}", level) if part)
    in_heading = [figure for figure in line.figures if figure.text in line.heading]
    bold = element("b", *marked(line.begin, in_heading)) if line.heading else None
    rest = replace(line, report="").rest  # the page has its table
    others = [figure for figure in line.figures if figure not in in_heading]
    return element("p", bold, *marked(rest, others), class_=classes)


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
    """Return the findings with most time in one line each, which a click unfolds; then the others."""
    answer = subject.summaries[label].answer
    if answer is None or not answer.findings:
        return None
    items = [_advice_item(label, number, one) for number, one in enumerate(answer.findings)]
    more = items[_MOST_ADVICE:]
    return element(
        "article",
        element("ol", *items[:_MOST_ADVICE], class_="advice"),
        element(
            "details",
            element("summary", f"{len(more)} more"),
            element("ol", *more, class_="advice", start=_MOST_ADVICE + 1),
            class_="numbers",
        )
        if more
        else None,
        class_="tile wide",
        data_report="advice",
    )


def _advice_item(label: str, number: int, finding: Finding) -> Markup:
    """Return a finding: its name, a bar of the time at stake and its share; below, what a click unfolds."""
    wording = words(finding)
    share: Markup | str = "not known" if finding.status == "unknown" else ""
    if finding.saved_percent is not None:
        text, key = whole_percent(finding.saved_percent), f"findings.{number}.potential_percent"
        share = joined(
            (
                _BRIEFLY.get(finding.status, ""),
                element("data", text, value=repr(finding.saved_percent), data_figure=key),
            )
        )
    width = f"{min(finding.ceiling_percent or 0.0, 100.0):.2f}%"
    rectangle = element("rect", width=width, height="10", class_="at-stake")
    bar = element("svg", rectangle, class_="bar", aria_hidden="true")
    line = (element("b", wording.heading or wording.what), bar, element("span", share, class_="share"))
    return element(
        "li",
        element("details", element("summary", *line), *_evidence(finding, wording)),
        data_finding=finding.kind,
        data_label=label,
    )


def _evidence(finding: Finding, wording: Wording) -> Iterator[Markup]:
    share = human(finding.saved_percent, Unit.PERCENT)
    potential = "a doubt about the figures" if finding.ceiling_ns is None else "saving not known"
    if finding.saved_ns is not None:
        potential = SAVINGS[finding.status].format(f"{human(finding.saved_ns, Unit.NS)}, {share} %")
    sentence = f"{wording.sentence} " if wording.heading else ""
    yield element("p", sentence, element("span", potential, class_="stake"))
    code = element("code", wording.example) if wording.example else ""
    do: Iterable[object] = (wording.do, ". For example: " if code else "", code)
    parts = (("Seen", [wording.evidence]), ("Do", [*do]), ("Unless", [wording.unless]))
    yield from (element("p", element("i", name), " ", *texts) for name, texts in parts if texts[0])


def head(subject: Subject) -> Markup:
    """Return a card for each capture and the table of all checks."""
    cards = (_card(subject, label, subject.summaries[label]) for label in subject.captures)
    checks, audit = (subject.table(name) for name in ("diagnostics", "timing_audit"))
    return section(
        "program",
        "Program and checks",
        element("div", *cards, class_="cards"),
        verdict_paragraphs(subject.tables("timing_audit")),
        folded_table(audit, top=_ROWS) if audit is not None else None,
        missing(subject.missing("timing_audit")) if subject.has_gpu_work else None,
        folded_table(checks, "Checks of the recording") if checks is not None else None,
    )


def _card(subject: Subject, label: str, summary: SummaryScreen) -> Markup:
    warnings = summary.trust.remarks
    selected = selection_text(subject.captures[label])
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


_WIDTH, _HEIGHT = 300, 40  # of a curve, in its own units
_MOST_POINTS = 300
_MOST_VERSIONS = 20
_TEXT_WIDTH = 60


def conditions(subject: Subject) -> Markup | None:
    """Return a card for each GPU that worked, and a line on the machine; None without recorded conditions."""
    runs = {label: run_conditions_of(capture) for label, capture in subject.captures.items()}
    parts = [_run(subject, label, run) for label, run in runs.items() if run]
    return section("conditions", "Conditions", *parts) if parts else None


def _run(subject: Subject, label: str, run: RunConditions) -> Markup:
    cards = [_gpu_card(gpu) for gpu in run.gpus]
    return joined(
        (
            element("h3", f"'{label}'") if subject.several else None,
            element("div", *cards, class_="cards") if cards else None,
            note(f"Clocks unknown: {run.unknown}.") if run.unknown else None,
            *map(note, _facts(run)),
        )
    )


def _gpu_card(gpu: WorkingGpu) -> Markup:
    figures = list(_figures(gpu)) if gpu.count >= FEWEST_SAMPLES else []
    rule = f"medians of {gpu.count:,} samples" if figures else "too few samples"
    return element(
        "article",
        element("h4", f"GPU {gpu.gpu.index} · {_short(gpu.gpu.name or 'name unknown')}"),
        element("dl", *(_figure(*figure) for figure in figures), class_="figures") if figures else None,
        element("p", " · ".join((f"{rule} while it worked", *_modes(gpu.gpu))), class_="note"),
        _curve("SM clock", "MHz", gpu.seconds, gpu.samples["sm_mhz"]),
        _curve("Power", "W", gpu.seconds, gpu.samples["power_mw"] / 1000),
        class_="card",
    )


def _modes(gpu: Gpu) -> Iterator[str]:
    for name, mode in (("MIG", gpu.mig), ("persistence mode", gpu.persistence), ("ECC", gpu.ecc)):
        if mode is not None:
            yield f"{name} {'on' if mode else 'off'}"


def _figures(gpu: WorkingGpu) -> Iterator[tuple[str, str, str]]:
    facts = gpu.gpu
    limit = f" of {facts.power_limit_w:.0f}" if facts.power_limit_w else ""
    for name, spread, unit in (
        ("SM clock", gpu.sm_mhz, f" of {facts.max_sm_mhz} MHz" if facts.max_sm_mhz else " MHz"),
        ("Memory clock", gpu.memory_mhz, " MHz"),
        ("Power", gpu.power_w, f"{limit} W"),
        ("Temperature", gpu.temperature_c, " °C"),
    ):
        if spread:
            yield name, f"{spread.median:.0f}{unit}", f"from {spread.least:.0f} to {spread.most:.0f}"
    if gpu.throttled_percent is not None:
        reasons = ", ".join(f"{name} {percent(share)}" for name, share in (gpu.throttled or {}).items())
        yield "Throttled", percent(gpu.throttled_percent), reasons or "in no sample"


def _figure(name: str, value: str, explanation: str) -> Markup:
    return element("div", element("dt", name, title=explanation), element("dd", value))


def _curve(name: str, unit: str, seconds: NDArray[Any], values: NDArray[Any]) -> Markup | None:
    """Return a curve of all samples of a GPU, from 0 to the largest value; None without values."""
    known = ~np.isnan(values)
    if known.sum() <= 1 or not values[known].max():
        return None
    x, y = (_thinned(column[known]) for column in (seconds, values))
    most = values[known].max()
    left, length = x[0], x[-1] - x[0] or 1.0
    places = zip(_WIDTH * (x - left) / length, _HEIGHT * (1 - y / most), strict=True)
    line = element("polyline", points=" ".join(f"{px:.1f},{py:.1f}" for px, py in places))
    title = f"{name} over {length:.1f} s, at most {most:.0f} {unit}"
    box = {"viewBox": f"0 -1 {_WIDTH} {_HEIGHT + 2}", "preserveAspectRatio": "none"}
    svg = element("svg", line, class_="curve", role="img", aria_label=title, **box)
    return joined((note(title), svg))


def _thinned(values: NDArray[Any]) -> NDArray[Any]:
    parts = np.array_split(values, min(len(values), _MOST_POINTS))
    return np.array([part.mean() for part in parts])


def _facts(run: RunConditions) -> Iterator[str]:
    versions = list(run.facts.versions.items())[:_MOST_VERSIONS]
    program = [f"{_short(name)} {_short(version)}" for name, version in versions]
    program += [f"commit {_short(run.facts.git.label)}"] if run.facts.git else []
    lines = (list(_host(run.facts.host)), program)
    yield from (" · ".join(parts) for parts in lines if parts)


def _host(host: Host) -> Iterator[str]:
    if host.node:
        yield f"node {_short(host.node)}"
    cores = counted(host.cores, "cores") if host.cores else ""
    if host.cpu or cores:
        yield ", ".join(filter(None, (_short(host.cpu), cores)))
    if host.governor:
        yield f"CPU governor {_short(host.governor)}"
    if host.load:
        times = zip(host.load, ("before", "after"), strict=False)
        yield f"load {', '.join(f'{load:.1f} {time}' for load, time in times)}"


def _short(text: str) -> str:
    return shorten(without_folders(text), _TEXT_WIDTH)
