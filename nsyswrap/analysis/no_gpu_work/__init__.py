"""Find why a capture holds no GPU work, or lacks that of a process.

Each cause is a small function of the evidence. It yields a fact, which is a problem, or what is possible at
most, which is a note.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nsyswrap.analysis.arrays.groups import ascending, distinct
from nsyswrap.analysis.finding import CheckResult, Numbers
from nsyswrap.analysis.gpu_operations import KINDS, gpu_operations_of
from nsyswrap.analysis.names import CLASSES, LAUNCH, call_class, call_classes, strip_version
from nsyswrap.base.check import Level
from nsyswrap.base.constants import FIRST_NSYS, MISSING
from nsyswrap.base.errors import CaptureError, NotInCapture
from nsyswrap.base.lazy import regex
from nsyswrap.base.run_facts import GpuProcess, GpuUser, conditions_of, gpu_users_of
from nsyswrap.base.run_folder import RunFolder, run_of
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.selection import process_ids

# The events that a process with CUDA has, and the field with its global id.
_OTHER_PROFILER = regex(r"already subscribed to CUPTI|CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED")
_WSL = regex(r"(?i)microsoft|wsl")  # in the release of its kernel
_WINDOW = regex(r"--(delay|duration|capture-range)\b|-[ydc]$")  # options of nsys


# What a capture and its run folder tell about missing GPU work.


class Message(NamedTuple):
    """A message of nsys; ``pid`` is the process it concerns, MISSING if it concerns none."""

    pid: int
    text: str


def was_traced(capture: Capture, trace: str) -> bool:
    """Return True if the run or the capture says that nsys recorded this value of --trace."""
    of_capture = capture.info.cuda_traced if trace == "cuda" else None
    options = capture.run_facts.get("nsys", {})
    of_run = trace in str(options["trace"]).split(",") if "trace" in options else None
    return False not in (of_run, of_capture) and True in (of_run, of_capture)


def program_failed(source: Path) -> bool:
    """Return True if only the program of a run failed: nsys recorded it to its end."""
    folder = run_of(source)
    try:
        return folder is not None and RunFolder(folder).read_status().outcome == "program_failed"
    except CaptureError:
        return False


@dataclass
class CaptureEvidence:
    """A whole capture, and the content of run.json, which is empty for a capture without one."""

    capture: Capture
    run: Mapping[str, Any]

    @property
    def options(self) -> Mapping[str, Any]:
        """The options of nsys in run.json."""
        return self.run.get("nsys", {})  # type: ignore[no-any-return]

    @cached_property
    def messages(self) -> list[Message]:
        """The messages of nsys, in the order of the export."""
        try:
            rows = self.capture.columns("diagnostic", "text", "global_pid")
        except NotInCapture:
            return []
        pids = np.where(rows["global_pid"] > 0, process_ids(rows["global_pid"]), MISSING)
        texts = [" ".join(str(text).split()) for text in rows["text"]]
        return [Message(*pair) for pair in zip(pids.tolist(), texts, strict=True)]

    @cached_property
    def users(self) -> list[GpuUser] | None:
        """The processes of the run that used CUDA, as far as they were seen; None if none was watched."""
        return gpu_users_of(self.run)

    @property
    def cuda_was_traced(self) -> bool:
        """Whether CUDA was traced, as far as the options of the run and the capture show."""
        in_options = "cuda" in str(self.options.get("trace", "cuda"))
        return in_options and self.capture.info.cuda_traced is not False

    @cached_property
    def other_profilers(self) -> list[int]:
        """The processes with another user of CUPTI, one per message of nsys; MISSING if it names none."""
        return [message.pid for message in self.messages if _OTHER_PROFILER.search(message.text)]

    @cached_property
    def recorded_pids(self) -> set[int]:
        """The processes with a CUDA event in the capture. Near a window, others of the run are looked for."""
        owners = np.array(gpu_operations_of(self.capture).processes, np.int64)
        if self.capture.has("api"):
            owners = np.append(owners, distinct(self.capture.columns("api", "global_tid")["global_tid"])[0])
        pids = set(process_ids(owners).tolist())
        if self.capture.is_near and not {user.pid for user in self.users or ()} <= pids:
            threads = self.capture.recorded.stream(
                "api", ("global_tid",), lambda calls: {"": ascending(calls["global_tid"])}
            )[""]
            pids.update(process_ids(threads).tolist())
        return pids

    @cached_property
    def unrecorded(self) -> list[GpuUser]:
        """The processes of the run that used CUDA without an event in the capture.

        Without those that another profiler explains; none if CUDA was not traced.
        """
        if not self.users or not self.cuda_was_traced or MISSING in self.other_profilers:
            return []
        explained = self.recorded_pids.union(self.other_profilers)
        return [user for user in self.users if user.pid not in explained]

    @property
    def follows_forks(self) -> bool | None:
        """Whether nsys was to record processes that were forked without an exec; None if not known."""
        return self.options.get("follow_forks") or self.capture.info.forks_followed

    @property
    def has_range(self) -> bool:
        """Whether a capture range began the recording."""
        begun = any(message.text.startswith("Profiling started due to") for message in self.messages)
        return begun or bool(self.options.get("capture_range"))

    @property
    def is_partial(self) -> bool:
        """Whether only a part of the program was recorded, so that a process can rightly lack events."""
        chosen = any(self.options.get(name) is not None for name in ("delay", "duration"))
        return self.has_range or chosen or any(map(_WINDOW.match, map(str, self.options.get("extra", ()))))

    @property
    def is_wsl(self) -> bool:
        """Whether the kernel is that of WSL, where CUDA opens other devices than those that are watched."""
        return bool(_WSL.search(self.capture.info.kernel))

    @property
    def launches(self) -> int:
        """The number of API calls that launch work."""
        if not self.capture.has("api"):
            return 0
        return int(np.count_nonzero(call_classes(self.capture) == CLASSES.index(LAUNCH)))

    @cached_property
    def failed(self) -> list[tuple[str, int, int]]:
        """The name, result and number of the launches that failed; then of other calls, each by time."""
        if not self.capture.has("api"):
            return []
        calls = self.capture.columns("api", "start_ns", "name", "return_value")
        launches = call_classes(self.capture) == CLASSES.index(LAUNCH)
        rows = np.flatnonzero((calls["return_value"] != 0) & (calls["return_value"] != MISSING))
        rows = rows[np.lexsort((calls["start_ns"][rows], ~launches[rows]))]
        pairs = zip(calls["name"][rows].tolist(), calls["return_value"][rows].tolist(), strict=True)
        counts = Counter((strip_version(self.capture.text(name)) or "", result) for name, result in pairs)
        return [(*pair, count) for pair, count in counts.items()]

    @property
    def strangers(self) -> list[GpuProcess]:
        """The processes outside the run that were on its GPUs."""
        conditions = conditions_of(self.run)
        gpus = conditions.gpus if conditions else ()
        return [process for gpu in gpus for process in gpu.processes if process.in_run is False]


_Finds = Callable[[CaptureEvidence], Iterator[CheckResult]]
_SUBJECT = "GPU work"
_CERTAIN: Level = "problem"

_UNSUPPORTED_DRIVER = regex(r"driver version .* not supported by this build")
# Of CUDA or CUPTI: nsys also lacks rights for CPU sampling, which takes no kernel away.
_NO_PERMISSION = regex(r"(?i)(?=.*(cuda|cupti)).*(insufficient[ _]privileges|permission denied)")
_MPS = regex(r"\bMPS\b")
_MPS_VARIABLES = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")
_STARTED = "CUDA injection initialized successfully."
_INCOMPLETE = "Not all CUDA events might have been collected."
# Of a last line on stderr. Programs also write progress and warnings there.
_ERROR = regex(
    r"(?i)^(?!.*\b(0|no|without)\s+(\w+\s+)?(errors?|exceptions?|fail\w*)\b)"
    r".*(error\b|exception\b|\bfatal|\bfail(ed|ure)|abort|segmentation fault|terminate)"
)
_LONGEST = 200  # characters of that line
FATAL_RESULTS = (
    35,
    222,
    98,
    200,
    209,
    100,
    101,
    802,
    803,
)  # results of calls after which a program has no GPU
_OF_CUDA = regex(r"CUDA|CUPTI")


def has_gpu_work(capture: Capture) -> bool:
    """Return True if a kernel, copy, memset or graph ran on a GPU, even outside the selection."""
    return any(map(capture.whole.has, KINDS))


def no_gpu_work(capture: Capture, run: dict[str, Any]) -> list[CheckResult]:
    """Return why nothing ran on a GPU: facts, then what is possible.

    Without a certain cause the first fact is what nsys recorded of the CUDA calls. ``run`` is the content of
    run.json, or empty.
    """
    evidence = CaptureEvidence(capture.whole, run)
    if decisive := _check_results(_DECISIVE, evidence):
        return decisive
    causes = sorted(_check_results(_CAUSES, evidence), key=lambda cause: cause.level != _CERTAIN)
    if causes and causes[0].level == _CERTAIN:
        return causes
    return [_api_calls(evidence), *causes, *_check_results(_GUESSES, evidence)]


@per_capture
def missing_processes(capture: Capture) -> tuple[CheckResult, ...]:
    """Return which processes of the run used CUDA without an event in the capture. All are facts."""
    evidence = CaptureEvidence(capture.whole, capture.run_facts)
    missing = _check_results((_forked, _not_followed), evidence)
    return tuple(cause for cause in missing if cause.level == _CERTAIN)


def _check_results(causes: Iterable[_Finds], evidence: CaptureEvidence) -> list[CheckResult]:
    return [cause for find in causes for cause in find(evidence)]


def _cause(kind: str, *, is_certain: bool = True, count: int | None = None, **numbers: Any) -> CheckResult:
    """Return a cause of missing GPU work: what the evidence shows, or one of several explanations."""
    level: Level = _CERTAIN if is_certain else "note"
    return CheckResult(level, _SUBJECT, kind, {"is_certain": is_certain, **numbers}, count)


def _no_gpu(evidence: CaptureEvidence) -> Iterator[CheckResult]:
    """The machine of the run had no usable GPU."""
    if error := evidence.run.get("gpu_error"):
        yield _cause("no_gpu", error=error)


def _cuda_not_traced(evidence: CaptureEvidence) -> Iterator[CheckResult]:
    """The options of the run, or those in the capture, leave CUDA out."""
    if not evidence.cuda_was_traced:
        trace = str(evidence.options.get("trace", "cuda"))
        yield _cause("cuda_not_traced", trace="" if "cuda" in trace else trace)


def _cpu_torch(evidence: CaptureEvidence) -> Iterator[CheckResult]:
    """The program's Python has a PyTorch without CUDA, and nothing used CUDA."""
    conditions = conditions_of(evidence.run)
    version = conditions.versions.get("torch", "") if conditions else ""
    if "+cpu" in version and not (evidence.capture.has("api") or evidence.users):
        yield _cause("cpu_torch", version=version)


def _program_error(evidence: CaptureEvidence) -> Iterator[CheckResult]:
    """The run says that the program failed, or its last line on stderr is an error."""
    line = evidence.capture.last_error_output
    line = line if _ERROR.search(line[:_LONGEST]) else ""
    if (failed := program_failed(evidence.capture.source)) or line:
        yield _cause("program_error", ending=evidence.capture.ending if failed else "", line=line)


def _failed_calls(evidence: CaptureEvidence) -> Iterator[CheckResult]:
    """Every launch failed, or a call whose failure leaves a program without a GPU."""
    launches = [count for name, _, count in evidence.failed if call_class(name) == LAUNCH]
    if launches and sum(launches) == evidence.launches:
        yield _cause("launches_all_failed", launches=evidence.launches, code=evidence.failed[0][1])
    elif not launches:
        for name, result, _ in evidence.failed:
            if result in FATAL_RESULTS:
                yield _cause("fatal_call", name=name, code=result)
                return


def _other_profiler(evidence: CaptureEvidence) -> Iterator[CheckResult]:
    """Another user of CUPTI was first in a process; CUPTI serves one at a time."""
    if evidence.other_profilers:
        pid = next((pid for pid in evidence.other_profilers if pid != MISSING), None)
        yield _cause("other_profiler", pid=pid)


def _unsupported_driver(evidence: CaptureEvidence) -> Iterator[CheckResult]:
    """Messages of nsys on a driver that is newer than it supports."""
    yield from _messages(evidence, "unsupported_driver", _UNSUPPORTED_DRIVER)


def _no_permission(evidence: CaptureEvidence) -> Iterator[CheckResult]:
    """Messages of nsys on missing rights."""
    yield from _messages(evidence, "no_permission", _NO_PERMISSION)


def _messages(evidence: CaptureEvidence, kind: str, pattern: re.Pattern[str]) -> Iterator[CheckResult]:
    for text in dict.fromkeys(message.text for message in evidence.messages):
        if pattern.search(text):
            yield _cause(kind, text=text)


def _old_nsys(evidence: CaptureEvidence) -> Iterator[CheckResult]:
    """The CUDA of the driver is newer than this nsys."""
    info = evidence.capture.info
    cuda = int(info.cuda_version.split(".")[0]) if info.cuda_version else 0
    release = tuple(int(part) for part in re.findall(r"\d+", info.exporter_version)[:2])
    if cuda in FIRST_NSYS and release and release < FIRST_NSYS[cuda]:
        numbers: Numbers = {"nsys": info.exporter_version, "cuda": info.cuda_version}
        first = ".".join(map(str, FIRST_NSYS[cuda]))
        yield _cause("old_nsys", is_certain=False, first=first, **numbers)


def _range_without_work(evidence: CaptureEvidence) -> Iterator[CheckResult]:
    """The capture range closed before a launch, unless a process without an event did the work."""
    if evidence.has_range and not evidence.launches:
        is_certain = not evidence.unrecorded
        yield _cause(
            "range_without_launch" if is_certain else "work_outside_range",
            is_certain=is_certain,
            steps=evidence.options.get("steps"),
            range=evidence.options.get("capture_range"),
            recorded_ns=evidence.capture.info.duration_ns,
        )


def _window_without_work(evidence: CaptureEvidence) -> Iterator[CheckResult]:
    """Less than the whole program was recorded."""
    given = {name: evidence.options.get(name) for name in ("delay", "duration")}
    options = {name: value for name, value in given.items() if value is not None}
    if options and not evidence.launches:
        recorded_ns = evidence.capture.info.duration_ns
        yield _cause("work_outside_window", is_certain=False, options=options, recorded_ns=recorded_ns)


def _multi_process_service(evidence: CaptureEvidence) -> Iterator[CheckResult]:
    """The program was a client of MPS."""
    variables = [name for name in _MPS_VARIABLES if name in evidence.run.get("env_set", ())]
    told = [message.text for message in evidence.messages if _MPS.search(message.text)]
    if variables or told:
        variable, text = next(iter(variables), ""), next(iter(told), "")
        yield _cause("client_of_mps", is_certain=False, variable=variable, text=text)


def _windows_subsystem(evidence: CaptureEvidence) -> Iterator[CheckResult]:
    """The kernel is that of WSL."""
    if evidence.is_wsl:
        yield _cause("wsl", is_certain=False, kernel=evidence.capture.info.kernel)


def _forked(evidence: CaptureEvidence) -> Iterator[CheckResult]:
    """Forked processes used CUDA, and nsys was not to follow forks."""
    users = [user for user in evidence.unrecorded if user.forked]
    if users and not evidence.follows_forks:
        yield _cause("forks", is_certain=not evidence.is_partial, count=len(users), processes=users)


def _not_followed(evidence: CaptureEvidence) -> Iterator[CheckResult]:
    """Other processes of the run used CUDA without an event in the capture."""
    users = [user for user in evidence.unrecorded if evidence.follows_forks or not user.forked]
    if users and not evidence.is_partial:
        follows_forks = bool(evidence.follows_forks)
        yield _cause("not_followed", count=len(users), processes=users, follows_forks=follows_forks)


def _unflushed(evidence: CaptureEvidence) -> Iterator[CheckResult]:
    """CUDA was traced in a process, nsys may miss events of it, and no range explains that."""
    if pids := _unflushed_pids(evidence):
        yield _cause("unflushed", count=len(pids), pids=pids)


def _unflushed_pids(evidence: CaptureEvidence) -> list[int]:
    started, incomplete = (
        {message.pid for message in evidence.messages if message.text == text}
        for text in (_STARTED, _INCOMPLETE)
    )
    return [] if evidence.has_range else sorted(started & incomplete)


def _lost_events(evidence: CaptureEvidence) -> Iterator[CheckResult]:
    """Messages of nsys on missing events, unless another cause explains them."""
    explained = evidence.has_range or _unflushed_pids(evidence)
    for loss in evidence.capture.diagnostics:
        if not loss.loss or (explained and loss.text == _INCOMPLETE):
            continue
        of_cuda = bool(_OF_CUDA.search(loss.text))
        yield _cause("cuda_events_lost" if of_cuda else "events_lost", is_certain=of_cuda, text=loss.text)


def _api_calls(evidence: CaptureEvidence) -> CheckResult:
    """Return what nsys recorded of the program's CUDA calls, and whether another use of CUDA was seen."""
    was_unused = evidence.users == [] and not evidence.is_wsl
    calls = evidence.capture.count("api")
    return _cause("api_calls", calls=calls, launches=evidence.launches, was_unused=was_unused)


def _on_the_gpu(evidence: CaptureEvidence) -> Iterator[CheckResult]:
    """Processes outside the run were on its GPUs."""
    if others := evidence.strangers:
        yield _cause("strangers", is_certain=False, processes=others)


def _possible_forks(evidence: CaptureEvidence) -> Iterator[CheckResult]:
    """Forks are possible if nothing was watched and nsys was not to follow them."""
    if evidence.users is None and not evidence.follows_forks and not evidence.capture.has("api"):
        yield _cause("possible_forks", is_certain=False)


def _unseen(evidence: CaptureEvidence) -> Iterator[CheckResult]:
    """Launches that succeeded, and no word of nsys about missing kernels."""
    told = evidence.capture.has("diagnostic") and not evidence.capture.diagnostics
    if told and evidence.launches and not evidence.failed:
        yield _cause("raw_timestamps", is_certain=False)
        yield _cause("cannot_trace", is_certain=False)


def _elsewhere(evidence: CaptureEvidence) -> Iterator[CheckResult]:
    """Work in a process that has no part in the run."""
    if not (evidence.capture.has("api") or evidence.strangers):
        yield _cause("elsewhere", is_certain=False)


_DECISIVE = (_no_gpu, _cuda_not_traced)  # after one of these nothing else counts
# Causes with evidence, the likeliest first.
_CAUSES: tuple[_Finds, ...] = (
    _failed_calls,
    _cpu_torch,
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
