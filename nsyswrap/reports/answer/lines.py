"""The answer in lines of at most 80 columns, the same for a terminal, a page, a notebook and Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from nsyswrap.analysis.advice import WORTH_PERCENT
from nsyswrap.analysis.answer import Answer, DeviceTime, JudgedSteps, OtherLoop, Outlier, RankShare
from nsyswrap.analysis.finding import Finding
from nsyswrap.analysis.gpu_operations import GRAPH, MEMCPY, MEMSET
from nsyswrap.analysis.process_roles import process_roles
from nsyswrap.analysis.step_budget import KERNELS, OTHER_KERNELS
from nsyswrap.analysis.steps.occurrences import LoopLabel
from nsyswrap.analysis.steps.repeated_range import family
from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import NotInCapture
from nsyswrap.base.text import clip, counted, printable, screen_width, shorten
from nsyswrap.base.units import Unit, duration, duration_of, human, percent
from nsyswrap.capture.capture import Capture
from nsyswrap.reports import find_report
from nsyswrap.reports.answer.line import (
    AnswerLine,
    Kind,
    Level,
    Shares,
    first_fitting,
    first_line,
    merged,
    room,
    shares_of,
    whole_percent,
)
from nsyswrap.reports.figures import SentenceFigure, figures_of
from nsyswrap.reports.wording.advice import SAVINGS, words
from nsyswrap.reports.wording.checks import why_no_gpu_work
from nsyswrap.reports.wording.notes import joined_texts, note_text
from nsyswrap.reports.wording.states import BUSY_NAMES, IDLE_NAMES, OTHER_NAME, state_name

_MOSTLY_PERCENT, _WELL_PERCENT = 50, 80  # busy
_SKEWED = 0.1  # of the median: then the mean is not the typical step
_MOST_NOTES = 2
_BAR = 12  # columns that small parts leave to a bar
_SMALL = 0.05
_LEAST_PARTS = 2
_MOST = 4  # findings in lines
_SAME = 0.005  # of the time judged: a smaller difference shows in no figure
_SPIKES = "spikes"  # the finding that is about outlier steps
_ONE_KERNEL, _UNKNOWN = "one_kernel", "unknown_products"  # facts
# The findings that are about a state of a busy GPU that only moves data.
_PAGES = ("faulting_kernels", "waiting_for_pages", "idle_migration", "idle_pages_to_host")
_COPIES = (*_PAGES, "pageable_copies", "copies_not_overlapped", "tiny_copies", "copy_bound")
_KERNELS = ("casts", "layout_copies", "unfused_attention", "parameter_updates", "elementwise_chains")
_MOVING_PERCENT = 10.0  # of the time judged: less needs no word
_MOVING = {MEMCPY: _COPIES, MEMSET: _COPIES, "copy_kernel": _KERNELS}
# Reports with the total time of each name, the name in their last column.
_SUMMARIES = {
    "nvtx_sum": "NVTX ranges",
    "osrt_sum": "OS runtime calls",
    "mpi_event_sum": "MPI calls",
    "openmp_sum": "OpenMP",
    "openacc_sum": "OpenACC",
    "cuda_api_sum": "CUDA API calls",
}
_NAMES = 3  # of each summary
_MOST_ROLES = 4  # of processes
_NAME_WIDTH = 30


def answer_lines(capture: Capture, answer: Answer) -> list[AnswerLine]:
    """Return the answer of a capture in lines: busy, idle causes, findings, then facts, doubts and notes."""
    if answer.lacks_kernels and answer.withheld:
        return [*_withheld(answer.withheld), *_role_lines(capture)]
    if not answer.devices:
        return list(_without_gpu_lines(capture))
    first, *others = _finding_lines(answer)
    return [
        *_busy_lines(answer),
        *_utilization(answer),
        *_energy(answer),
        *_why_whole(answer),
        *(_withheld(answer.withheld) if answer.withheld else (*first, *_moving(answer))),
        *loop_lines(answer),
        *(() if answer.ranks else _role_lines(capture)),
        *start_up_lines(answer),
        *(() if any(finding.kind == _SPIKES for finding in _top_findings(answer)) else outlier_lines(answer)),
        *(line for lines in others for line in lines),
        *_facts(answer),
        *_notes(answer),
    ]


def _busy_lines(answer: Answer) -> Iterator[AnswerLine]:
    shares = shares_of(answer)
    percent = 100 * shares.fraction(shares.busy)
    gpus = answer.devices if answer.ranks else {device.device_id for device in answer.devices}
    level: Level = "bad" if percent < _MOSTLY_PERCENT else "warning" if percent < _WELL_PERCENT else "good"
    head = f"{'GPUs' if len(gpus) > 1 else 'GPU'} busy {shares.text(shares.busy)} % of {part_name(answer)}"
    busy_text, idle_text = (f"{shares.text(units)} %" for units in (shares.busy, shares.idle))
    steps = answer.steps
    each = {"steps.mean_ns": duration(steps.mean_ns)} if steps and not _skewed(steps) else {}
    marks = _figures(answer, {"busy_percent": busy_text, **each})
    yield AnswerLine(_verdict(head, answer), "verdict", level, heading=head, figures=marks)
    yield from _step_lines(answer)
    largest = max(shares.idle_parts.values(), default=0)
    bar = tuple(map(shares.fraction, (shares.busy, largest, shares.idle - largest)))
    mostly = percent >= _MOSTLY_PERCENT
    if mostly:
        text = _parts("busy", shares, shares.busy, shares.busy_parts, bar=True)
        yield AnswerLine(text, "shares", bar=bar, figures=marks[:1])
    if shares.idle:
        text = _parts("idle", shares, shares.idle, shares.idle_parts, bar=not mostly)
        marks = _figures(answer, {"idle_percent": idle_text})
        yield AnswerLine(text, "shares", bar=() if mostly else bar, figures=marks)
    if any(device.shared_with for device in answer.devices) or (len(answer.devices) > 1 and not answer.ranks):
        yield _devices(answer)
    if answer.ranks:
        yield from rank_lines(answer)


def _utilization(answer: Answer) -> Iterator[AnswerLine]:
    """Yield the share of the peak rates that is reached, where shapes were recorded."""
    known = answer.utilization
    if known is None:
        return
    if known.flop_per_s is None and known.bytes_per_s is None:
        share = whole_percent(known.known_percent)
        yield AnswerLine(
            f"FLOPs or bytes are known of {share} of kernel time", "fact", heading="MFU not known"
        )
        return
    heading = "MFU not known" if known.mfu_percent is None else f"MFU {percent(known.mfu_percent)}"
    texts = [human(known.flop_per_s, Unit.FLOP_PER_S)] if known.flop_per_s else []
    if known.bandwidth_percent is not None:
        texts.append(f"memory bandwidth at least {whole_percent(known.bandwidth_percent)} of its peak")
    yield AnswerLine("; ".join(texts) or "peak rates of this GPU are not known", "fact", heading=heading)


def _energy(answer: Answer) -> Iterator[AnswerLine]:
    """Yield the energy of a step and of the run."""
    known = answer.energy
    if known is None:
        return
    run = f"{'' if known.counted else 'about '}{human(known.run_joules, Unit.JOULES)}"
    power, each = f"mean power {known.mean_power_w:.0f} W", known.step_joules
    if each is None:
        yield AnswerLine(power, "fact", heading=f"Energy {run} a run")
    else:
        text = f"{power} (estimate); the run {run}"
        yield AnswerLine(text, "fact", heading=f"Energy about {human(each, Unit.JOULES)} a step")


def _figures(answer: Answer, texts: Mapping[str, str]) -> tuple[SentenceFigure, ...]:
    """Return the figures with these keys and texts; those that the answer lacks are left out."""
    values = figures_of(answer)
    return tuple(SentenceFigure(key, values[key], text) for key, text in texts.items() if key in values)


def _saved(finding: Finding, answer: Answer) -> tuple[SentenceFigure, ...]:
    number = next(i for i, other in enumerate(answer.findings) if other is finding)
    saved = whole_percent(finding.ceiling_percent or 0.0)
    return _figures(answer, {f"findings.{number}.potential_percent": saved})


def _verdict(head: str, answer: Answer) -> str:
    """Return what follows the heading. A long label of the steps is shortened; before it, the total goes."""
    steps = answer.steps
    if steps is None or answer.scope != "steady part":
        window = duration(max(device.window_ns for device in answer.devices))
        where = " from first to last GPU operation" if answer.scope == "whole capture" else ""
        return f"{window}{where}"
    total = f" ({duration(steps.mean_ns * steps.count)})"
    each = "" if _skewed(steps) else f", {duration(steps.mean_ns)} each"
    names = _repeated(steps.count, steps.label)
    texts = [f"{before}{label}{each}{more}" for before, label in names for more in (total, "")]
    columns, (before, label) = room("verdict") - len(f"{head}: "), names[-1]
    short = f"{before}{shorten(label, columns - len(before) - len(each))}{each}"
    return first_fitting([*texts, short], columns)


def part_name(answer: Answer, article: str = "the ") -> str:
    """Return the name of what is judged. ``article`` stands before a part that is not named by its steps."""
    steps = answer.steps
    if steps is None or not steps.chosen:
        return f"{article}{answer.scope}"
    return (
        f"step {steps.first:,}" if steps.first == steps.last else f"steps {steps.first:,} to {steps.last:,}"
    )


def _skewed(steps: JudgedSteps) -> bool:
    return abs(steps.mean_ns - steps.median_ns) > _SKEWED * steps.median_ns


def _step_lines(answer: Answer) -> Iterator[AnswerLine]:
    """Yield mean and median of the steps where they differ."""
    steps = answer.steps
    if steps is not None and _skewed(steps):
        mean, median = duration(steps.mean_ns), duration(steps.median_ns)
        marks = _figures(answer, {"steps.mean_ns": mean, "steps.median_ns": median})
        yield AnswerLine(f"step time: mean {mean}, median {median}", "detail", figures=marks)


def _parts(title: str, shares: Shares, total: int, parts: Mapping[str, int], *, bar: bool) -> str:
    """Return a total and its parts; small parts are merged until the line fits, or has room for a bar."""
    names = {**BUSY_NAMES, **IDLE_NAMES, OTHER_NAME: OTHER_NAME}
    if [name for name in parts if name in KERNELS] == [OTHER_KERNELS]:
        names[OTHER_KERNELS] = "kernels"
    while True:
        texts = [f"{names[name]} {shares.text(units)} %" for name, units in parts.items()]
        text = f"{title} {shares.text(total)} %: {', '.join(texts)}"
        smallest = min((units for name, units in parts.items() if name != OTHER_NAME), default=0)
        columns = room("shares") - (_BAR if bar and shares.fraction(smallest) < _SMALL else 0)
        if screen_width(text) <= columns or len(parts) <= _LEAST_PARTS:
            return text
        parts = merged(parts)


def _devices(answer: Answer) -> AnswerLine:
    """Return how busy each device was, as briefly as the line demands."""
    by_process = len({device.process_id for device in answer.devices}) > 1
    texts = [
        f"{_name(device, by_process=by_process)}: {_busy_percent(device)} %" for device in answer.devices
    ]
    lines = [AnswerLine(text, "detail") for text in (", ".join(texts), *_brief_devices(answer))]
    for count in range(len(texts) - 1, 0, -1):
        fewer = f"{', '.join(texts[:count])}, {len(texts) - count} more"
        lines.append(AnswerLine(fewer, "detail", report="gpu_time"))
    return first_line(lines)


def _brief_devices(answer: Answer) -> Iterator[str]:
    """Yield the devices without a name each, if their numbers are in a row."""
    devices = sorted(answer.devices, key=lambda device: device.device_id)
    first, last = devices[0].device_id, devices[-1].device_id
    if [device.device_id - first for device in devices] == list(range(len(devices))):
        yield f"GPU {first} to {last}: {', '.join(map(_busy_percent, devices))} %"


def _name(device: DeviceTime, *, by_process: bool) -> str:
    if device.shared_with:
        return f"GPU {device.device_id}, shared by {len(device.shared_with) + 1} processes"
    process = f" in process {device.process_id}" if by_process and device.process_id != MISSING else ""
    return f"GPU {device.device_id}{process}"


def _busy_percent(device: DeviceTime) -> str:
    percent = whole_percent(100 * sum(device.busy_ns.values()) / max(device.window_ns, 1))
    return percent.removesuffix(" %")


def _why_whole(answer: Answer) -> Iterator[AnswerLine]:
    if answer.why_whole and answer.scope == "whole capture":
        text = printable(f"No steady part: {note_text(answer.why_whole)}")
        texts = [f"{text}{end}" for end in ("; the whole capture is judged", "; whole capture judged", "")]
        yield AnswerLine(clip(first_fitting(texts, room("fact")), room("fact")), "fact")


def _withheld(why: Finding) -> Iterator[AnswerLine]:
    wording = words(why)
    yield AnswerLine(printable(wording.what), "finding", "bad", heading="No verdict")
    if wording.remedy:
        yield AnswerLine(f"{wording.remedy} can keep them: {wording.example}", "detail")
    yield AnswerLine("Record again; list the problems", "detail", typed="-r diagnostics")


def _notes(answer: Answer) -> Iterator[AnswerLine]:
    for finding in answer.findings:
        if finding.ceiling_ns is None:
            yield AnswerLine(
                f"Check: {printable(words(finding).what)}", "doubt", "warning", report=finding.source
            )
    notes = [(remark, "") for remark in joined_texts(answer.remarks)]
    notes += [(wording.sentence, wording.report) for wording in map(words, answer.notes)]
    for note, report in notes[:_MOST_NOTES]:
        yield AnswerLine(f"Note: {printable(note)}", "note", report=report)


def _facts(answer: Answer) -> Iterator[AnswerLine]:
    """Yield facts that name no cost, and the option for the command that examines a kernel.

    Of a job these are facts on memory alone: others are those of a rank like all others.
    """
    for fact in answer.facts:
        if answer.ranks and not fact.kind.startswith("memory_"):
            continue
        sentence = printable(words(fact).what)
        if fact.kind == _ONE_KERNEL:
            yield AnswerLine(sentence, "note")
            yield AnswerLine("command for Nsight Compute", "detail", typed="--ncu")
        elif fact.kind != _UNKNOWN:
            yield AnswerLine(sentence, "fact", report=fact.source)


def _finding_lines(answer: Answer) -> Iterator[list[AnswerLine]]:
    """Yield the lines of each finding, the first in full; of none, why there is none.

    The last lines name the commands that show more. A withheld verdict has no findings.
    """
    findings = _top_findings(answer)
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


def _top_findings(answer: Answer) -> list[Finding]:
    return _worth(answer)[:_MOST]


def _first(finding: Finding, answer: Answer) -> Iterator[AnswerLine]:
    wording = words(finding)
    yield AnswerLine(printable(wording.sentence), "finding", "bad", heading=wording.heading)
    remedy = wording.remedy
    if finding.saved_ns is None:
        yield AnswerLine(f"{remedy}: {_saving(finding)}", "detail")
        return
    of = _of_a_step(answer)
    texts = [_saving(finding, of)]
    steps = answer.steps  # a finding can be about another process, whose steps have another duration
    if steps is None or abs(finding.window_ns / (steps.mean_ns * steps.count) - 1) < _SAME:
        texts.insert(0, _saving(finding, of, _times(finding, answer)))
    texts = [f"{remedy} would save {most}" for most in texts]
    text = clip(first_fitting(texts, room("detail")), room("detail"))
    yield AnswerLine(text, "detail", figures=_saved(finding, answer))


def _other(finding: Finding, answer: Answer, *, again: bool) -> Iterator[AnswerLine]:
    """Yield a finding in one line; in two if its headline is too long."""
    wording = words(finding)
    common = ", partly the same time" if again else ""
    sentence = printable(wording.sentence)
    most, in_full = (f"{_saving(finding, of)}{common}" for of in ("", _of_a_step(answer)))
    marks = _saved(finding, answer)
    costs, saves = ("", ": ") if finding.saved_ns is None else ("costs ", " would save ")
    bare = [] if "%" in sentence else [most]  # two shares in one line would not be told apart
    for saving in (f"{costs}{in_full}", f"{costs}{most}", *bare):
        one = AnswerLine(
            f"{sentence}: {saving}", "finding", "warning", heading=wording.heading, figures=marks
        )
        if not wording.heading:
            one = AnswerLine(saving, "finding", "warning", heading=sentence, figures=marks)
        if screen_width(one.text) <= room("finding"):
            yield one
            return
    yield AnswerLine(sentence, "finding", "warning", heading=wording.heading)
    remedy = wording.remedy
    texts = [f"{remedy}{saves}{in_full}", f"{remedy}: {in_full}", f"{remedy}: {most}", most]
    yield AnswerLine(first_fitting(texts, room("detail")), "detail", figures=marks)


def _saving(finding: Finding, of: str = "", times: str = "") -> str:
    """Return the share of the time that a change saves, and whether that is a bound or an estimate."""
    in_times = f" ({times})" if times else ""
    saving = SAVINGS[finding.status].format(f"{whole_percent(finding.ceiling_percent or 0.0)}{of}{in_times}")
    return saving.replace(") (", "; ")


def _of_a_step(answer: Answer) -> str:
    return " of a step" if answer.scope == "steady part" else ""  # not if one rank of several has no steps


def _times(finding: Finding, answer: Answer) -> str:
    """Return the time saved and the time judged, of the mean step if there are steps."""
    count = answer.steps.count if answer.steps else 1
    return duration_of((finding.ceiling_ns or 0) / count, finding.window_ns / count)


def _more(finding: Finding, answer: Answer) -> Iterator[AnswerLine]:
    """Yield what else there is to say about some findings."""
    if answer.ranks:
        yield from on_ranks(finding, answer)
    elif finding.kind == "waiting_for_rank":
        yield AnswerLine("compare all ranks", "detail", typed="--by rank")
    if finding.kind == _SPIKES:
        yield from outlier_lines(answer, "detail")


def _nothing(answer: Answer) -> Iterator[AnswerLine]:
    """Yield that nothing costs much, or the largest cause if the GPU idles."""
    cause, ns = next(iter(answer.idle_ns.items()), ("", 0))
    if answer.share(ns) < WORTH_PERCENT:
        yield from () if _moving(answer) else (_healthy(answer),)
        return
    text = f"{IDLE_NAMES[cause]}, {whole_percent(answer.share(ns))} of the {answer.scope}"
    yield AnswerLine(text, "finding", "warning", heading="Largest cause of idle time")
    yield AnswerLine("list the gaps", "detail", typed="-r gpu_idle")


def _healthy(answer: Answer) -> AnswerLine:
    """Return that nothing costs much, and what was looked at: some names do not tell what a kernel does."""
    unknown = sum(fact.time_percent or 0.0 for fact in answer.facts if fact.kind == _UNKNOWN)
    unknown += answer.share(sum(answer.busy_ns.get(state, 0) for state in (GRAPH, OTHER_KERNELS)))
    looked = "idle time, copies, precision, fusion"
    if unknown >= WORTH_PERCENT:
        looked = f"idle time, copies; {whole_percent(unknown)} in unknown kernels"
    return AnswerLine(f"No single cause costs {WORTH_PERCENT:.0f} % or more ({looked})", "finding", "good")


def _moving(answer: Answer) -> list[AnswerLine]:
    """Return the share of the time that only moves data, if it is much and no finding is about it."""
    kinds = {finding.kind for finding in answer.findings}
    states = [state for state, known in _MOVING.items() if not kinds.intersection(known)]
    parts = {state: ns for state, ns in answer.busy_ns.items() if state in states}
    if answer.share(sum(parts.values())) < _MOVING_PERCENT:
        return []
    report = "memcpy_bandwidth" if next(iter(parts)) == MEMCPY else "cuda_gpu_kern_sum"
    percent = {name: answer.share(ns) for name, ns in parts.items()}
    shown = [name for name, one in percent.items() if one >= 1]
    listed = ", ".join(f"{BUSY_NAMES[name]} {whole_percent(percent[name])}" for name in shown)
    listed = listed if len(shown) > 1 else BUSY_NAMES[shown[0]]
    total = whole_percent(sum(percent.values()))
    text = f"{total} of the {answer.scope} only moves data: {listed}"
    return [AnswerLine(text, "finding", "warning", report=report)]


def _commands(answer: Answer) -> Iterator[AnswerLine]:
    findings = len(_worth(answer))
    if answer.ranks:
        yield AnswerLine("Advice on each rank alone, with a line of code", "note", typed="--advice")
        if answer.steps:
            yield AnswerLine("Tables are of all steps and start-up, not of the steady part alone", "note")
    elif findings > _MOST:
        more = findings - _MOST
        text = f"{counted(more, 'more findings')}, and advice on all"
        yield AnswerLine(text, "note", typed="--advice")
    elif findings:
        yield AnswerLine("Advice with a line of code for each", "note", typed="--advice")
    processes = {pid for device in answer.devices for pid in (device.process_id, *device.shared_with)}
    processes -= {MISSING}
    if (
        len(processes) > 1
        and not answer.ranks
        and all(finding.kind != "waiting_for_rank" for finding in answer.findings)
    ):
        yield AnswerLine(f"Compare the {len(processes)} processes", "note", typed="--by rank")


def _without_gpu_lines(capture: Capture) -> Iterator[AnswerLine]:
    """Yield why there is no GPU work, and the names with the most time of everything else."""
    if capture.view.selection.narrows:
        yield AnswerLine("No GPU work in the selection", "verdict", "bad")
    else:
        cause = why_no_gpu_work(capture)[0]
        yield AnswerLine(printable(str(cause)), "verdict", "bad", heading="No GPU work")
    for name, title in _SUMMARIES.items():
        yield from _longest(capture, name, title)
    yield from _role_lines(capture)


def _role_lines(capture: Capture) -> Iterator[AnswerLine]:
    """Yield what each process does, if not all do the same."""
    if capture.view.selection.narrows:
        return
    roles = process_roles(capture.whole)
    has_work = any(role.gpu_ns for role in roles)
    for role in roles[:_MOST_ROLES]:
        count = len(role.process_ids)
        numbers = ", ".join(map(str, role.process_ids[:_FEW])) + (", …" if count > _FEW else "")
        name = f" ({shorten(printable(role.name), _NAME_WIDTH)})" if role.name else ""
        heads = [f"{'Process' if count == 1 else 'Processes'} {numbers}{name}", f"{count} processes{name}"]
        work = [f"GPU work {duration(role.gpu_ns)}" if role.gpu_ns else "no GPU work"] if has_work else []
        ranges = [
            f"{shorten(printable(text), _NAME_WIDTH)} {duration(ns)}"
            for text, ns in list(role.ranges_ns.items())[:_NAMES]
        ]
        parts = [", ".join([*work, *ranges[:many]]) for many in range(len(ranges), -1, -1)]
        texts = [f"{head}: {part}" for part in parts for head in heads if part]
        yield AnswerLine(first_fitting(texts, room("fact")), "fact")
    if len(roles) > _MOST_ROLES:
        yield AnswerLine(f"{len(roles) - _MOST_ROLES} more kinds of processes", "fact")


def _longest(capture: Capture, report: str, title: str) -> Iterator[AnswerLine]:
    try:
        table = find_report(report).make(capture)
    except NotInCapture:
        return
    names, totals = table.columns[-1].name, table.data["total_ns"]
    rows = [(name, ns) for name, ns in zip(table.data[names], totals, strict=True) if ns > 0][:_NAMES]
    if not rows:
        return
    # nsys puts the domain and a colon before a range; nothing before the colon is the default domain
    texts = [
        f"{shorten(printable(str(name)).removeprefix(':'), _NAME_WIDTH)} {duration(ns)}" for name, ns in rows
    ]
    more = report if len(table) > len(rows) else ""
    lines = [
        AnswerLine(f"{title}: {', '.join(texts[:count])}", "fact", report=more)
        for count in range(len(texts), 0, -1)
    ]
    yield first_line(lines)


_WORTH_PERCENT = 1.0  # of the time judged: less communication needs no line


def rank_lines(answer: Answer) -> Iterator[AnswerLine]:
    """Yield how busy each rank was, and which part of its communication is exposed, blocking and waiting."""
    ranks = answer.ranks
    yield _by_rank("busy", ranks, [_percent(rank.busy_ns, rank) for rank in ranks])
    window_ns = max(sum(rank.window_ns for rank in ranks), 1)  # of GPUs that ranks share once for each
    exposed = 100.0 * sum(rank.exposed_ns for rank in ranks) / window_ns
    if exposed < _WORTH_PERCENT:
        return
    waits = [rank.waiting_ns for rank in ranks if rank.waiting_ns is not None]
    is_known = len(waits) == len(ranks)
    waiting = 100.0 * sum(waits) / window_ns
    unmatched = 100.0 * sum(rank.unmatched_ns for rank in ranks) / window_ns
    at_least = "at least " if unmatched >= _WORTH_PERCENT else ""  # a broadcast or a send may wait, too
    how = f"{at_least}{whole_percent(waiting)} waiting for other ranks"
    how = how if is_known else "waiting for other ranks unknown"
    part = f"exposed communication {whole_percent(exposed)}"
    texts = [f"{part} of the {answer.scope}, {how}", f"{part}, {how}"]
    yield first_line([AnswerLine(text, "detail") for text in texts])
    if is_known and waiting >= _WORTH_PERCENT:
        yield _by_rank("waiting", ranks, [_percent(ns, rank) for ns, rank in zip(waits, ranks, strict=True)])
    blocking = [_percent(rank.blocking_ns, rank) for rank in ranks if rank.blocking_ns is not None]
    blocked = [rank for rank in ranks if rank.blocking_ns is not None]
    if blocked and max(blocking) >= _WORTH_PERCENT:
        yield _by_rank("launched work held up by communication", blocked, blocking)


def on_ranks(finding: Finding, answer: Answer) -> Iterator[AnswerLine]:
    """Yield which ranks have a finding, if these are not all; of a late rank, where to see its steps."""
    if finding.kind == "waiting_for_rank":
        yield AnswerLine("compare the ranks step by step", "detail", typed="-r rank_steps")
        return
    having = [rank for rank in answer.ranks if finding.kind in rank.cost_percent]
    if not 0 < len(having) < len(answer.ranks):
        return
    if len(having) == 1:
        yield AnswerLine(f"on {printable(having[0].label)} only", "detail")
        return
    # A rank that waits for another one saves nothing by a cure of its own, however much it costs there.
    saves = (rank for rank in having if rank.cost_percent[finding.kind] == finding.ceiling_percent)
    most = next((f", most to save on {printable(rank.label)}" for rank in saves), "")
    yield AnswerLine(f"on {len(having)} of {counted(len(answer.ranks), 'ranks')}{most}", "detail")


def _percent(ns: int | None, rank: RankShare) -> float:
    return 100.0 * (ns or 0) / max(rank.window_ns, 1)


def _by_rank(title: str, ranks: Sequence[RankShare], percents: Sequence[float]) -> AnswerLine:
    """Return the percentage of each rank; of ranks that do not fit in a line, the least and the most."""
    named = [
        f"{printable(rank.label)} {whole_percent(value)}" for rank, value in zip(ranks, percents, strict=True)
    ]
    least, most = (percents.index(extreme(percents)) for extreme in (min, max))
    texts = [f"{title}: {', '.join(named)}"]
    if len(ranks) > 2:  # noqa: PLR2004 - two are the least and the most
        texts.append(f"{title}: {len(ranks)} ranks, from {named[least]} to {named[most]}")
    return first_line([AnswerLine(text, "detail") for text in texts])


_LOADING_PART = 0.01  # of the start-up: less loading is not said
_MOST_PERCENT = 90  # of the GPU time: what is left is not said
_MOST_PARTED = 0.1  # of the steps: fewer that other work parts from those judged are not said
_MOST_LOOPS = 3  # beside the one that is judged
_FEW = 5  # outliers that are listed by number
_FIRST = 3  # numbers of many outliers
_LEAST_PART = 0.05  # of the extra time: a state with less is not named
_ALL = 1.05  # of the extra time: states that have more do not explain it


def start_up_lines(answer: Answer) -> Iterator[AnswerLine]:
    """Yield how long the start-up took, and which steps and how much GPU time are left out."""
    if answer.steps is None or answer.start_up is None:
        return
    start_up, steps = answer.start_up, answer.steps
    parted = steps.total - steps.warm_up - steps.count
    parts = [counted(steps.warm_up, "warm-up steps")] if steps.warm_up else []
    if steps.gpu_percent < _MOST_PERCENT:
        parts.append(f"{whole_percent(100 - steps.gpu_percent)} of GPU time")
    left_out = f"{', '.join(parts)} left out" if parts else ""
    if start_up.duration_ns:
        first = f"step {steps.warm_up:,}" if steps.warm_up else "the first step"
        first = "the loops" if any(loop.before for loop in answer.other_loops) else first
        text = f"Start-up: {duration(start_up.duration_ns)} before {first}"
        loading = ""
        if start_up.loading_ns > _LOADING_PART * start_up.duration_ns:
            loading = f", {duration(start_up.loading_ns)} of it loading modules"
        end = f"; {left_out}" if left_out else ""
        texts = [f"{text}{loading}{end}", f"{text}{loading.removesuffix(' modules')}{end}", f"{text}{end}"]
        yield AnswerLine(first_fitting(texts, room("fact")), "fact")
    elif left_out:
        yield AnswerLine(left_out, "fact")
    if parted > _MOST_PARTED * steps.total:
        text = f"{counted(parted, 'steps')} left out: other work lies between them and those judged"
        yield AnswerLine(text, "fact")


def _repeated(count: int, label: LoopLabel) -> list[tuple[str, str]]:
    """Return how often something repeats and what, in ever fewer words for GPU operations."""
    name = printable(label.short)
    if label.kind != "work":
        return [(f"{count:,} x ", name)]
    least = name.replace("GPU operations", "operations")
    steps = f"{counted(count, 'steps')} of "
    return [(f"{counted(count, 'repeated steps')} of ", name), (steps, name), (steps, least)]


def loop_lines(answer: Answer) -> Iterator[AnswerLine]:
    """Yield a line for each other loop of the program, those with most time first; variants have one line."""
    families: dict[object, list[OtherLoop]] = {}
    for loop in sorted(answer.other_loops, key=lambda loop: -loop.count * loop.mean_ns):
        is_name = loop.label.kind == "range"  # numbers in other labels are of operations
        families.setdefault(family(loop.label) if is_name else id(loop), []).append(loop)
    shown = list(families.values())[:_MOST_LOOPS]
    for number, loops in enumerate(shown):
        report = "" if number else "loops"
        yield _variants_line(loops) if len(loops) > 1 else _loop_line(loops[0], report)
    if more := len(answer.other_loops) - sum(map(len, shown)):
        yield AnswerLine(f"{more} more loops", "fact")


def _loop_line(loop: OtherLoop, report: str) -> AnswerLine:
    each = f", mean {duration(loop.mean_ns)}"  # one slow step can be most of it
    busy = f": GPU busy {whole_percent(loop.busy_percent)}"
    total = f" ({duration(loop.count * loop.mean_ns)})"
    names = [(f"Another loop: {before}", label) for before, label in _repeated(loop.count, loop.label)]
    before, label = names[-1]
    columns = room("fact") - len(AnswerLine(f"{before}{each}{busy}", "fact", report=report).text)
    texts = [f"{''.join(names[0])}{each}{total}{busy}", *(f"{''.join(name)}{each}{busy}" for name in names)]
    lines = [AnswerLine(text, "fact", report=name) for name in (report, "") for text in texts]
    short = f"{before}{shorten(label, columns)}{each}{busy}"
    return first_line([*lines, AnswerLine(short, "fact", report=report)])


def _variants_line(loops: Sequence[OtherLoop]) -> AnswerLine:
    """Return the line of loops whose names differ in numbers alone."""
    means = [loop.mean_ns for loop in loops]
    each = f", {duration(min(means))} to {duration(max(means))} each"
    total = f" ({duration(sum(loop.count * loop.mean_ns for loop in loops))})"
    before, label = f"Other loops: {len(loops)} variants ", printable(family(loops[0].label))
    columns = room("fact") - len(before) - len(each)
    texts = [f"{before}{label}{each}{total}", f"{before}{shorten(label, columns)}{each}"]
    return AnswerLine(first_fitting(texts, room("fact")), "fact")


def outlier_lines(answer: Answer, kind: Kind = "fact") -> Iterator[AnswerLine]:
    """Yield which steps are unusually long, by how much, and what fills them."""
    if answer.steps is None or not answer.steps.outliers:
        return
    outliers = answer.steps.outliers
    longer_ns = sum(one.duration_ns - one.usual_ns for one in outliers) / len(outliers)
    which = _which(outliers, answer.steps.count)
    text = f"{which} take{'s' if len(outliers) == 1 else ''} {duration(longer_ns)} longer"
    filled: dict[str, int] = {}
    for outlier in outliers:
        for state, ns in outlier.filled_ns.items():
            filled[state] = filled.get(state, 0) + ns
    most = sorted(filled, key=lambda state: -filled[state])[:2]
    mean = "" if len(outliers) == 1 else " on average"
    named = [state for state in most if filled[state] >= _LEAST_PART * longer_ns * len(outliers)]
    parts = [f"{state_name(state)} {duration(filled[state] / len(outliers))}" for state in named]
    if sum(filled[state] for state in named) > _ALL * longer_ns * len(outliers):
        parts = []
    texts = [f"{text}{mean}: {', '.join(parts[:count])}" for count in range(len(parts), 0, -1)]
    if kind == "detail":  # the finding above has the numbers
        they = f"Outliers take {duration(longer_ns)} longer{mean}"
        texts += [f"{they}: {', '.join(parts[:count])}" for count in range(len(parts), 0, -1)]
    texts += [f"{text}: mostly {state_name(state)}" for state in most[:1]]
    yield AnswerLine(first_fitting([*texts, text], room(kind)), kind, "warning")


def _which(outliers: Sequence[Outlier], total: int) -> str:
    numbers = [outlier.number for outlier in outliers]
    if len(numbers) == 1:
        return f"Outlier: step {numbers[0]:,}"
    apart = {later - earlier for earlier, later in pairwise(numbers)}
    if len(numbers) > 2 and len(apart) == 1 and 1 not in apart:  # noqa: PLR2004 - two numbers are no rhythm
        return f"Outliers: every {apart.pop():,} steps from step {numbers[0]:,} on ({len(numbers):,})"
    if len(numbers) <= _FEW:
        return f"Outliers: steps {', '.join(f'{number:,}' for number in numbers)}"
    return f"Outliers: {len(numbers):,} of {total:,} steps ({', '.join(map(str, numbers[:_FIRST]))}, …)"
