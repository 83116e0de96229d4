"""Find why a capture holds no GPU work, or lacks that of a process.

Each cause is a small function of the evidence. It yields a fact, which is a problem, or what is possible at
most, which is a note.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from nsyswrap.analysis.gpu_operations import KINDS
from nsyswrap.analysis.names import LAUNCH, RESULTS, call_class
from nsyswrap.analysis.no_gpu_work.evidence import CaptureEvidence, program_failed, run_facts, was_traced
from nsyswrap.base.check import Check, Level
from nsyswrap.base.constants import FIRST_NSYS, MISSING
from nsyswrap.base.run_facts import GpuProcess, GpuUser
from nsyswrap.base.text import clip
from nsyswrap.base.units import duration
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.schema import collecting, events

_SUBJECT = "GPU work"
_CERTAIN: Level = "problem"

_TRACE_CUDA = "use nsyswrap profile --trace cuda,nvtx"
_UNSUPPORTED_DRIVER = re.compile(r"driver version .* not supported by this build")
# Of CUDA or CUPTI: nsys also lacks rights for CPU sampling, which takes no kernel away.
_NO_PERMISSION = re.compile(r"(?i)(?=.*(cuda|cupti)).*(insufficient[ _]privileges|permission denied)")
_MPS = re.compile(r"\bMPS\b")
_MPS_VARIABLES = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")

_FOLLOW = "nsyswrap profile --follow-forks"
_STARTED = "CUDA injection initialized successfully."
_INCOMPLETE = "Not all CUDA events might have been collected."
# Of a last line on stderr. Programs also write progress and warnings there.
_ERROR = re.compile(
    r"(?i)^(?!.*\b(0|no|without)\s+(\w+\s+)?(errors?|exceptions?|fail\w*)\b)"
    r".*(error\b|exception\b|\bfatal|\bfail(ed|ure)|abort|segmentation fault|terminate)"
)
_LONGEST = 200  # columns of that line
# Results of calls after which a program has no GPU, and what to do.
_CURES = {
    **dict.fromkeys((35, 222), "update the driver, or use an older CUDA"),
    **dict.fromkeys((98, 200, 209), "build for this GPU, for example with nvcc -arch=native"),
    100: "run nsyswrap doctor",
    101: "choose a device that exists: CUDA_VISIBLE_DEVICES",
    802: "start the fabric manager: systemctl start nvidia-fabricmanager",
    803: "restart the machine: the driver was updated",
}
_OF_CUDA = re.compile(r"CUDA|CUPTI")


def has_gpu_work(capture: Capture) -> bool:
    """Return True if a kernel, copy, memset or graph ran on a GPU, even outside the selection."""
    return any(map(capture.whole.has, KINDS))


def no_gpu_work(capture: Capture, run: dict[str, Any]) -> list[Check]:
    """Return why nothing ran on a GPU: facts, then what is possible.

    Without a certain cause the first fact is what nsys recorded of the CUDA calls. ``run`` is the content of
    run.json, or empty.
    """
    evidence = CaptureEvidence(capture.whole, run)
    if decisive := _found(_DECISIVE, evidence):
        return decisive
    causes = sorted(_found(_CAUSES, evidence), key=lambda cause: cause.level != _CERTAIN)
    if causes and causes[0].level == _CERTAIN:
        return causes
    return [_api_calls(evidence), *causes, *_found(_GUESSES, evidence)]


def why_absent(captures: Sequence[Capture], kinds: Sequence[str]) -> str:
    """Return why captures hold no events of these kinds, and how to collect them unless nsys was to."""
    wanted = [events(kind) for kind in kinds]
    if not all(was_traced(capture, wanted[0].trace) for capture in captures):
        return f"none occurred, or they were not collected (collect with {collecting(wanted[0])})"
    if wanted[0].trace == "cuda" and not any(map(has_gpu_work, captures)):
        return f"none were recorded: {no_gpu_work(captures[0], run_facts(captures[0].source))[0]}"
    return f"none were recorded, though --trace {wanted[0].trace} was on"


def without_calls(capture: Capture) -> str:
    """Return that a capture has no API calls, and how to collect them unless CUDA was traced."""
    how = "" if was_traced(capture, "cuda") else f"; collect with {collecting(events('api'))}"
    return f"no API calls recorded{how}"


@per_capture
def missing_processes(capture: Capture) -> tuple[Check, ...]:
    """Return which processes of the run used CUDA without an event in the capture. All are facts."""
    evidence = CaptureEvidence(capture.whole, run_facts(capture.source))
    missing = _found((_forked, _not_followed), evidence)
    return tuple(cause for cause in missing if cause.level == _CERTAIN)


def _found(
    causes: Iterable[Callable[[CaptureEvidence], Iterator[Check]]], evidence: CaptureEvidence
) -> list[Check]:
    return [cause for find in causes for cause in find(evidence)]


def _cause(text: str, cure: str = "", *, is_certain: bool = True, count: int | None = None) -> Check:
    """Return a cause of missing GPU work: what the evidence shows, or one of several explanations."""
    if is_certain:
        return Check(_CERTAIN, _SUBJECT, text, cure, count)
    return Check("note", _SUBJECT, f"possibly {text}", cure, count)


def _no_gpu(evidence: CaptureEvidence) -> Iterator[Check]:
    """The machine of the run had no usable GPU."""
    if error := evidence.run.get("gpu_error"):
        yield _cause(f"this machine has no usable GPU: {error}")


def _cuda_not_traced(evidence: CaptureEvidence) -> Iterator[Check]:
    """The options of the run, or those in the capture, leave CUDA out."""
    if not evidence.cuda_was_traced:
        trace = str(evidence.options.get("trace", "cuda"))
        option = "" if "cuda" in trace else f": --trace={trace}"
        yield _cause(f"CUDA was not traced{option}", _TRACE_CUDA)


def _program_error(evidence: CaptureEvidence) -> Iterator[Check]:
    """The run says that the program failed, or its last line on stderr is an error."""
    line = clip(evidence.capture.last_error_output, _LONGEST)
    line = line if _ERROR.search(line) else ""
    if (failed := program_failed(evidence.capture.source)) or line:
        ended = evidence.capture.ending if failed else "the program ended with an error"
        yield _cause(f"{ended}{': ' if line else ''}{line}", "run the program without nsys first")


def _failed_calls(evidence: CaptureEvidence) -> Iterator[Check]:
    """Every launch failed, or a call whose failure leaves a program without a GPU."""
    launches = [count for name, _, count in evidence.failed if call_class(name) == LAUNCH]
    if launches and sum(launches) == evidence.launches:
        result = evidence.failed[0][1]
        count = "the only launch" if evidence.launches == 1 else f"all {evidence.launches:,} launches"
        yield _cause(f"{count} failed: {RESULTS.get(result, 'an error')} ({result})", _CURES.get(result, ""))
    elif not launches:
        for name, result, _ in evidence.failed:
            if result in _CURES:
                text = f"{name} failed: {RESULTS[result]} ({result})"
                yield _cause(text, _CURES[result])
                return


def _other_profiler(evidence: CaptureEvidence) -> Iterator[Check]:
    """Another user of CUPTI was first in a process; CUPTI serves one at a time."""
    if evidence.other_profilers:
        pid = next((pid for pid in evidence.other_profilers if pid != MISSING), None)
        place = "" if pid is None else f" in process {pid}"
        yield _cause(
            f"another profiler used CUPTI{place}, so nsys could not trace CUDA",
            "turn off the other profiler or CUPTI library of the program",
        )


def _unsupported_driver(evidence: CaptureEvidence) -> Iterator[Check]:
    """Messages of nsys on a driver that is newer than it supports."""
    for text in dict.fromkeys(message.text for message in evidence.messages):
        if _UNSUPPORTED_DRIVER.search(text):
            yield _cause(f"nsys says: {text}", "record with a newer nsys")


def _old_nsys(evidence: CaptureEvidence) -> Iterator[Check]:
    """The CUDA of the driver is newer than this nsys."""
    info = evidence.capture.info
    cuda = int(info.cuda_version.split(".")[0]) if info.cuda_version else 0
    release = tuple(int(part) for part in re.findall(r"\d+", info.exporter_version)[:2])
    if cuda in FIRST_NSYS and release and release < FIRST_NSYS[cuda]:
        first = ".".join(map(str, FIRST_NSYS[cuda]))
        yield _cause(
            f"nsys {info.exporter_version} is too old for CUDA {info.cuda_version}",
            f"record with nsys {first} or newer",
            is_certain=False,
        )


def _no_permission(evidence: CaptureEvidence) -> Iterator[Check]:
    """Messages of nsys on missing rights."""
    for text in dict.fromkeys(message.text for message in evidence.messages):
        if _NO_PERMISSION.search(text):
            yield _cause(f"nsys says: {text}", "run nsyswrap doctor")


def _range_without_work(evidence: CaptureEvidence) -> Iterator[Check]:
    """The capture range closed before a launch, unless a process without an event did the work."""
    if evidence.has_range and not evidence.launches:
        steps = evidence.options.get("steps")
        of_range = f"the capture range {evidence.options.get('capture_range') or ''}".strip()
        name = f"the range of steps {steps}" if steps else of_range
        is_certain = not evidence.unrecorded
        yield _cause(
            f"{name} was open for {_recorded(evidence)}, and no launch was recorded in it"
            if is_certain
            else f"the GPU work lay outside {name}, which was open for {_recorded(evidence)}",
            "record other --steps, or end steps elsewhere with --step-at"
            if steps
            else "open the range before the GPU work and close it after a synchronization",
            is_certain=is_certain,
        )


def _window_without_work(evidence: CaptureEvidence) -> Iterator[Check]:
    """Less than the whole program was recorded."""
    given = {name: evidence.options.get(name) for name in ("delay", "duration")}
    options = " ".join(f"--{name} {value:g}" for name, value in given.items() if value is not None)
    if options and not evidence.launches:
        yield _cause(
            f"the GPU work lay outside the {_recorded(evidence)} that {options} recorded",
            "change --delay and --duration",
            is_certain=False,
        )


def _multi_process_service(evidence: CaptureEvidence) -> Iterator[Check]:
    """The program was a client of MPS."""
    variables = [name for name in _MPS_VARIABLES if name in evidence.run.get("env_set", ())]
    told = [message.text for message in evidence.messages if _MPS.search(message.text)]
    if variables or told:
        sign = f"{variables[0]} was set" if variables else f"nsys says: {told[0]}"
        yield _cause(f"the program was a client of MPS: {sign}", "record without MPS", is_certain=False)


def _windows_subsystem(evidence: CaptureEvidence) -> Iterator[Check]:
    """The kernel is that of WSL."""
    if evidence.is_wsl:
        yield _cause(
            f"CUDA cannot be traced on this WSL (kernel {evidence.capture.info.kernel})",
            "update WSL, the driver and nsys, or record on Linux",
            is_certain=False,
        )


def _recorded(evidence: CaptureEvidence) -> str:
    recorded = evidence.capture.info.duration_ns
    return "an unknown time" if recorded is None else duration(recorded)


def _forked(evidence: CaptureEvidence) -> Iterator[Check]:
    """Forked processes used CUDA, and nsys was not to follow forks."""
    users = [user for user in evidence.unrecorded if user.forked]
    if users and not evidence.follows_forks:
        fact = f"nsys does not record forks: {_named(users)} used CUDA"
        yield _cause(
            f"the GPU work was in forks ({fact})" if evidence.is_partial else fact,
            f"start workers with spawn, or use {_FOLLOW}",
            is_certain=not evidence.is_partial,
            count=len(users),
        )


def _not_followed(evidence: CaptureEvidence) -> Iterator[Check]:
    """Other processes of the run used CUDA without an event in the capture."""
    users = [user for user in evidence.unrecorded if evidence.follows_forks or not user.forked]
    if users and not evidence.is_partial:
        yield _cause(
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


def _unflushed(evidence: CaptureEvidence) -> Iterator[Check]:
    """CUDA was traced in a process, nsys may miss events of it, and no range explains that."""
    if pids := _unflushed_pids(evidence):
        noun = "process" if len(pids) == 1 else "processes"
        yield _cause(
            f"nsys reports that CUDA events may be missing from {noun} {', '.join(map(str, pids))}",
            "call cudaProfilerStop at the end: os._exit and signals lose events",
            count=len(pids),
        )


def _unflushed_pids(evidence: CaptureEvidence) -> list[int]:
    started, incomplete = (
        {message.pid for message in evidence.messages if message.text == text}
        for text in (_STARTED, _INCOMPLETE)
    )
    return [] if evidence.has_range else sorted(started & incomplete)


def _lost_events(evidence: CaptureEvidence) -> Iterator[Check]:
    """Messages of nsys on missing events, unless another cause explains them."""
    explained = evidence.has_range or _unflushed_pids(evidence)
    for loss in evidence.capture.diagnostics:
        if not loss.loss or (explained and loss.text == _INCOMPLETE):
            continue
        is_certain = bool(_OF_CUDA.search(loss.text))
        words = "nsys reported missing CUDA events" if is_certain else "CUDA events were lost, nsys says"
        yield _cause(f"{words}: {loss.text}", is_certain=is_certain)


def _api_calls(evidence: CaptureEvidence) -> Check:
    """Return what nsys recorded of the program's CUDA calls, and whether another use of CUDA was seen."""
    calls, launches = evidence.capture.count("api"), evidence.launches
    if not calls:
        unused = ", and no process of the run was seen to use CUDA (checked twice a second)"
        was_unused = evidence.users == [] and not evidence.is_wsl
        return _cause(f"nsys recorded no CUDA call{unused if was_unused else ''}")
    count = f"nsys recorded {calls:,} CUDA API call{'' if calls == 1 else 's'}"
    launched = "a launch" if launches == 1 else "launches"
    return _cause(f"{count}, {f'{launches:,} of them {launched}' if launches else 'but no launch'}")


def _on_the_gpu(evidence: CaptureEvidence) -> Iterator[Check]:
    """Processes outside the run were on its GPUs."""
    if others := evidence.strangers:
        yield _cause(
            f"the GPU work ran in {_named(others)}, which is not part of the run",
            "profile that process, for example the server or the Ray worker",
            is_certain=False,
        )


def _possible_forks(evidence: CaptureEvidence) -> Iterator[Check]:
    """Forks are possible if nothing was watched and nsys was not to follow them."""
    if evidence.users is None and not evidence.follows_forks and not evidence.capture.has("api"):
        yield _cause(
            "the work was in workers that were forked without an exec", f"use {_FOLLOW}", is_certain=False
        )


def _unseen(evidence: CaptureEvidence) -> Iterator[Check]:
    """Launches that succeeded, and no word of nsys about missing kernels."""
    told = evidence.capture.has("diagnostic") and not evidence.capture.diagnostics
    if told and evidence.launches and not evidence.failed:
        yield _cause(
            "nsys cannot read the GPU's raw timestamps here",
            "record with NSYS_CONFIG_DIRECTIVES=CuptiUseRawGpuTimestamps=false in the environment",
            is_certain=False,
        )
        yield _cause(
            "CUDA cannot be traced here: WSL, or a virtual GPU without profiling",
            "turn on profiling of the virtual GPU, or record on another machine",
            is_certain=False,
        )


def _elsewhere(evidence: CaptureEvidence) -> Iterator[Check]:
    """Work in a process that has no part in the run."""
    if not (evidence.capture.has("api") or evidence.strangers):
        yield _cause(
            "the work was in a process that nsys does not follow: a daemon, a container or another node",
            is_certain=False,
        )


def _named(processes: Sequence[GpuUser | GpuProcess]) -> str:
    first = processes[0]
    one = f"{first.pid} ({first.name})" if first.name else str(first.pid)
    return f"process {one}" if len(processes) == 1 else f"{len(processes)} processes such as {one}"


_DECISIVE = (_no_gpu, _cuda_not_traced)  # after one of these nothing else counts
# Causes with evidence, the likeliest first.
_CAUSES: tuple[Callable[[CaptureEvidence], Iterator[Check]], ...] = (
    _failed_calls,
    _program_error,
    _other_profiler,
    _unsupported_driver,
    _no_permission,
    _forked,
    _not_followed,
    _range_without_work,
    _unflushed,
    _lost_events,
    _old_nsys,
    _window_without_work,
    _multi_process_service,
    _windows_subsystem,
    _on_the_gpu,
)
_GUESSES = (_possible_forks, _unseen, _elsewhere)  # if no cause is certain
