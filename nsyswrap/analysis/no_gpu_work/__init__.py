"""Find why a capture holds no GPU work, or lacks that of a process.

Each cause is a small function of the evidence. It yields a fact, or what is possible at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nsyswrap.analysis.gpu_operations import KINDS
from nsyswrap.analysis.no_gpu_work import processes, recording
from nsyswrap.analysis.no_gpu_work.evidence import Evidence, run_facts
from nsyswrap.capture.per_capture import per_capture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from nsyswrap.analysis.no_gpu_work.cause import Cause
    from nsyswrap.capture.capture import Capture

_DECISIVE = (recording.no_gpu, recording.cuda_not_traced)  # after one of these nothing else counts
# Causes with evidence, the likeliest first.
_CAUSES: tuple[Callable[[Evidence], Iterator[Cause]], ...] = (
    recording.other_profiler,
    recording.unsupported_driver,
    recording.no_permission,
    processes.forked,
    processes.not_followed,
    recording.range_without_work,
    processes.unflushed,
    processes.lost_events,
    recording.old_nsys,
    recording.window_without_work,
    recording.multi_process_service,
    recording.windows_subsystem,
    processes.on_the_gpu,
)
_GUESSES = (processes.possible_forks, processes.elsewhere)  # if no cause is certain


def has_gpu_work(capture: Capture) -> bool:
    """Return True if a kernel, copy, memset or graph ran on a GPU, even outside the selection."""
    return any(map(capture.whole.has, KINDS))


def no_gpu_work(capture: Capture, run: dict[str, Any]) -> list[Cause]:
    """Return why nothing ran on a GPU: facts, then what is possible.

    Without a certain cause the first fact is what nsys recorded of the CUDA calls. ``run`` is the content of
    run.json, or empty.
    """
    evidence = Evidence(capture.whole, run)
    if decisive := _found(_DECISIVE, evidence):
        return decisive
    causes = sorted(_found(_CAUSES, evidence), key=lambda cause: not cause.is_certain)
    if causes and causes[0].is_certain:
        return causes
    return [processes.api_calls(evidence), *causes, *_found(_GUESSES, evidence)]


@per_capture
def missing_processes(capture: Capture) -> tuple[Cause, ...]:
    """Return which processes of the run used CUDA without an event in the capture. All are facts."""
    evidence = Evidence(capture.whole, run_facts(capture.source))
    missing = _found((processes.forked, processes.not_followed), evidence)
    return tuple(cause for cause in missing if cause.is_certain)


def _found(causes: Iterable[Callable[[Evidence], Iterator[Cause]]], evidence: Evidence) -> list[Cause]:
    return [cause for find in causes for cause in find(evidence)]
