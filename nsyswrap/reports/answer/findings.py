"""The findings of an answer in lines: what is wrong, and how much of the time a change can save."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.analysis.advice import WORTH_PERCENT
from nsyswrap.base.missing import MISSING
from nsyswrap.base.text import clip, printable, screen_width
from nsyswrap.base.units import duration
from nsyswrap.reports.answer.line import (
    Line,
    first_fitting,
    room,
    whole_percent,
)
from nsyswrap.reports.answer.steps import outlier_lines
from nsyswrap.reports.wording.advice import words
from nsyswrap.reports.wording.states import IDLE_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nsyswrap.analysis.answer import Answer
    from nsyswrap.analysis.finding import Finding

_MOST = 4  # findings in lines
_SAME = 0.005  # of the time judged: a smaller difference shows in no figure
_SPIKES = "spikes"  # the finding that is about outlier steps


def has_spikes(answer: Answer) -> bool:
    """Return True if the lines of the findings tell of the outlier steps."""
    return any(finding.kind == _SPIKES for finding in _shown(answer))


def finding_lines(answer: Answer) -> Iterator[list[Line]]:
    """Yield the lines of each finding, the first in full; of none, why there is none.

    The last lines name the commands that show more. A withheld verdict has no findings.
    """
    findings = _shown(answer)
    if answer.withheld:
        yield []
    elif not findings:
        yield list(_nothing(answer))
    for number, finding in enumerate(findings):
        before = {other.kind for other in findings[:number]}
        lines = (
            _other(finding, answer, again=bool(before & {*finding.shares}))
            if number
            else _first(finding, answer)
        )
        yield [*lines, *_more(finding, answer)]
    yield list(_commands(answer))


def _worth(answer: Answer) -> list[Finding]:
    return [finding for finding in answer.findings if finding.ceiling_ns is not None]


def _shown(answer: Answer) -> list[Finding]:
    return _worth(answer)[:_MOST]


def _first(finding: Finding, answer: Answer) -> Iterator[Line]:
    wording = words(finding)
    yield Line(printable(wording.sentence), "finding", "bad", heading=wording.heading)
    remedy = wording.remedy
    most = f"would save at most {_percent(finding)}{_of_a_step(answer)}"
    texts = [f"{remedy} {most} ({_times(finding, answer)})"] if _is_of_these_steps(finding, answer) else []
    texts.append(f"{remedy} {most}")
    yield Line(clip(first_fitting(texts, room("detail")), room("detail")), "detail")


def _other(finding: Finding, answer: Answer, *, again: bool) -> Iterator[Line]:
    """Yield a finding in one line; in two if its headline is too long."""
    wording = words(finding)
    common = ", partly the same time" if again else ""
    most = f"at most {_percent(finding)}{common}"
    sentence = printable(wording.sentence)
    one = Line(f"{sentence}: {most}", "finding", "warning", heading=wording.heading)
    if not wording.heading:
        one = Line(most, "finding", "warning", heading=sentence)
    if screen_width(one.text) <= room("finding"):
        yield one
        return
    yield Line(sentence, "finding", "warning", heading=wording.heading)
    remedy = wording.remedy
    texts = [f"{remedy}: at most {_percent(finding)}{_of_a_step(answer)}{common}", f"{remedy}: {most}", most]
    yield Line(first_fitting(texts, room("detail")), "detail")


def _percent(finding: Finding) -> str:
    return whole_percent(finding.ceiling_percent or 0.0)


def _of_a_step(answer: Answer) -> str:
    return " of a step" if answer.steps else ""


def _is_of_these_steps(finding: Finding, answer: Answer) -> bool:
    """Return False if a finding is about another process, whose steps have another duration."""
    steps = answer.steps
    return steps is None or abs(finding.window_ns / (steps.mean_ns * steps.count) - 1) < _SAME


def _times(finding: Finding, answer: Answer) -> str:
    """Return the time saved and the time judged, of the mean step if there are steps."""
    count = answer.steps.count if answer.steps else 1
    saved, judged = (duration(ns / count) for ns in (finding.ceiling_ns or 0, finding.window_ns))
    unit = judged.rpartition(" ")[2]
    return f"{saved.removesuffix(f' {unit}')} of {judged}"


def _more(finding: Finding, answer: Answer) -> Iterator[Line]:
    """Yield what else there is to say about some findings."""
    if finding.kind == "waiting_for_rank":
        yield Line("compare all ranks", "detail", typed="--by rank")
    if finding.kind == _SPIKES:
        yield from outlier_lines(answer, "detail")


def _nothing(answer: Answer) -> Iterator[Line]:
    """Yield that nothing costs much, or the largest cause if the GPU idles."""
    cause, ns = next(iter(answer.idle_ns.items()), ("", 0))
    if answer.share(ns) < WORTH_PERCENT:
        yield Line(f"No single cause costs {WORTH_PERCENT:.0f} % or more", "finding", "good")
        return
    text = f"{IDLE_NAMES[cause]}, {whole_percent(answer.share(ns))} of the {answer.part}"
    yield Line(text, "finding", "warning", heading="Largest cause of idle time")
    yield Line("list the gaps", "detail", typed="-r gpu_idle")


def _commands(answer: Answer) -> Iterator[Line]:
    findings = len(_worth(answer))
    if findings > _MOST:
        more = findings - _MOST
        text = f"{more} more finding{'' if more == 1 else 's'}, and advice on all"
        yield Line(text, "note", typed="--advice")
    elif findings:
        yield Line("Advice with a line of code for each", "note", typed="--advice")
    processes = {device.process_id for device in answer.devices} - {MISSING}
    if len(processes) > 1 and all(finding.kind != "waiting_for_rank" for finding in answer.findings):
        yield Line(f"Compare the {len(processes)} processes", "note", typed="--by rank")
