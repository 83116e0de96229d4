"""The answer in lines of at most 80 columns, the same for a terminal, a page, a notebook and Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.analysis.step_budget import KERNELS, OTHER_KERNELS
from nsyswrap.base.missing import MISSING
from nsyswrap.base.text import clip, printable, screen_width, shorten
from nsyswrap.base.units import duration
from nsyswrap.reports.answer.findings import finding_lines, has_spikes
from nsyswrap.reports.answer.line import (
    Line,
    first_fitting,
    first_line,
    room,
    whole_percent,
)
from nsyswrap.reports.answer.shares import Shares, merged, shares_of
from nsyswrap.reports.answer.steps import outlier_lines, start_up_lines
from nsyswrap.reports.answer.without_gpu import without_gpu_lines
from nsyswrap.reports.wording.advice import words
from nsyswrap.reports.wording.states import BUSY_NAMES, IDLE_NAMES, OTHER_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nsyswrap.analysis.answer import Answer, DeviceTime, JudgedSteps
    from nsyswrap.analysis.finding import Finding
    from nsyswrap.capture.capture import Capture
    from nsyswrap.reports.answer.line import Level

_MOSTLY_PERCENT, _WELL_PERCENT = 50, 80  # busy
_SKEWED = 0.1  # of the median: then the mean is not the typical step
_MOST_NOTES = 2
_BAR = 12  # columns that small parts leave to a bar
_SMALL = 0.05
_LEAST_PARTS = 2


def answer_lines(capture: Capture, answer: Answer) -> list[Line]:
    """Return the answer of a capture in lines: busy, idle causes, findings, then facts, doubts and notes."""
    if not answer.devices:
        return list(without_gpu_lines(capture))
    first, *others = finding_lines(answer)
    return [
        *_busy_lines(answer),
        *_why_whole(answer),
        *(_withheld(answer.withheld) if answer.withheld else first),
        *start_up_lines(answer),
        *(() if has_spikes(answer) else outlier_lines(answer)),
        *(line for lines in others for line in lines),
        *_notes(answer),
    ]


def _busy_lines(answer: Answer) -> Iterator[Line]:
    shares = shares_of(answer)
    percent = 100 * shares.part(shares.busy)
    several = len({device.device_id for device in answer.devices}) > 1
    level: Level = "bad" if percent < _MOSTLY_PERCENT else "warning" if percent < _WELL_PERCENT else "good"
    head = f"{'GPUs' if several else 'GPU'} busy {shares.text(shares.busy)} % of {_part(answer)}"
    yield Line(_verdict(head, answer), "verdict", level, heading=head)
    yield from _step_lines(answer)
    largest = max(shares.idle_parts.values(), default=0)
    bar = tuple(map(shares.part, (shares.busy, largest, shares.idle - largest)))
    mostly = percent >= _MOSTLY_PERCENT
    if mostly:
        yield Line(_parts("busy", shares, shares.busy, shares.busy_parts, bar=True), "shares", bar=bar)
    if shares.idle:
        text = _parts("idle", shares, shares.idle, shares.idle_parts, bar=not mostly)
        yield Line(text, "shares", bar=() if mostly else bar)
    if len(answer.devices) > 1:
        yield _devices(answer)


def _verdict(head: str, answer: Answer) -> str:
    """Return what follows the heading. A long label of the steps is shortened; before it, the total goes."""
    steps = answer.steps
    if steps is None:
        window = duration(max(device.window_ns for device in answer.devices))
        where = " from first to last GPU operation" if answer.part == "whole capture" else ""
        return f"{window}{where}"
    before = f"{steps.count:,} x "
    total = f" ({duration(steps.mean_ns * steps.count)})"
    each = "" if _skewed(steps) else f", {duration(steps.mean_ns)} each"
    label = printable(steps.label.removeprefix("a sequence of "))
    texts = [f"{before}{label}{each}{total}", f"{before}{label}{each}"]
    columns = room("verdict") - len(f"{head}: ")
    short = f"{before}{shorten(label, columns - len(before) - len(each))}{each}"
    return first_fitting([*texts, short], columns)


def _part(answer: Answer) -> str:
    """Return the name of what is judged."""
    steps = answer.steps
    if steps is None or not steps.chosen:
        return f"the {answer.part}"
    return (
        f"step {steps.first:,}" if steps.first == steps.last else f"steps {steps.first:,} to {steps.last:,}"
    )


def _skewed(steps: JudgedSteps) -> bool:
    return abs(steps.mean_ns - steps.median_ns) > _SKEWED * steps.median_ns


def _step_lines(answer: Answer) -> Iterator[Line]:
    """Yield mean and median of the steps where they differ."""
    steps = answer.steps
    if steps is not None and _skewed(steps):
        mean, median = duration(steps.mean_ns), duration(steps.median_ns)
        yield Line(f"step time: mean {mean}, median {median}", "detail")


def _parts(title: str, shares: Shares, total: int, parts: Mapping[str, int], *, bar: bool) -> str:
    """Return a total and its parts; small parts are merged until the line fits, or has room for a bar."""
    names = {**BUSY_NAMES, **IDLE_NAMES, OTHER_NAME: OTHER_NAME}
    if [name for name in parts if name in KERNELS] == [OTHER_KERNELS]:
        names[OTHER_KERNELS] = "kernels"
    while True:
        texts = [f"{names[name]} {shares.text(units)} %" for name, units in parts.items()]
        text = f"{title} {shares.text(total)} %: {', '.join(texts)}"
        smallest = min((units for name, units in parts.items() if name != OTHER_NAME), default=0)
        columns = room("shares") - (_BAR if bar and shares.part(smallest) < _SMALL else 0)
        if screen_width(text) <= columns or len(parts) <= _LEAST_PARTS:
            return text
        parts = merged(parts)


def _devices(answer: Answer) -> Line:
    """Return how busy each device was, as briefly as the line demands."""
    by_process = len({device.process_id for device in answer.devices}) > 1
    texts = [f"{_name(device, by_process=by_process)}: {_percent(device)} %" for device in answer.devices]
    lines = [Line(text, "detail") for text in (", ".join(texts), *_brief_devices(answer))]
    for count in range(len(texts) - 1, 0, -1):
        fewer = f"{', '.join(texts[:count])}, {len(texts) - count} more"
        lines.append(Line(fewer, "detail", report="gpu_time"))
    return first_line(lines)


def _brief_devices(answer: Answer) -> Iterator[str]:
    """Yield the devices without a name each, if their numbers are in a row."""
    devices = sorted(answer.devices, key=lambda device: device.device_id)
    first, last = devices[0].device_id, devices[-1].device_id
    if [device.device_id - first for device in devices] == list(range(len(devices))):
        yield f"GPU {first} to {last}: {', '.join(map(_percent, devices))} %"


def _name(device: DeviceTime, *, by_process: bool) -> str:
    process = f" in process {device.process_id}" if by_process and device.process_id != MISSING else ""
    return f"GPU {device.device_id}{process}"


def _percent(device: DeviceTime) -> str:
    percent = whole_percent(100 * sum(device.busy_ns.values()) / max(device.window_ns, 1))
    return percent.removesuffix(" %")


def _why_whole(answer: Answer) -> Iterator[Line]:
    if answer.why_whole and answer.part == "whole capture":
        text = printable(f"No steady part: {answer.why_whole}")
        texts = [f"{text}{end}" for end in ("; the whole capture is judged", "; whole capture judged", "")]
        yield Line(clip(first_fitting(texts, room("fact")), room("fact")), "fact")


def _withheld(why: Finding) -> Iterator[Line]:
    yield Line(printable(words(why).what), "finding", "bad", heading="No verdict")
    yield Line("Record again; list the problems", "detail", typed="-r diagnostics")


def _notes(answer: Answer) -> Iterator[Line]:
    for finding in answer.findings:
        if finding.ceiling_ns is None:
            yield Line(f"Check: {printable(words(finding).what)}", "doubt", "warning", report=finding.source)
    notes = [(remark, "") for remark in answer.remarks]
    notes += [(wording.sentence, wording.report) for wording in map(words, answer.notes)]
    for note, report in notes[:_MOST_NOTES]:
        yield Line(f"Note: {printable(note)}", "note", report=report)
