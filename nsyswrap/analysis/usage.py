"""Read how GPUs were used: memory over time, the metrics that nsys sampled, work by device and process.

An address that is allocated again was freed in between. A free of what was allocated before the recording
does not count. A framework that keeps freed memory for itself, as PyTorch does, counts as using it.

Work is as nsys' expert rules on GPU time define it: kernels, copies (unified-memory migrations too) and
memsets in any stream. Whole-graph executions do not count. The profiler's own work counts only if the export
gives it a name that nsys searches for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import ascending, group_keys, rows_by
from nsyswrap.analysis.finding import Note
from nsyswrap.base.constants import MISSING
from nsyswrap.base.lazy import regex
from nsyswrap.base.records import dataclass
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.schema import FREED, MANAGED, METRIC_GPU, ON_DEVICE, PINNED
from nsyswrap.capture.selection import process_ids
from nsyswrap.capture.stream import Columns

MEMORY_USE = "memory_use"
STILL_HELD = np.iinfo(np.int64).max  # the end of what was not freed
_MANAGED_STATIC = 6
MEMORY_KINDS = ("GPU memory", "managed memory", "pinned host memory", "other memory")
GPU_MEMORY, PINNED_MEMORY = MEMORY_KINDS[0], MEMORY_KINDS[2]
_MEMORY_KIND = {**dict.fromkeys(ON_DEVICE, 0), MANAGED: 1, _MANAGED_STATIC: 1, PINNED: 2}
_FIELDS = ("start_ns", "address", "bytes", "operation", "global_pid", "device_id", "mem_kind", "pool", "row")


class MemoryUse(NamedTuple):
    """The bytes that a process holds in one of MEMORY_KINDS on a device, from each time in ns on."""

    global_pid: int
    device: int
    memory_kind: str
    times_ns: NDArray[Any]
    bytes: NDArray[Any]


class Allocations(NamedTuple):
    """Allocations of memory in order of their rows.

    ``memory_kind`` is a position in MEMORY_KINDS, ``row`` that among the events of the whole capture, and
    ``end_ns`` is STILL_HELD for what was not freed. ``pool`` is MISSING or 0 without a pool of CUDA.
    """

    global_pid: NDArray[np.int64]
    device: NDArray[np.int64]
    memory_kind: NDArray[np.int64]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    bytes: NDArray[np.int64]
    pool: NDArray[np.int64]
    row: NDArray[np.int64]

    def of(self, rows: NDArray[Any]) -> Allocations:
        """Return some of them."""
        return Allocations(*(values[rows] for values in self))

    @property
    def has_ended(self) -> NDArray[np.bool_]:
        """Mark those that were freed."""
        ended: NDArray[np.bool_] = self.end_ns != STILL_HELD
        return ended


@per_capture
def allocations_of(capture: Capture) -> Allocations:
    """Return the allocations of the selected processes and devices over the whole time, if recorded.

    Those of a negative number of bytes are left out, see ``allocation_notes``.
    """
    selection = replace(capture.view.selection, start_ns=None, end_ns=None, nvtx="", spans=())
    capture = capture.viewed(selection=selection)  # what was allocated before the selected time counts
    if not capture.has(MEMORY_USE):
        return Allocations(*(np.empty(0, np.int64) for _ in Allocations._fields))
    columns = capture.columns(MEMORY_USE, *_FIELDS).values()
    time, address, size, operation, process, device, kind, pool, row = columns
    memory_kind = np.full(len(kind), len(MEMORY_KINDS) - 1)
    for number, of in _MEMORY_KIND.items():
        memory_kind[kind == number] = of
    order, same = _by_address(time, address, process)
    end = np.full(len(time), STILL_HELD)
    end[order[:-1][same]] = time[order[1:][same]]
    return Allocations(process, device, memory_kind, time, end, size, pool, row - 1).of(
        np.flatnonzero((operation != FREED) & (size >= 0))
    )


def allocation_notes(whole: Capture) -> tuple[Note, ...]:
    """Return a note if allocations have a negative number of bytes, as in a damaged export."""
    if not whole.has(MEMORY_USE):
        return ()
    size, operation = whole.columns(MEMORY_USE, "bytes", "operation").values()
    negative = int(np.count_nonzero((operation != FREED) & (size < 0)))
    return (Note("negative_allocations", {"allocations": negative}),) if negative else ()


def unknown_frees(whole: Capture) -> int:
    """Return the number of frees of memory whose allocation is not in a capture."""
    if not whole.has(MEMORY_USE):
        return 0
    fields = ("start_ns", "address", "global_pid", "operation")
    time, address, process, operation = whole.columns(MEMORY_USE, *fields).values()
    order, same = _by_address(time, address, process)
    freed = operation[order] == FREED
    held = np.append(False, same & ~freed[:-1])[: len(freed)]
    return int(np.count_nonzero(freed & ~held))


def _by_address(
    time: NDArray[Any], address: NDArray[Any], process: NDArray[Any]
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the order by process, address and time, and which rows in it have the address of the one before.

    The marks have one entry less than the rows.
    """
    order = np.lexsort((time, address, process))
    address, process = address[order], process[order]
    return order, (address[1:] == address[:-1]) & (process[1:] == process[:-1])


def held_over_time(held: Allocations) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the moments at which the sum of the bytes changes, and the sum from each moment on."""
    freed = np.flatnonzero(held.has_ended)
    moments, which = np.unique(np.concatenate((held.start_ns, held.end_ns[freed])), return_inverse=True)
    changes = np.zeros(len(moments), np.int64)
    np.add.at(changes, which, np.concatenate((held.bytes, -held.bytes[freed])))
    return moments, np.cumsum(changes)


@per_capture
def memory_use_of(capture: Capture) -> list[MemoryUse]:
    """Return the memory of the selected processes and devices over the whole time; none if not recorded."""
    every = allocations_of(capture)
    return [
        MemoryUse(owner, gpu, MEMORY_KINDS[kind], *held_over_time(every.of(rows)))
        for (owner, gpu, kind), rows in rows_by(every.global_pid, every.device, every.memory_kind).items()
    ]


_METRICS, _METRIC_NAMES = "gpu_metric", "gpu_metric_name"
_NAME = regex(r"(?P<name>.*?)\s*\[(?P<unit>[^\]]*)\]")
_UNITS = {"Throughput %": "%"}
_MHZ, _LEAST_HZ = "MHz", 1_000_000  # nsys samples clocks in Hz, though it names them MHz


class Metric(NamedTuple):
    """The samples of a metric on one GPU in order of time; its unit is empty if nsys names none."""

    gpu: int
    name: str
    unit: str
    times_ns: NDArray[Any]
    values: NDArray[np.float64]


@per_capture
def gpu_metrics_of(whole: Capture) -> list[Metric]:
    """Return the metrics of each GPU in a capture, each in the first of its units; none if not recorded."""
    if not whole.has(_METRICS) or not whole.has(_METRIC_NAMES):
        return []
    wanted = _wanted(whole)
    fields = ("start_ns", "value", "type_id", "metric_id")
    time, value, kind, metric = _narrowed(whole, _METRICS, fields, [number for _, number in wanted]).values()
    found = []
    for key, rows in rows_by(kind, metric).items():
        if key not in wanted:
            continue
        ordered = rows[np.argsort(time[rows], kind="stable")]
        name, unit = wanted[key]
        values = value[ordered].astype(np.float64)
        if unit == _MHZ and values.max() >= _LEAST_HZ:
            values /= _LEAST_HZ
        found.append(Metric(key[0] & METRIC_GPU, name, unit, time[ordered], values))
    return found


def _wanted(capture: Capture) -> dict[tuple[int, int], tuple[str, str]]:
    """Return name and unit by type and metric id, each name once for each GPU."""
    types, metrics, texts = (
        part.tolist() for part in capture.columns(_METRIC_NAMES, "type_id", "metric_id", "text").values()
    )
    wanted: dict[tuple[int, str], tuple[tuple[int, int], tuple[str, str]]] = {}
    for kind, metric, text in sorted(zip(types, metrics, texts, strict=True), key=lambda row: row[:2]):
        parts = _NAME.fullmatch(text or "")
        name, unit = parts.group("name", "unit") if parts else (text or f"metric {metric}", "")
        wanted.setdefault((kind, name), ((kind, metric), (name, _UNITS.get(unit, unit))))
    return dict(wanted.values())


_PLUGIN_SAMPLES, _PLUGIN_VALUES, _PLUGIN_FIELDS = "plugin_sample", "plugin_value", "plugin_field"
# What nsys' NVML plugin samples. Other plugins and tracers have the same tables: it is known by having both.
_OF_NVML = {"Power": ("power", "W"), "Temperature": ("temperature", "\N{DEGREE SIGN}C")}


class PluginCurve(NamedTuple):
    """Power or temperature that nsys' NVML plugin sampled, in order of time; ``source`` counts from 0."""

    source: int
    name: str
    unit: str
    times_ns: NDArray[Any]
    values: NDArray[np.int64]


@per_capture
def nvml_curves_of(whole: Capture) -> list[PluginCurve]:
    """Return the power and the temperature that nsys' NVML plugin sampled; none if not recorded."""
    if not all(whole.has(kind) for kind in (_PLUGIN_SAMPLES, _PLUGIN_VALUES, _PLUGIN_FIELDS)):
        return []
    types = _nvml_types(whole)
    samples = _narrowed(whole, _PLUGIN_SAMPLES, ("start_ns", "sample", "type_id"), [*types])
    order = np.argsort(samples["sample"], kind="stable")
    time, sample, kind = (samples[name][order] for name in ("start_ns", "sample", "type_id"))
    values = _narrowed(whole, _PLUGIN_VALUES, ("field", "signed", "unsigned", "sample"), sample)
    at = np.searchsorted(sample, values["sample"])
    found = []
    for source, (type_id, fields) in enumerate(types.items()):
        for field, name in sorted(fields.items()):
            value = np.where(values["unsigned"] == MISSING, values["signed"], values["unsigned"])
            rows = np.flatnonzero((kind[at] == type_id) & (values["field"] == field) & (value != MISSING))
            rows = rows[np.argsort(time[at[rows]], kind="stable")]
            if len(rows):
                found.append(PluginCurve(source, *_OF_NVML[name], time[at[rows]], value[rows]))
    return found


def _nvml_types(whole: Capture) -> dict[int, dict[int, str]]:
    """Return the name of each field of the NVML plugin by the id of its type, in order of the ids."""
    types, fields, names = whole.columns(_PLUGIN_FIELDS, "type_id", "field", "name").values()
    found: dict[int, dict[int, str]] = {}
    for kind, field, name in sorted(zip(types.tolist(), fields.tolist(), whole.texts(names), strict=True)):
        if name in _OF_NVML:
            found.setdefault(kind, {})[field] = name
    return {kind: named for kind, named in found.items() if len(named) == len(_OF_NVML)}


def _narrowed(
    whole: Capture, kind: str, fields: tuple[str, ...], wanted: NDArray[Any] | list[int]
) -> Columns:
    """Return the rows whose last field is one of ``wanted``: traces of the system have many others."""

    def narrow(block: Columns) -> Columns:
        rows = np.flatnonzero(np.isin(block[fields[-1]], wanted))
        return {name: values[rows] for name, values in block.items()}

    return whole.stream(kind, fields, narrow)


WORK_KINDS = ("kernel", "memcpy", "memset")
_WORK_FIELDS = ("start_ns", "end_ns", "context_id", "device_id", "global_pid")
# Profiler work that counts as work, because the program cannot avoid it. Newer exports use other names.
OVERHEADS = {"CUDA profiling data flush overhead", "CUDA profiling stop overhead", "CUDA profiling overhead"}


@dataclass(frozen=True)
class DeviceWork:
    """The operations of one process on one device, and the context of each. Times are in ns."""

    process_id: int
    device_id: int
    start_ns: NDArray[Any]
    end_ns: NDArray[Any]
    context_id: NDArray[Any]

    @property
    def span_ns(self) -> tuple[int, int]:
        """Return the first start and the last end."""
        return int(self.start_ns.min()), int(self.end_ns.max())

    @property
    def last_context_id(self) -> int:
        """Return the context of the operation that ends last, of the first one if several do."""
        return int(self.context_id[self.end_ns.argmax()])


def device_work(capture: Capture) -> Iterator[DeviceWork]:
    """Yield the work of each process on each device, by process id and device id."""
    parts = [capture.columns(kind, *_WORK_FIELDS) for kind in WORK_KINDS if capture.has(kind)]
    work = {field: np.concatenate([part[field] for part in parts]) for field in _WORK_FIELDS}
    known = work["start_ns"] > 0
    work = {field: values[known] for field, values in work.items()}
    codes, keys = group_keys(process_ids(work["global_pid"]), work["device_id"])
    overhead = _overhead(capture)
    for code, (process, device) in enumerate(zip(*(key.tolist() for key in keys), strict=True)):
        rows = np.flatnonzero(codes == code)
        times = (work[field][rows] for field in ("start_ns", "end_ns", "context_id"))
        yield _with_overhead(DeviceWork(process, device, *times), *overhead)


def graph_notes(capture: Capture) -> tuple[Note, ...]:
    """Return a note if the capture holds whole-graph executions, which are not part of the work."""
    graphs = capture.count("graph")
    return (Note("graphs_not_busy", {"graphs": graphs}),) if graphs else ()


def _overhead(capture: Capture) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return process, start and end of each piece of the profiler's work."""
    if not capture.has("overhead"):
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
    events = capture.columns("overhead", "global_tid", "start_ns", "end_ns", "name")
    named = [i for i in ascending(events["name"]).tolist() if capture.text(i) in OVERHEADS]
    rows = np.isin(events["name"], named)
    return process_ids(events["global_tid"][rows]), events["start_ns"][rows], events["end_ns"][rows]


def _with_overhead(
    work: DeviceWork, process: NDArray[Any], start: NDArray[Any], end: NDArray[Any]
) -> DeviceWork:
    """Return the work with that of the profiler in the same process and within the span, put first."""
    first, last = work.span_ns
    rows = np.flatnonzero((process == work.process_id) & (start > first) & (end < last))
    return replace(
        work,
        start_ns=np.concatenate((start[rows], work.start_ns)),
        end_ns=np.concatenate((end[rows], work.end_ns)),
        context_id=np.concatenate((np.full(len(rows), work.last_context_id), work.context_id)),
    )
