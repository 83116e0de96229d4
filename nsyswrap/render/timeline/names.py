"""Names of GPUs, streams, processes, threads and events, and styles of events: the same in every timeline.

A kind is a family of events and a name within it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.gpu_operations import GRAPH, KERNEL, MEMSET, GpuOperations
from nsyswrap.base.constants import MISSING
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import ID_MASK, PID_SHIFT, PROCESS_MASK
from nsyswrap.capture.selection import machine_ids
from nsyswrap.render import colors
from nsyswrap.reports.wording.states import CAUSE_NAMES

Kind = tuple[str, str]
# A lane of a GPU has kernels and copies, another one has events of its own family.
KERNELS, COPIES, CALLS, RANGES, OTHERS = ("kernels", "copies", "calls", "ranges", "other calls")
STEPS, IDLE = ("steps", "idle by cause")
NO_NAME = "(no name)"  # of an event
_STYLES = {
    CALLS: colors.CALLS,
    RANGES: colors.RANGES,
    OTHERS: colors.OTHERS,
    STEPS: colors.STEPS,
    IDLE: colors.CAUSES,
}
_NAMES = {  # as people read them
    (KERNELS, "graph"): "CUDA graph",
    (CALLS, "synchronise"): "synchronize",
    (CALLS, "other"): "other CUDA",
    (RANGES, "range"): "NVTX range",
    **{(IDLE, cause): name for cause, name in CAUSE_NAMES.items()},
}
IN_STREAM, MIGRATION, FAULT = range(3)
_WITHOUT_STREAM = {MIGRATION: "unified memory", FAULT: "page faults"}


def kind_of(operation: str, label: str = "") -> Kind:
    """Return the kind of a GPU operation; ``label`` is the kind of a kernel or the direction of a copy."""
    if operation == GRAPH:
        return KERNELS, "graph"
    return (KERNELS, label) if operation == KERNEL else (COPIES, "memset" if operation == MEMSET else label)


def style_of(kind: Kind) -> colors.Style:
    """Return the style of a kind."""
    family, name = kind
    if family in (KERNELS, COPIES):
        return (colors.kernel_color if family == KERNELS else colors.copy_color)(name)
    return colors.style_of(_STYLES[family], name)


def name_of(kind: Kind) -> str:
    """Return the name of a kind within its family."""
    return _NAMES.get(kind, kind[1])


class Stream(NamedTuple):
    """A stream, or the migrations or the page faults of a process on a GPU; in display order.

    ``where`` is IN_STREAM, MIGRATION or FAULT. Numbers are MISSING where they were not recorded.
    """

    machine: int
    device: int
    where: int
    global_pid: int
    context: int
    number: int

    @property
    def gpu(self) -> tuple[int, int]:
        """The machine, and the number of the GPU there."""
        return self.machine, self.device


def place_of(pid: int, device: int, where: int, context: int = MISSING, number: int = MISSING) -> Stream:
    """Return the place of a process on a GPU; migrations and page faults have no context and no number."""
    machine = 0 if pid == MISSING else int(machine_ids(np.array([pid]))[0])
    return Stream(machine, device, where, pid, context, number)


def streams_of(operations: GpuOperations) -> tuple[NDArray[Any], list[Stream]]:
    """Return the number of each operation's stream, and the streams in order."""
    code = 2 * operations.stream + operations.migration
    counts = np.bincount(code)
    found: dict[int, Stream] = {}
    for one in np.flatnonzero(counts).tolist():
        pid, device, *stream = (int(ids[one // 2]) for ids in operations.streams)
        found[one] = (
            place_of(pid, device, MIGRATION) if one % 2 else place_of(pid, device, IN_STREAM, *stream)
        )
    every = sorted(set(found.values()))
    number = np.zeros(len(counts), np.int32)
    number[list(found)] = [every.index(stream) for stream in found.values()]
    return number[code], every


def id_text(number: int) -> str:
    """Return an id as text, or ``?`` if the export lacks it."""
    return "?" if number == MISSING else str(number)


def process_text(global_id: int) -> str:
    """Return the process id of a global process or thread id, or ``?`` if the export lacks it."""
    return id_text(global_id if global_id == MISSING else global_id >> PID_SHIFT & ID_MASK)


def gpu_name(capture: Capture, device: int, *, model: bool = True) -> str:
    """Return ``GPU 0 NVIDIA H200``; without ``model``, or if it is not known, ``GPU 0``."""
    gpu = "GPU" if device == MISSING else f"GPU {device}"
    return f"{gpu} {capture.whole.gpu_names.get(device, '') if model else ''}".strip()


def stream_names(streams: Sequence[Stream]) -> list[str]:
    """Return the name of each stream, with context and process if its GPU has several of these."""
    processes = Counter(gpu for gpu, _ in {(stream.gpu, stream.global_pid) for stream in streams})
    places = {(s.gpu, s.global_pid, s.context) for s in streams if s.where == IN_STREAM}
    contexts = Counter((gpu, process) for gpu, process, _ in places)
    names = []
    for stream in streams:
        name = _WITHOUT_STREAM.get(stream.where, f"stream {id_text(stream.number)}")
        if stream.where == IN_STREAM and contexts[stream.gpu, stream.global_pid] > 1:
            name += f", context {id_text(stream.context)}"
        if processes[stream.gpu] > 1:
            name += f", process {process_text(stream.global_pid)}"
        names.append(name)
    return names


def thread_name(capture: Capture, thread: int) -> str:
    """Return the name of a global thread id, without its number."""
    _, name = capture.whole.threads.get(thread, (None, None))
    return name or ("unknown thread" if thread == MISSING else "thread")


def process_name(capture: Capture, global_pid: int) -> str:
    """Return the name of a process, which is that of its first thread, without its number."""
    if global_pid == MISSING:
        return "unknown process"
    _, name = capture.whole.threads.get(global_pid | global_pid >> PID_SHIFT & ID_MASK, (None, None))
    return name or "process"


def thread_names(capture: Capture, threads: Iterable[int]) -> dict[int, str]:
    """Return ``python 4711`` by global thread id, with the process if there are several.

    The first thread of a process has its number.
    """
    known = list(threads)
    several = len({thread & PROCESS_MASK for thread in known}) > 1
    names = {}
    for thread in known:
        name, process = thread_name(capture, thread), process_text(thread)
        number = "" if thread == MISSING else id_text(thread & ID_MASK)
        names[thread] = f"{name} {number}".strip()
        if several and number not in ("", process):
            names[thread] += f", process {process}"
    return names


def sublane_suffix(sublane: int) -> str:
    """Return the suffix of a sub-lane's name; empty for the lane itself."""
    return f" ({sublane + 1})" if sublane else ""
