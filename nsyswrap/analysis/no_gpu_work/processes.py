"""Causes in the processes of the run: forks, buffers that were lost, work in another process."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nsyswrap.analysis.no_gpu_work.cause import Cause

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nsyswrap.analysis.no_gpu_work.evidence import Evidence
    from nsyswrap.base.conditions import GpuProcess
    from nsyswrap.base.gpu_users import GpuUser

_FOLLOW = "nsyswrap profile --follow-forks"
_STARTED = "CUDA injection initialized successfully."
_INCOMPLETE = "Not all CUDA events might have been collected."
_OF_CUDA = re.compile(r"CUDA|CUPTI")
_OF_OTHERS = re.compile(r"Not all (?!CUDA)|NVTX events")  # such as OS runtime events


def forked(evidence: Evidence) -> Iterator[Cause]:
    """Forked processes used CUDA, and nsys was not to follow forks."""
    users = [user for user in evidence.unrecorded if user.forked]
    if users and not evidence.follows_forks:
        fact = f"nsys does not record forks: {_named(users)} used CUDA"
        yield Cause(
            f"the GPU work was in forks ({fact})" if evidence.is_partial else fact,
            f"start workers with spawn, or use {_FOLLOW}",
            is_certain=not evidence.is_partial,
            count=len(users),
        )


def not_followed(evidence: Evidence) -> Iterator[Cause]:
    """Other processes of the run used CUDA without an event in the capture."""
    users = [user for user in evidence.unrecorded if evidence.follows_forks or not user.forked]
    if users and not evidence.is_partial:
        yield Cause(
            f"nsys has no CUDA events of {_named(users)}, which used CUDA",
            _cure(users, follows_forks=bool(evidence.follows_forks)),
            count=len(users),
        )


def _cure(users: Sequence[GpuUser], *, follows_forks: bool) -> str:
    kinds = {user.forked for user in users}
    if follows_forks and kinds != {False}:
        return "call cudaProfilerStop at the end of workers: os._exit loses events"
    if None in kinds:
        return f"if forked, use {_FOLLOW}; else profile it alone"
    return "start workers with the environment of the program, or profile them"


def unflushed(evidence: Evidence) -> Iterator[Cause]:
    """CUDA was traced in a process, nsys may miss events of it, and no range explains that."""
    if pids := _unflushed(evidence):
        noun = "process" if len(pids) == 1 else "processes"
        yield Cause(
            f"nsys reports that CUDA events may be missing from {noun} {', '.join(map(str, pids))}",
            "call cudaProfilerStop at the end: os._exit and signals lose events",
            count=len(pids),
        )


def _unflushed(evidence: Evidence) -> list[int]:
    started, incomplete = (
        {message.pid for message in evidence.messages if message.text == text}
        for text in (_STARTED, _INCOMPLETE)
    )
    return [] if evidence.has_range else sorted(started & incomplete)


def lost_events(evidence: Evidence) -> Iterator[Cause]:
    """Messages of nsys on missing events, unless another cause explains them."""
    explained = evidence.has_range or _unflushed(evidence)
    for loss in evidence.capture.diagnostics:
        if not loss.loss or _OF_OTHERS.search(loss.text) or (explained and loss.text == _INCOMPLETE):
            continue
        is_certain = bool(_OF_CUDA.search(loss.text))
        words = "nsys reported missing CUDA events" if is_certain else "CUDA events were lost, nsys says"
        yield Cause(f"{words}: {loss.text}", is_certain=is_certain)


def api_calls(evidence: Evidence) -> Cause:
    """Return what nsys recorded of the program's CUDA calls, and whether another use of CUDA was seen."""
    calls, launches = evidence.capture.count("api"), evidence.launches
    if not calls:
        unused = ", and no process of the run was seen to use CUDA (checked twice a second)"
        was_unused = evidence.users == [] and not evidence.is_wsl
        return Cause(f"nsys recorded no CUDA call{unused if was_unused else ''}")
    count = f"nsys recorded {calls:,} CUDA API call{'' if calls == 1 else 's'}"
    launched = "a launch" if launches == 1 else "launches"
    return Cause(f"{count}, {f'{launches:,} of them {launched}' if launches else 'but no launch'}")


def on_the_gpu(evidence: Evidence) -> Iterator[Cause]:
    """Processes outside the run were on its GPUs."""
    if others := evidence.strangers:
        yield Cause(
            f"the GPU work ran in {_named(others)}, which is not part of the run",
            "profile that process, for example the server or the Ray worker",
            is_certain=False,
        )


def possible_forks(evidence: Evidence) -> Iterator[Cause]:
    """Forks are possible if nothing was watched and nsys was not to follow them."""
    if evidence.users is None and not evidence.follows_forks and not evidence.capture.has("api"):
        yield Cause(
            "the work was in workers that were forked without an exec", f"use {_FOLLOW}", is_certain=False
        )


def elsewhere(evidence: Evidence) -> Iterator[Cause]:
    """Work in a process that has no part in the run."""
    if not (evidence.capture.has("api") or evidence.strangers):
        yield Cause(
            "the work was in a process that nsys does not follow: a daemon, a container or another node",
            is_certain=False,
        )


def _named(processes: Sequence[GpuUser | GpuProcess]) -> str:
    first = processes[0]
    one = f"{first.pid} ({first.name})" if first.name else str(first.pid)
    return f"process {one}" if len(processes) == 1 else f"{len(processes)} processes such as {one}"
