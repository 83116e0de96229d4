"""Causes in how the program was recorded: trace, versions, another profiler, range, window, machine."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nsyswrap.analysis.no_gpu_work.cause import Cause
from nsyswrap.base.missing import MISSING
from nsyswrap.base.nsys.releases import FIRST_NSYS
from nsyswrap.base.units import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nsyswrap.analysis.no_gpu_work.evidence import Evidence

_TRACE_CUDA = "use nsyswrap profile --trace cuda,nvtx"
_UNSUPPORTED_DRIVER = re.compile(r"driver version .* not supported by this build")
# Of CUDA or CUPTI: nsys also lacks rights for CPU sampling, which takes no kernel away.
_NO_PERMISSION = re.compile(r"(?i)(?=.*(cuda|cupti)).*(insufficient[ _]privileges|permission denied)")
_MPS = re.compile(r"\bMPS\b")
_MPS_VARIABLES = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")


def no_gpu(evidence: Evidence) -> Iterator[Cause]:
    """The machine of the run had no usable GPU."""
    if error := evidence.run.get("gpu_error"):
        yield Cause(f"this machine has no usable GPU: {error}")


def cuda_not_traced(evidence: Evidence) -> Iterator[Cause]:
    """The options of the run, or those in the capture, leave CUDA out."""
    if not evidence.cuda_was_traced:
        trace = str(evidence.options.get("trace", "cuda"))
        option = "" if "cuda" in trace else f": --trace={trace}"
        yield Cause(f"CUDA was not traced{option}", _TRACE_CUDA)


def other_profiler(evidence: Evidence) -> Iterator[Cause]:
    """Another user of CUPTI was first in a process; CUPTI serves one at a time."""
    if evidence.other_profilers:
        pid = next((pid for pid in evidence.other_profilers if pid != MISSING), None)
        place = "" if pid is None else f" in process {pid}"
        yield Cause(
            f"another profiler used CUPTI{place}, so nsys could not trace CUDA",
            "turn off the other profiler or CUPTI library of the program",
        )


def unsupported_driver(evidence: Evidence) -> Iterator[Cause]:
    """Messages of nsys on a driver that is newer than it supports."""
    for text in dict.fromkeys(message.text for message in evidence.messages):
        if _UNSUPPORTED_DRIVER.search(text):
            yield Cause(f"nsys says: {text}", "record with a newer nsys")


def old_nsys(evidence: Evidence) -> Iterator[Cause]:
    """The CUDA of the driver is newer than this nsys."""
    info = evidence.capture.info
    cuda = int(info.cuda_version.split(".")[0]) if info.cuda_version else 0
    release = tuple(int(part) for part in re.findall(r"\d+", info.exporter_version)[:2])
    if cuda in FIRST_NSYS and release and release < FIRST_NSYS[cuda]:
        first = ".".join(map(str, FIRST_NSYS[cuda]))
        yield Cause(
            f"nsys {info.exporter_version} is too old for CUDA {info.cuda_version}",
            f"record with nsys {first} or newer",
            is_certain=False,
        )


def no_permission(evidence: Evidence) -> Iterator[Cause]:
    """Messages of nsys on missing rights."""
    for text in dict.fromkeys(message.text for message in evidence.messages):
        if _NO_PERMISSION.search(text):
            yield Cause(f"nsys says: {text}", "run nsyswrap doctor")


def range_without_work(evidence: Evidence) -> Iterator[Cause]:
    """The capture range closed before a launch, unless a process without an event did the work."""
    if evidence.has_range and not evidence.launches:
        steps = evidence.options.get("steps")
        of_range = f"the capture range {evidence.options.get('capture_range') or ''}".strip()
        name = f"the range of steps {steps}" if steps else of_range
        is_certain = not evidence.unrecorded
        yield Cause(
            f"{name} was open for {_recorded(evidence)}, and no launch was recorded in it"
            if is_certain
            else f"the GPU work lay outside {name}, which was open for {_recorded(evidence)}",
            "record other --steps, or end steps elsewhere with --step-at"
            if steps
            else "open the range before the GPU work and close it after a synchronization",
            is_certain=is_certain,
        )


def window_without_work(evidence: Evidence) -> Iterator[Cause]:
    """Less than the whole program was recorded."""
    given = {name: evidence.options.get(name) for name in ("delay", "duration")}
    options = " ".join(f"--{name} {value:g}" for name, value in given.items() if value is not None)
    if options and not evidence.launches:
        yield Cause(
            f"the GPU work lay outside the {_recorded(evidence)} that {options} recorded",
            "change --delay and --duration",
            is_certain=False,
        )


def multi_process_service(evidence: Evidence) -> Iterator[Cause]:
    """The program was a client of MPS."""
    variables = [name for name in _MPS_VARIABLES if name in evidence.run.get("env_set", ())]
    told = [message.text for message in evidence.messages if _MPS.search(message.text)]
    if variables or told:
        sign = f"{variables[0]} was set" if variables else f"nsys says: {told[0]}"
        yield Cause(f"the program was a client of MPS: {sign}", "record without MPS", is_certain=False)


def windows_subsystem(evidence: Evidence) -> Iterator[Cause]:
    """The kernel is that of WSL."""
    if evidence.is_wsl:
        yield Cause(
            f"CUDA cannot be traced on this WSL (kernel {evidence.capture.info.kernel})",
            "update WSL, the driver and nsys, or record on Linux",
            is_certain=False,
        )


def _recorded(evidence: Evidence) -> str:
    recorded = evidence.capture.info.duration_ns
    return "an unknown time" if recorded is None else duration(recorded)
