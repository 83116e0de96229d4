"""Findings about a capture: why the GPU was idle or badly used, ranked by the time that a change can save.

Each module covers one topic. Each of its CHECKS takes an AdviceContext and yields Findings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from nsyswrap.analysis.advice import (
    allocations,
    communication,
    graphs,
    host,
    measurement,
    memory,
    memory_bound,
    products,
    remaining,
    waves,
)
from nsyswrap.analysis.advice.context import WORTH_PERCENT, AdviceContext
from nsyswrap.analysis.correlation import launch_pairs_of
from nsyswrap.analysis.finding import Finding, FindingKind
from nsyswrap.analysis.gpu_operations import KERNEL, KINDS, communicating, gpu_operations_of
from nsyswrap.analysis.judged_process import READS as JUDGED_READS
from nsyswrap.analysis.judged_process import JudgedProcess, judged_processes
from nsyswrap.analysis.launches import READS as LAUNCH_READS
from nsyswrap.analysis.launches import launches_of
from nsyswrap.analysis.names import call_classes, kernel_classes
from nsyswrap.analysis.occupancy import GRID, blocks_of
from nsyswrap.analysis.packed import packed_names
from nsyswrap.analysis.program_language import language_of
from nsyswrap.analysis.stream_order import stream_order
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.intervals import NOTHING, intersection
from nsyswrap.capture.per_capture import known, per_capture
from nsyswrap.capture.schema import SPANS

with lazy_imports():  # most captures have one process
    from nsyswrap.analysis.ranks import job as jobs
    from nsyswrap.analysis.ranks import members
    from nsyswrap.analysis.ranks import waiting as waits


__all__ = [
    "READS",
    "WORTH_PERCENT",
    "advice_of",
    "advise_processes",
    "judged_job",
    "outweighs",
    "waiting_for_rank",
    "weight",
]

# The fields that findings are computed from, by kind of event.
READS = {
    **JUDGED_READS,
    "kernel": (*JUDGED_READS["kernel"], *GRID),
    "memcpy": (*JUDGED_READS["memcpy"], "bytes", "src_kind", "dst_kind", "migration_cause"),
}
# What operations and grids are made of, and no other part of a screen; then what its tables need, too.
_JOINED = ("correlation_id", "global_pid", "device_id", "context_id", "stream_id")
_ONCE = {
    **dict.fromkeys(KINDS, (*_JOINED, *SPANS, "graph_node_id", "graph_exec_id")),
    KERNEL: (*SPANS, "name"),
    "api": ("correlation_id", "name", "return_value"),
}
# Of checks on kernels, the first counts a kernel's time: another type comes before moving data.
CHECKS = (
    *host.CHECKS,
    *memory.CHECKS,
    *products.CHECKS,
    *memory_bound.CHECKS,
    *waves.CHECKS,
    *communication.CHECKS,
)
FACTS = (*products.FACTS, *graphs.FACTS, *memory.FACTS, *allocations.FACTS, *waves.FACTS)
_AMOUNTS = ("held_bytes", "grown_bytes", "allocated_bytes", "calls_ns")  # of facts on memory
_MOSTLY = 0.5  # of the time of a kernel
_SHARED = 0.1  # of the shorter of two findings: less in common is not said


class Advice(NamedTuple):
    """The findings, notes and facts on one capture.

    Of ``findings``, lost events come first, then those by the share of the time judged, the largest first,
    then ranges that time their GPU work wrongly. ``notes`` are on what is no finding. ``facts`` name no cost.
    """

    findings: list[Finding]
    notes: list[Finding]
    facts: list[Finding]


def prepare(capture: Capture) -> None:
    """Compute what findings take of the largest columns, and free what no table needs of these."""
    whole, narrows = capture.whole, capture.view.selection.narrows
    for kind in (KERNEL, "api"):
        if narrows and whole.has(kind):  # nothing of the whole was read: what follows takes one pass
            whole.columns(kind, *LAUNCH_READS[kind])
    if whole.has(KERNEL):
        if not narrows:
            blocks_of(whole)
            whole.release_columns({KERNEL: GRID})  # what follows takes their memory
        packed_names(whole, KERNEL)
        kernel_classes(whole)
        kernel_classes(whole.viewed(classes=()))  # which tell communication
    if whole.has("api"):
        call_classes(whole)
    gpu_operations_of(whole)
    whole.release_columns({KERNEL: (*_JOINED, *GRID)})
    launches_of(whole)
    whole.release_columns({KERNEL: ["graph_node_id"]})


def release_tables(whole: Capture) -> None:
    """Free what tables need, and findings do not after ``prepare``."""
    whole.release_columns(_ONCE)
    if not whole.has("nvtx"):  # ranges are joined to launches, too
        whole.release(launch_pairs_of)


@per_capture
def advice_of(capture: Capture) -> Advice:
    """Return the advice on the judged parts of a capture, as ``advise_processes`` does."""
    return advise_processes(capture, judged_processes(capture))


def advise_processes(
    capture: Capture, processes: Sequence[JudgedProcess], least_percent: float = WORTH_PERCENT
) -> Advice:
    """Return the findings of these processes, notes and facts.

    Their budgets are made on the way; of several processes, each is freed when its findings are known.
    Of the same finding or fact in several processes the largest counts.
    """
    of_processes = []
    for process in processes:
        of_processes.append(_of_process(process, least_percent))
        if len(processes) > 1:
            process.finish()
            if order := known(capture.whole, stream_order):
                order.forget_streams()  # other processes have others
    largest: dict[FindingKind, Finding] = {}
    talks = len(processes) > 1 and communicating(capture, gpu_operations_of(capture)).any()
    labels = [f"process {process.process_id}" for process in processes]
    wait = waiting_for_rank(judged_job(labels, processes), processes, least_percent) if talks else None
    for number, pieces in enumerate(of_processes):
        for piece in pieces:
            if wait and number in wait[0] and piece.kind != "exposed_communication":
                continue  # what makes a process faster that waits for another one makes it wait longer
            before = largest.get(piece.kind)
            if before is None or outweighs(piece, before):
                largest[piece.kind] = piece
    if wait:
        largest[wait[1].kind] = wait[1]
        _take_out_waiting(largest, wait[1], least_percent)
    ordered = sorted(largest.values(), key=lambda piece: -weight(piece))
    facts = [piece for piece in ordered if piece.ceiling_ns is None]
    doubts, wrong_timings, notes = measurement.doubts(capture)
    shared = {(piece.kind, name) for piece in ordered for name in piece.shares}
    kept = [  # findings of two processes concern no time in common
        replace(piece, shares=tuple(name for name in piece.shares if (name, piece.kind) in shared))
        for piece in ordered
        if piece.ceiling_ns is not None
    ]
    language = language_of(capture.whole)
    findings = [replace(piece, language=language) for piece in (*doubts, *kept, *wrong_timings)]
    return Advice(findings, notes, facts)


def weight(piece: Finding) -> float:
    """Return the share of the time judged that a finding can save, or that a fact is about."""
    percent = piece.time_percent if piece.ceiling_ns is None else piece.ceiling_percent
    return percent or 0.0


def outweighs(piece: Finding, other: Finding) -> bool:
    """Return True if a finding is larger than another one of its kind: a fact on memory has no share."""
    return _size(piece) > _size(other)


def _size(piece: Finding) -> tuple[float, int]:
    return weight(piece), max(piece.numbers.get(name, 0) for name in _AMOUNTS)


def _of_process(process: JudgedProcess, least_percent: float) -> list[Finding]:
    context = AdviceContext(process, least_percent)
    candidates = (piece for check in CHECKS for piece in check(context))
    advice = [piece for piece in candidates if context.worth(piece.ceiling_ns or 0)]
    advice += remaining.idle_time(context, advice)
    facts = (piece for facts in FACTS for piece in facts(context))
    return [
        *(replace(one, shares=_shares(one, advice)) for one in advice),
        *(fact for fact in facts if not _explained(fact, advice)),
    ]


def _explained(fact: Finding, advice: Sequence[Finding]) -> bool:
    """Return True if a finding is about most of a kernel's time: then it comes before a closer look.

    Retries of an allocator are explained by the finding on idle time that counts them.
    """
    if fact.kind == "memory_retries":
        return any("retries" in one.numbers for one in advice)
    covers = (intersection(fact.evidence, one.evidence).length for one in advice)
    return fact.kind == "one_kernel" and max(covers, default=0) > _MOSTLY * fact.evidence.length


def _is_late(result: waits.RankWaits, late: int) -> bool:
    """Return True if a process is the last one more often than chance makes it."""
    return waits.regular(int(result.last[late]), int(result.collectives[late]), len(result.last))


def _over_all_time(job: jobs.RankJob) -> jobs.RankJob:
    """Return the job with its work outside of the judged part: a few steps alone show no regularity."""

    def whole(capture: Capture) -> Capture:
        selection = replace(capture.view.selection, start_ns=None, end_ns=None, spans=(), clip=None)
        return capture.viewed(selection=selection)

    return jobs.RankJob(tuple(replace(member, capture=whole(member.capture)) for member in job.members))


def _take_out_waiting(findings: dict[FindingKind, Finding], wait: Finding, least_percent: float) -> None:
    """Leave the wait for a rank out of the exposed communication."""
    exposed = findings.pop("exposed_communication", None)
    if exposed is None or exposed.ceiling_ns is None:
        return
    rest = exposed.ceiling_ns - (wait.ceiling_ns or 0)
    if 100.0 * rest >= least_percent * exposed.window_ns:
        findings[exposed.kind] = replace(exposed, ceiling_ns=rest)


def _shares(piece: Finding, others: Sequence[Finding]) -> tuple[FindingKind, ...]:
    """Return the names of the other findings that concern some of the same time."""
    return tuple(
        other.kind
        for other in others
        if other is not piece
        and intersection(piece.evidence, other.evidence).length
        > _SHARED * max(1, min(piece.evidence.length, other.evidence.length))
    )


def judged_job(labels: Sequence[str], processes: Sequence[JudgedProcess]) -> jobs.RankJob:
    """Return the job of which these are the judged parts of ranks or processes."""
    views = zip(labels, (process.view for process in processes), strict=True)
    return jobs.make_job([members.RankCapture(label, None, view) for label, view in views])


def waiting_for_rank(
    job: jobs.RankJob, processes: Sequence[JudgedProcess], least_percent: float = WORTH_PERCENT
) -> tuple[dict[int, int], Finding] | None:
    """Return the time in ns that each rank waits, and the finding, if one rank is regularly the last.

    ``processes`` are the judged parts of the job. Those that wait are given by their number.
    """
    if not len(job.matched) or job.matched.doubts:
        return None
    result = waits.waiting(job)
    late = int(result.last.argmax())
    most = int(result.for_ns[:, late].argmax())
    waited = min(int(result.for_ns[most, late]), processes[most].window_ns)
    if 100.0 * waited < least_percent * processes[most].window_ns or not (
        _is_late(result, late) or _is_late(waits.waiting(_over_all_time(job)), late)
    ):
        return None
    names = [member.label for member in job.members]
    found = Finding(
        "waiting_for_rank",
        {
            **waits.late_rank(job, is_late=True),
            "waits": names[most],
            "late": names[late],
            "waited_ns": waited,
        },
        NOTHING,
        waited,
        "bound",
        "rank_waiting",
        processes[most].window_ns,
    )
    waiting = {
        number: ns
        for number, (ns, process) in enumerate(zip(result.for_ns[:, late].tolist(), processes, strict=True))
        if 100.0 * ns >= least_percent * process.window_ns
    }
    return waiting, found
