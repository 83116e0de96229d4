"""What a capture and its run folder tell about missing GPU work."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nsyswrap.analysis.arrays.groups import distinct
from nsyswrap.analysis.names import CLASSES, LAUNCH, call_classes, strip_version
from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import CaptureError, NotInCapture
from nsyswrap.base.run_facts import GpuProcess, GpuUser, conditions_of, gpu_users_of
from nsyswrap.base.run_folder import RunFolder, run_of
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.selection import process_ids

# The events that a process with CUDA has, and the field with its global id.
_OWNERS = {"api": "global_tid", "kernel": "global_pid", "memcpy": "global_pid", "memset": "global_pid"}
_OTHER_PROFILER = re.compile(r"already subscribed to CUPTI|CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED")
_WSL = re.compile(r"(?i)microsoft|wsl")  # in the release of its kernel
_WINDOW = re.compile(r"--(delay|duration|capture-range)\b|-[ydc]$")  # options of nsys


class Message(NamedTuple):
    """A message of nsys; ``pid`` is the process it concerns, MISSING if it concerns none."""

    pid: int
    text: str


def run_facts(source: Path) -> dict[str, Any]:
    """Return the content of run.json for a run folder or one of its files; empty for another capture."""
    folder = run_of(source)
    return RunFolder(folder).read_run() if folder else {}


def was_traced(capture: Capture, trace: str) -> bool:
    """Return True if the run or the capture says that nsys recorded this value of --trace."""
    of_capture = capture.info.cuda_traced if trace == "cuda" else None
    options = run_facts(capture.source).get("nsys", {})
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
        """The processes with a CUDA event in the capture."""
        capture, pids = self.capture, set()
        for kind, field in _OWNERS.items():
            if capture.has(kind):
                pids |= set(process_ids(distinct(capture.columns(kind, field)[field])[0]).tolist())
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
