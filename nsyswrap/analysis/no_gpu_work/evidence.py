"""What a capture and its run folder tell about missing GPU work."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nsyswrap.analysis.api_call_kinds import CLASSES, LAUNCH, call_classes
from nsyswrap.base.conditions import conditions_of
from nsyswrap.base.errors import NotInCapture
from nsyswrap.base.gpu_users import KEY, gpu_users_of
from nsyswrap.base.missing import MISSING
from nsyswrap.base.run_folder import RunFolder, run_of
from nsyswrap.capture.global_ids import process_ids

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from nsyswrap.base.conditions import GpuProcess
    from nsyswrap.base.gpu_users import GpuUser
    from nsyswrap.capture.capture import Capture

# The events that a process with CUDA has, and the field with its global id.
_OWNERS = {"api": "global_tid", "kernel": "global_pid", "memcpy": "global_pid", "memset": "global_pid"}
_WINDOW = re.compile(r"--(delay|duration|capture-range)\b|-[ydc]$")  # options of nsys


class Message(NamedTuple):
    """A message of nsys; ``pid`` is the process it concerns, MISSING if it concerns none."""

    pid: int
    text: str


def run_facts(source: Path) -> dict[str, Any]:
    """Return the content of run.json for a run folder or one of its files; empty for another capture."""
    folder = run_of(source)
    return RunFolder(folder).read_run() if folder else {}


@dataclass
class Evidence:
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
    def users(self) -> list[GpuUser]:
        """The processes of the run that used CUDA, as far as they were seen."""
        return gpu_users_of(self.run)

    @property
    def users_were_watched(self) -> bool:
        """Whether the run noted the processes that used CUDA."""
        return KEY in self.run

    @cached_property
    def recorded_pids(self) -> set[int]:
        """The processes with a CUDA event in the capture."""
        capture, pids = self.capture, set()
        for kind, field in _OWNERS.items():
            if capture.has(kind):
                pids |= set(np.unique(process_ids(capture.columns(kind, field)[field])).tolist())
        return pids

    @cached_property
    def unrecorded(self) -> list[GpuUser]:
        """The processes of the run that used CUDA without an event in the capture of the whole run."""
        if not self.users or self.is_partial:
            return []
        return [user for user in self.users if user.pid not in self.recorded_pids]

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
    def launches(self) -> int:
        """The number of API calls that launch work."""
        if not self.capture.has("api"):
            return 0
        return int(np.count_nonzero(call_classes(self.capture) == CLASSES.index(LAUNCH)))

    @property
    def strangers(self) -> list[GpuProcess]:
        """The processes outside the run that were on its GPUs."""
        conditions = conditions_of(self.run)
        gpus = conditions.gpus if conditions else ()
        return [process for gpu in gpus for process in gpu.processes if process.in_run is False]
