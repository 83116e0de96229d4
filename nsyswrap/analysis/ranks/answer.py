"""Answer how busy the GPUs of a job were, why not more, and what to do, over all of its ranks.

A rank that waits for another one is not made faster by its own cures: it then waits longer. So if one rank is
regularly late, only its findings count, and those of ranks that do not wait for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from nsyswrap.analysis.advice import WORTH_PERCENT, judged_job, outweighs, waiting_for_rank, weight
from nsyswrap.analysis.answer import Answer, DeviceTime, RankShare, answer_of, device_times
from nsyswrap.analysis.finding import Finding
from nsyswrap.analysis.judged_process import JudgedProcess, judged_processes, main_process
from nsyswrap.analysis.ranks.collectives import communicates
from nsyswrap.analysis.ranks.job import RankJob
from nsyswrap.analysis.ranks.members import RankCapture
from nsyswrap.analysis.ranks.waiting import waiting
from nsyswrap.analysis.step_budget import COMMUNICATION
from nsyswrap.capture.capture import Capture

MIXED = "judged part"
_FEWEST = 2


def answer_of_ranks(members: Sequence[RankCapture]) -> Answer | None:
    """Return the answer over all ranks; None if fewer than two of them have GPU work.

    Steps, start-up and other loops are those of the rank with the most GPU work. There is no verdict if there
    is none on one of the ranks. Who waits for whom is unknown if several processes of a capture communicate:
    these are ranks of their own. Raises NotInCapture if a capture lacks what it takes.
    """
    views = [member.capture.decided() for member in members]
    of_views = [judged_processes(view) for view in views]
    judged = [process for process in map(main_process, of_views) if process is not None]
    if len(judged) < _FEWEST:
        return None
    with_work = [number for number, processes in enumerate(of_views) if processes]
    answers = [answer_of(views[number]) for number in with_work]
    job = judged_job([members[number].label for number in with_work], judged)
    main = max(answers, key=lambda answer: sum(answer.busy_ns.values()))
    withheld = next((answer.withheld for answer in answers if answer.withheld), None)
    is_one_each = all(
        sum(bool(communicates(one.view).any()) for one in processes) <= 1 for processes in of_views
    )
    wait = waiting_for_rank(job, judged) if is_one_each and not withheld else None
    shares = dict(zip(with_work, _shares(job, answers, is_one_each=is_one_each), strict=True))
    findings = () if withheld else tuple(_findings(answers, main, wait))
    scopes = {answer.scope for answer in answers}
    return replace(
        main,
        scope=main.scope if len(scopes) == 1 else MIXED,
        devices=tuple(_devices(views, of_views)),
        findings=findings,
        withheld=withheld,
        remarks=tuple(remark for answer in answers for remark in answer.remarks),
        notes=tuple(_largest(note for answer in answers for note in answer.notes).values()),
        facts=tuple(_largest(_facts(job, answers)).values()),
        utilization=None,
        energy=None,
        ranks=tuple(
            shares.get(number, RankShare(member.label, 0, 0, 0, None, 0, 0, 0, 0, {}))
            for number, member in enumerate(members)
        ),
    )


def _devices(views: Sequence[Capture], of_views: Sequence[Sequence[JudgedProcess]]) -> Iterator[DeviceTime]:
    """Yield what each GPU did. Ranks of one capture may share one."""
    by_file: dict[Path, tuple[Capture, list[JudgedProcess]]] = {}
    for view, processes in zip(views, of_views, strict=True):
        by_file.setdefault(view.path, (view.whole, []))[1].extend(processes)
    for whole, processes in by_file.values():
        yield from device_times(whole, processes)


def _largest(findings: Iterable[Finding]) -> dict[str, Finding]:
    """Return the finding of each kind that concerns the largest share of its rank's time, or most bytes."""
    largest: dict[str, Finding] = {}
    for one in findings:
        if one.kind not in largest or outweighs(one, largest[one.kind]):
            largest[one.kind] = one
    return largest


def _facts(job: RankJob, answers: Sequence[Answer]) -> Iterator[Finding]:
    """Yield the facts of all ranks, each with the label of its rank."""
    for member, answer in zip(job.members, answers, strict=True):
        for fact in answer.facts:
            yield replace(fact, numbers={**fact.numbers, "rank": member.label})


def _findings(
    answers: Sequence[Answer], main: Answer, wait: tuple[dict[int, int], Finding] | None
) -> list[Finding]:
    """Return doubts about figures first, then the findings of all ranks, the largest first."""
    waits: Mapping[int, int] = wait[0] if wait else {}
    kept: list[Finding] = [wait[1]] if wait else []
    for number, answer in enumerate(answers):
        for one in answer.findings:
            if one.kind == "spikes" and answer is not main:
                continue  # outliers are listed of the steps in the headline
            if number not in waits or one.ceiling_ns is None:
                kept.append(one)
            elif one.kind == "exposed_communication":
                rest = (one.ceiling_ns or 0) - waits[number]
                kept += [replace(one, ceiling_ns=rest)] if 100 * rest >= WORTH_PERCENT * one.window_ns else []
    found = _largest(kept).values()
    language = next((one.language for one in found if one.language), "")
    ordered = sorted(found, key=lambda one: (one.ceiling_ns is not None, -weight(one)))
    kinds = {one.kind for one in ordered}
    return [
        replace(one, language=one.language or language, shares=tuple(k for k in one.shares if k in kinds))
        for one in ordered
    ]


def _shares(job: RankJob, answers: Sequence[Answer], *, is_one_each: bool) -> Iterable[RankShare]:
    """Yield what each rank did in its judged part; no collective counts as matched if that is doubtful."""
    is_known = is_one_each and bool(len(job.matched)) and not job.matched.doubts
    waits = waiting(job)
    waited_ns, matched_ns = np.zeros((2, len(answers)), np.int64)
    for group in job.matched.groups if is_known else ():
        waited_ns[list(group.ranks)] += group.exposed_ns.sum(axis=1)
        matched_ns[list(group.ranks)] += (group.end_ns - group.start_ns).sum(axis=1)
    for number, (member, answer) in enumerate(zip(job.members, answers, strict=True)):
        exposed = answer.busy_ns.get(COMMUNICATION, 0)
        unmatched = int(job.times[number].communication_ns.sum() - matched_ns[number])
        costs: dict[str, float] = {
            one.kind: one.ceiling_percent for one in answer.findings if one.ceiling_percent is not None
        }
        yield RankShare(
            label=member.label,
            window_ns=answer.window_ns,
            busy_ns=sum(answer.busy_ns.values()),
            exposed_ns=exposed,
            blocking_ns=_blocking_ns(answer.findings) if exposed else 0,
            waiting_ns=min(int(waited_ns[number]), exposed) if is_known else None,
            unmatched_ns=min(max(unmatched, 0), exposed),
            last=int(waits.last[number]) if is_known else 0,
            collectives=int(waits.collectives[number]) if is_known else 0,
            cost_percent=costs,
        )


def _blocking_ns(findings: Sequence[Finding]) -> int | None:
    """Return for how long launched work of a rank waited for communication; None if that is unknown."""
    blocked = (one.numbers.get("blocked_ns") for one in findings if one.kind == "exposed_communication")
    return next(blocked, None)
