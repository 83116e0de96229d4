"""Memory that a program allocated, by kind and NVTX range: peak, who held it, what was never freed.

A row is what one process allocated on a device in one range, or module. The range is the innermost one
around the call that allocated. "At Peak" is what its allocations held when those of its process, device and
kind were largest: these add up to that peak. "Not Freed" is what was held at the end. Memory from before
the recording is missing. So are the context and the code of the program, some 100 MB each on a GPU.

A framework that caches freed memory, as PyTorch does, still holds it: figures are those of its segments, not
of tensors. The line below the rows has the highest figures of PyTorch's own allocator, where the program
ended by itself. In a selected time, allocations are those made in it, and the peak is the most held in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import group_keys, rows_by
from nsyswrap.analysis.no_gpu_work import CaptureEvidence
from nsyswrap.analysis.program_language import PYTORCH, framework_of
from nsyswrap.analysis.range_tree.memory import FOR_RANGES, allocation_ranges
from nsyswrap.analysis.transfers import gpu_memory
from nsyswrap.analysis.usage import (
    GPU_MEMORY,
    MEMORY_KINDS,
    MEMORY_USE,
    STILL_HELD,
    Allocations,
    allocation_notes,
    allocations_of,
    held_over_time,
    unknown_frees,
)
from nsyswrap.base.constants import MISSING
from nsyswrap.base.text import counted
from nsyswrap.base.units import Unit, duration, human, percent
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.selection import process_ids
from nsyswrap.reports.table import Column, Order, Report, Result, Schema, Values

_MOST_PEAKS = 8  # in the verdict


class _Peak(NamedTuple):
    """The most that is held at a time, and the first moment of it, in ns on the clock of the capture."""

    bytes: int
    time_ns: int


def compute(capture: Capture) -> Result:
    """Return one row per process, device, kind of memory and range that allocated."""
    first, last = _window(capture)
    held = _held(capture)
    range_of, ranges = allocation_ranges(capture.whole, held)
    codes, (process, device, memory_kind, path) = group_keys(
        held.global_pid, held.device, held.memory_kind, range_of
    )
    count = len(process)

    def summed(counts: NDArray[np.bool_]) -> NDArray[np.int64]:
        sums = np.zeros(count, np.int64)
        np.add.at(sums, codes[counts], held.bytes[counts])
        return sums

    made = held.start_ns >= first
    at_peak = np.zeros(len(codes), bool)
    for rows, peak in _peaks(capture, held):
        at_peak[rows] = (held.start_ns[rows] <= peak.time_ns) & (peak.time_ns < held.end_ns[rows])
    own = [_peak(held.of(rows), first, last) for rows in rows_by(codes).values()]
    largest = np.zeros(count, np.int64)
    np.maximum.at(largest, codes, held.bytes)
    return Result(
        {
            "range": [ranges[number] for number in path.tolist()],
            "kind": [MEMORY_KINDS[number] for number in memory_kind.tolist()],
            "at_peak_bytes": summed(at_peak),
            "held_bytes": summed(held.end_ns > last),
            "peak_bytes": np.array([peak.bytes for peak in own], np.int64),
            "peak_start_ns": np.array([peak.time_ns for peak in own], np.int64),
            "allocations": np.bincount(codes[made], minlength=count),
            "allocated_bytes": summed(made),
            "largest_bytes": largest,
            "device_id": device,
            "process_id": process_ids(process),
        },
        (*allocation_notes(capture.whole), *_notes(capture)),
    )


def _held(capture: Capture) -> Allocations:
    """Return the allocations that lasted at any moment of the selected time."""
    first, last = _window(capture)
    held = allocations_of(capture)
    return held.of(np.flatnonzero((held.start_ns <= last) & (held.end_ns > first)))


def _peaks(capture: Capture, held: Allocations) -> Iterator[tuple[NDArray[np.intp], _Peak]]:
    """Yield the rows of each process, device and kind of memory, and their peak."""
    for rows in rows_by(held.global_pid, held.device, held.memory_kind).values():
        yield rows, _peak(held.of(rows), *_window(capture))


def _window(capture: Capture) -> tuple[int, int]:
    """Return the first and the last time that counts."""
    if capture.view.selection.windowed:
        return capture.window.start_ns, capture.window.end_ns
    return 0, STILL_HELD - 1


def _peak(held: Allocations, first_ns: int, last_ns: int) -> _Peak:
    """Return the most that allocations hold at a time within these times."""
    times, values = held_over_time(held)
    before = max(int(np.searchsorted(times, first_ns, "right")) - 1, 0)
    after = int(np.searchsorted(times, last_ns, "right"))
    if before >= after:
        return _Peak(0, first_ns)
    most = before + int(values[before:after].argmax())
    return _Peak(int(values[most]), max(int(times[most]), first_ns))


def _notes(capture: Capture) -> Iterator[str]:
    whole = capture.whole
    if missing := [name for kind, name in FOR_RANGES.items() if not whole.has(kind)]:
        yield f"ranges are not known without {' and '.join(missing)} in the capture"
    if frees := unknown_frees(whole):
        yield f"memory from before the recording is not counted: {counted(frees, 'frees')} of such memory"
    elif CaptureEvidence(whole, whole.run_facts).has_range:
        yield "memory from before the recording is not counted: the recording began with a capture range"
    if framework_of(whole) == PYTORCH:
        yield "PyTorch keeps freed memory: this is what its allocator took from CUDA, not what tensors use"


def conclude(capture: Capture, _: Mapping[str, Values]) -> str:
    """Return the peak of the GPU memory of each process and device, with the time and the GPU's size."""
    held = _held(capture)
    size = gpu_memory(capture).size_bytes
    owned = [
        (int(held.device[rows[0]]), int(held.global_pid[rows[0]]), peak)
        for rows, peak in _peaks(capture, held)
        if MEMORY_KINDS[held.memory_kind[rows[0]]] == GPU_MEMORY and peak.bytes
    ]
    users = Counter(device for device, _, _ in owned)
    texts = []
    for device, process, peak in owned[:_MOST_PEAKS]:
        gpu = "GPU" if device == MISSING else f"GPU {device}"
        several = users[device] > 1 and process != MISSING
        owner = f", process {process_ids(np.array([process]))[0]}" if several else ""
        total = human(size, Unit.BYTES) if size > 0 else ""
        part = f" of {total} ({percent(100 * peak.bytes / size)})" if peak.bytes <= size else ""
        above = f": more than its {total}, as frees are missing" if peak.bytes > size else ""
        texts.append(
            f"{gpu}{owner}: at most {human(peak.bytes, Unit.BYTES)}{part}, from {duration(peak.time_ns)} on"
            f"{above}{_of_pytorch(capture, process, device)}."
        )
    if len(owned) > _MOST_PEAKS:
        texts.append(f"{len(owned) - _MOST_PEAKS:,} more in the rows.")
    return " ".join(texts)


def _of_pytorch(capture: Capture, process: int, device: int) -> str:
    """Return what PyTorch's allocator held at most in the whole run, if the hook in the program noted it."""
    key = {"process_id": int(process_ids(np.array([process]))[0]), "device": device}
    noted = capture.whole.run_facts.get("pytorch_memory")
    for one in noted if isinstance(noted, list) else ():
        if not isinstance(one, dict) or not key.items() <= one.items():
            continue
        numbers = [one.get(name) for name in ("reserved_bytes", "allocated_bytes", "retries")]
        if all(isinstance(number, int) and 0 <= number < STILL_HELD for number in numbers):
            reserved, allocated, retries = numbers
            most = f"{human(allocated, Unit.BYTES)} of {human(reserved, Unit.BYTES)}"
            retried = f", with {counted(retries, 'retries')}" if retries else ""
            of_run = " in the whole run" if capture.view.selection.windowed else ""
            return f"; PyTorch's tensors took at most {most} reserved{of_run}{retried}"
    return ""


SCHEMA = Schema(
    "gpu_memory",
    "Allocated memory by range",
    Column("range", "Range", "ranges or modules around the call that allocated", -1),
    Column("kind", "Kind", f"{', '.join(MEMORY_KINDS)}", -1),
    Column("at_peak_bytes", "At Peak", "held when process, device and kind held most", -1),
    Column("held_bytes", "Not Freed", "still held at the end of the selected time", 1),
    Column("peak_bytes", "Own Peak", "the most that the range held at a time", 2),
    Column("peak_start_ns", "Own Peak Start", "when it held that first", 5),
    Column.count("allocations", "Allocations", "number of allocations", 3),
    Column("allocated_bytes", "Allocated", "sum of the allocations", 4),
    Column("largest_bytes", "Largest", "largest allocation", 6),
    Column("device_id", "Device", "GPU of the memory", 7),
    Column("process_id", "PID", "process that allocated", 8),
)

REPORT = Report(
    SCHEMA,
    needs=((MEMORY_USE,),),
    compute=compute,
    rows_from=None,  # what was allocated before the selected time is held in it
    order=(Order("at_peak_bytes", descending=True), Order("allocated_bytes", descending=True)),
    conclude=conclude,
)
