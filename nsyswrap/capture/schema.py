"""Describe nsys' tables: the fields of each kind of event, their columns, and the meaning of numbers.

``EVENTS`` maps a kind of event to its table. A field lists its columns, the newest first; the first one in
the export is read. Ids are 64-bit and can be negative. For a new release of nsys, add a line to ``ERAS``. For
a renamed column, add its name to the field. For a new table, add an entry to ``EVENTS``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from nsyswrap.base.errors import UsageError
from nsyswrap.base.lazy import regex
from nsyswrap.base.records import dataclass
from nsyswrap.base.text import unknown

FieldKind = Literal["int", "text", "string", "time", "end", "amount", "optional amount"]
Wanted = Sequence[tuple[str, FieldKind]]  # columns of a table to read, with their kinds

# The fields that most reports read: start and end, and the name.
SPANS = ("start_ns", "end_ns")
NAMED = (*SPANS, "name")

# Releases whose exports were compared with nsys' own reports, and the schema version of each.
ERAS: tuple[tuple[str, tuple[int, int]], ...] = (
    ("2022.1", (2, 9)),
    ("2022.4", (3, 0)),
    ("2023.1", (3, 1)),
    ("2023.3", (3, 4)),
    ("2023.4", (3, 7)),
    ("2024.2", (3, 11)),
    ("2024.5", (3, 13)),
    ("2024.6", (3, 16)),
    ("2025.1", (3, 17)),
    ("2025.3", (3, 20)),
    ("2025.5", (3, 24)),
    ("2026.1", (3, 24)),
    ("2026.2", (3, 25)),
)

STRINGS = "StringIds"
EXPORT_METADATA = ("META_DATA_EXPORT", "EXPORT_META_DATA")  # 2023.3 and newer; 2022.1 to 2023.2
CAPTURE_METADATA = "META_DATA_CAPTURE"
COMMAND, ARGUMENT_PREFIX = "PROCESS_0:COMMAND", "PROCESS_0:ARGUMENT_"
SYSTEM_ENV = "TARGET_INFO_SYSTEM_ENV"
GPUS = "TARGET_INFO_GPU"
OUTPUT = "ProcessStreams"  # what the processes wrote to stdout and stderr
CUDA_CONTEXTS = "TARGET_INFO_CUDA_CONTEXT_INFO"
CUDA_DEVICES = "TARGET_INFO_CUDA_DEVICE"  # the GPU of each device id of each process, nsys 2025.1 or newer
THREAD_NAMES = "ThreadNames"
PROCESSES = "PROCESSES"
SESSION_START = "TARGET_INFO_SESSION_START_TIME"
ANALYSIS = "ANALYSIS_DETAILS"
TIME_COLUMNS = ("start", "timestamp", "rawTimestamp")  # a table with one of them has events

# A capture is an SQLite file with StringIds and at least one table whose name begins like this.
CAPTURE_MARKS = ("CUPTI_ACTIVITY_KIND_", "TARGET_INFO_", "NVTX_EVENTS", "OSRT_API")

# Names as nsys gives them to its tables. A view of such a name is refused, one of another name ignored.
NSYS_TABLE = regex(r"[A-Z][A-Z0-9_]+|StringIds|ThreadNames|ProcessStreams|UnwindMethodType")

# globalTid: thread id in bits 0-23, process id in bits 24-47, VM and hardware id above.
# globalPid: the same with bits 0-23 zero. Both are signed 64-bit integers.
PROCESS_MASK = -16777216  # 0xFFFFFFFFFF000000
ID_MASK = 0xFFFFFF
PID_SHIFT = 24


@dataclass(frozen=True)
class Field:
    """The columns of a field, in the order to try, and its kind.

    An int is an id or a code, a string is an id of StringIds. Times in ns and amounts are numbers to compute
    with. An end, which nsys leaves empty if it was not recorded, and an optional amount can be NULL.
    ``since`` is the first nsys that writes the field, set if nsys' own reports refuse an export without it.
    """

    columns: tuple[str, ...]
    kind: FieldKind = "int"
    required: bool = True
    since: str = ""


@dataclass(frozen=True)
class EventKind:
    """One kind of event: its table, its fields, and the options of `nsyswrap profile` that collect it.

    A table name that ends in ``*`` stands for all tables with that prefix. Their rows are read as those of
    one table, and the field ``table`` numbers the tables in the order of their names.
    """

    table: str
    title: str
    collect: str
    fields: Mapping[str, Field]

    @property
    def trace(self) -> str:
        """The value of --trace that records these events; empty if they need another option, too."""
        option, _, values = self.collect.partition(" ")
        if option != "--trace" or " " in values:
            return ""
        last = values.split(",")[-1]
        return "cuda" if last == "nvtx" and self.table != "NVTX_EVENTS" else last

    def tables(self, present: Iterable[str]) -> list[str]:
        """Return the tables of an export that contain these events."""
        if not self.table.endswith("*"):
            return [self.table] if self.table in present else []
        return sorted(table for table in present if table.startswith(self.table[:-1]))


def collecting(*kinds: EventKind) -> str:
    """Return the command that collects all of these kinds of events, or the nsys that they need."""
    if lacking := [events.collect for events in kinds if not events.collect.startswith("--trace ")]:
        return lacking[0]
    traces: dict[str, None] = {}
    others: dict[str, None] = {}
    for events in kinds:
        _, trace, *rest = events.collect.split(maxsplit=2)
        traces.update(dict.fromkeys(trace.split(",")))
        others.update(dict.fromkeys(rest))
    return " ".join(("nsyswrap profile --trace", ",".join(traces), *others))


def _int(*columns: str) -> Field:
    return Field(columns)


def _optional(*columns: str, kind: FieldKind = "int", since: str = "") -> Field:
    return Field(columns, kind, required=False, since=since)


def _optionals(**columns: str) -> dict[str, Field]:
    return {field: _optional(column) for field, column in columns.items()}


def _amount(column: str) -> Field:
    return Field((column,), "amount")


def _amounts(**columns: str) -> dict[str, Field]:
    return {field: _optional(column, kind="optional amount") for field, column in columns.items()}


def _string(*columns: str) -> Field:
    return Field(columns, "string")


_START, _END = Field(("start",), "time"), Field(("end",), "end")
_BYTES = _amount("bytes")
_SPAN = {"start_ns": _START, "end_ns": Field(("end",), "time")}
# Exports trimmed by others lack contextId and globalPid.
_GPU_OP = {
    **_SPAN,
    "device_id": _int("deviceId"),
    "context_id": _optional("contextId"),
    "stream_id": _int("streamId"),
    "correlation_id": _int("correlationId"),
    "global_pid": _optional("globalPid"),
    "graph_node_id": _optional("graphNodeId"),
    "green_context_id": _optional("greenContextId", since="2023.4"),
}
_CPU_CALL = {**_SPAN, "global_tid": _int("globalTid"), "name": _string("nameId")}
_OVERHEAD = {**_CPU_CALL, "overhead_type": _optional("overheadType")}
_GPU = {
    **_amounts(memory_bytes_per_s="memoryBandwidth", l2_bytes="l2CacheSize", multiprocessors="smCount"),
    **_amounts(compute_major="computeMajor", compute_minor="computeMinor", clock_hz="clockRate"),
    **_amounts(memory_bytes="totalMemory"),
    **_amounts(registers_per_multiprocessor="maxRegistersPerSm", warps_per_multiprocessor="maxWarpsPerSm"),
    **_amounts(shared_bytes_per_multiprocessor="maxShmemPerSm", blocks_per_multiprocessor="maxBlocksPerSm"),
    "is_discrete": _optional("isDiscrete"),
}
_FAULT = {"global_pid": _optional("globalPid"), "address": _int("address")}
_MPI_CALL = {"start_ns": _START, "end_ns": _END, "global_tid": _int("globalTid"), "name": _string("textId")}

_NVML_PLUGIN = "nsyswrap profile --nsys-arg=--enable=nvml_metrics"
EVENTS: dict[str, EventKind] = {
    "kernel": EventKind(
        "CUPTI_ACTIVITY_KIND_KERNEL",
        "kernels",
        "--trace cuda,nvtx",
        {
            **_GPU_OP,
            "name": _string("demangledName"),
            "base_name": _string("shortName"),
            "mangled_name": _optional("mangledName", kind="string"),
            **{f"grid_{axis.lower()}": _amount(f"grid{axis}") for axis in "XYZ"},
            **{f"block_{axis.lower()}": _amount(f"block{axis}") for axis in "XYZ"},
            **_amounts(registers_per_thread="registersPerThread", static_shared_bytes="staticSharedMemory"),
            **_amounts(dynamic_shared_bytes="dynamicSharedMemory"),
            **_amounts(executed_shared_bytes="sharedMemoryExecuted"),
            **_amounts(cluster_x="clusterX", cluster_y="clusterY", cluster_z="clusterZ"),
            **_amounts(active_clusters="maxActiveClusters"),
            "launch_type": _optional("launchType"),
        },
    ),
    "memcpy": EventKind(
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        "copies",
        "--trace cuda,nvtx",
        {
            **_GPU_OP,
            "bytes": _BYTES,
            "copy_kind": _int("copyKind"),
            **_optionals(src_kind="srcKind", dst_kind="dstKind", copy_count="copyCount"),
            **_optionals(src_device_id="srcDeviceId", dst_device_id="dstDeviceId"),
            "address": _optional("virtualAddress", since="2022.1"),
            "migration_cause": _optional("migrationCause", since="2021"),
        },
    ),
    "memset": EventKind(
        "CUPTI_ACTIVITY_KIND_MEMSET",
        "memsets",
        "--trace cuda,nvtx",
        {**_GPU_OP, "bytes": _BYTES, "mem_kind": _optional("memKind"), "value": _optional("value")},
    ),
    "api": EventKind(
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        "CUDA API calls",
        "--trace cuda,nvtx",
        {
            **_CPU_CALL,
            "correlation_id": _int("correlationId"),
            **_optionals(event_class="eventClass", return_value="returnValue"),
        },
    ),
    "synchronization": EventKind(
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        "CUDA synchronizations",
        "--trace cuda,nvtx",
        {
            **_SPAN,
            "device_id": _int("deviceId"),
            "stream_id": _int("streamId"),
            "correlation_id": _int("correlationId"),
            "global_pid": _optional("globalPid"),
            "sync_type": _int("syncType"),
            **_optionals(context_id="contextId"),
            "event_sync_id": _optional("eventSyncId", since="2025.1"),
        },
    ),
    "cuda_event": EventKind(
        "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
        "records of CUDA events",
        "--trace cuda,nvtx",
        {
            "device_id": _int("deviceId"),
            "context_id": _int("contextId"),
            "stream_id": _int("streamId"),
            **_optionals(correlation_id="correlationId", global_pid="globalPid"),
            "event_sync_id": _optional("eventSyncId", since="2025.3"),
        },
    ),
    "graph": EventKind(
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
        "whole-graph executions",
        "--trace cuda,nvtx --graphs graph",
        {**_GPU_OP, "graph_id": _optional("graphId"), "graph_exec_id": _optional("graphExecId")},
    ),
    "nvtx": EventKind(
        "NVTX_EVENTS",
        "NVTX events",
        "--trace cuda,nvtx",
        {
            "start_ns": _START,
            "end_ns": _END,
            "event_type": _int("eventType"),
            "global_tid": _int("globalTid"),
            **_optionals(end_global_tid="endGlobalTid", domain_id="domainId"),
            "text": _optional("text", kind="text"),
            "text_id": _optional("textId", kind="string"),
            "payload": _optional("uint64Value"),
        },
    ),
    "overhead": EventKind("PROFILER_OVERHEAD", "profiler overhead", "--trace cuda,nvtx", _OVERHEAD),
    "cuda_overhead": EventKind(
        "CUPTI_ACTIVITY_KIND_OVERHEAD", "overhead in CUDA", "--trace cuda,nvtx", _OVERHEAD
    ),
    "um_cpu_fault": EventKind(
        "CUDA_UM_CPU_PAGE_FAULT_EVENTS",
        "CPU page faults of unified memory",
        "--trace cuda,nvtx --um-faults",
        {
            "start_ns": _START,
            **_FAULT,
            "name": _string("CpuInstruction"),
            "source_file": _optional("sourceFile", kind="string", since="2025"),
            "source_line": _optional("sourceLine", since="2025"),
        },
    ),
    "um_gpu_fault": EventKind(
        "CUDA_UM_GPU_PAGE_FAULT_EVENTS",
        "GPU page faults of unified memory",
        "--trace cuda,nvtx --um-faults",
        {**_SPAN, **_FAULT, "device_id": _int("deviceId"), "faults": _amount("numberOfPageFaults")},
    ),
    "osrt": EventKind(
        "OSRT_API",
        "OS runtime calls",
        "--trace cuda,nvtx,osrt",
        {**_CPU_CALL, "event_class": _int("eventClass")},
    ),
    "openmp": EventKind("OPENMP_EVENT_KIND_*", "OpenMP events", "--trace cuda,nvtx,openmp", _CPU_CALL),
    "openacc": EventKind(
        "CUPTI_ACTIVITY_KIND_OPENACC_*",
        "OpenACC events",
        "--trace cuda,nvtx,openacc",
        {**_CPU_CALL, "source_file": _optional("srcFile", kind="string"), "source_line": _optional("lineNo")},
    ),
    "mpi_p2p": EventKind(
        "MPI_P2P_EVENTS",
        "MPI sends and receives",
        "--trace cuda,nvtx,mpi",
        {**_MPI_CALL, **_amounts(bytes="size"), **_optionals(tag="tag", peer_rank="remoteRank")},
    ),
    "mpi_start_wait": EventKind(
        "MPI_START_WAIT_EVENTS", "MPI starts and waits", "--trace cuda,nvtx,mpi", _MPI_CALL
    ),
    "mpi_other": EventKind("MPI_OTHER_EVENTS", "other MPI calls", "--trace cuda,nvtx,mpi", _MPI_CALL),
    "mpi_collective": EventKind(
        "MPI_COLLECTIVES_EVENTS",
        "MPI collectives",
        "--trace cuda,nvtx,mpi",
        {
            **_MPI_CALL,
            **_amounts(sent_bytes="size", received_bytes="recvSize"),
            "root_rank": _optional("rootRank"),
        },
    ),
    "memory_use": EventKind(
        "CUDA_GPU_MEMORY_USAGE_EVENTS",
        "allocations of memory",
        "--trace cuda,nvtx --memory",
        {
            "start_ns": _START,
            "global_pid": _optional("globalPid"),
            "device_id": _int("deviceId"),
            "address": _int("address"),
            "bytes": _BYTES,
            "mem_kind": _int("memKind"),
            "operation": _int("memoryOperationType"),
            "pool": _optional("localMemoryPoolAddress"),
            "correlation_id": _optional("correlationId"),
        },
    ),
    "gpu_metric": EventKind(
        "GPU_METRICS",
        "samples of GPU metrics",
        "--trace cuda,nvtx --gpu-metrics",
        {
            "start_ns": Field(("timestamp",), "time"),
            "type_id": _int("typeId"),
            "metric_id": _int("metricId"),
            "value": _amount("value"),
        },
    ),
    "gpu_metric_name": EventKind(
        "TARGET_INFO_GPU_METRICS",
        "names of GPU metrics",
        "--trace cuda,nvtx --gpu-metrics",
        {"type_id": _int("typeId"), "metric_id": _int("metricId"), "text": Field(("metricName",), "text")},
    ),
    "plugin_sample": EventKind(
        "GENERIC_EVENTS",
        "samples of nsys' plugins",
        _NVML_PLUGIN,
        {
            "start_ns": Field(("timestamp",), "time"),
            "sample": _int("genericEventId"),
            "type_id": _int("typeId"),
        },
    ),
    "plugin_value": EventKind(
        "GENERIC_EVENT_DATA",
        "values that nsys' plugins sampled",
        _NVML_PLUGIN,
        {
            "sample": _int("genericEventId"),
            "field": _int("fieldIdx"),
            "signed": _optional("intVal"),
            "unsigned": _optional("uintVal"),
        },
    ),
    "plugin_field": EventKind(
        "GENERIC_EVENT_TYPE_FIELDS",
        "names of values of nsys' plugins",
        _NVML_PLUGIN,
        {"type_id": _int("typeId"), "field": _int("fieldIdx"), "name": _string("fieldNameId")},
    ),
    "gpu": EventKind(GPUS, "GPUs", "nsys 2021 or newer", _GPU),
    "mpi_rank": EventKind(
        "MPI_RANKS",
        "MPI ranks",
        "--trace cuda,nvtx,mpi",
        {"global_tid": _int("globalTid"), "rank": _int("rank")},
    ),
    "diagnostic": EventKind(
        "DIAGNOSTIC_EVENT",
        "diagnostics",
        "nsys 2024.2 or newer",
        {
            "timestamp_ns": _int("timestamp"),
            "severity": _int("severity"),
            "text": Field(("text",), "text"),
            "global_pid": _optional("globalPid"),
        },
    ),
}

# NVTX_EVENTS.eventType: ranges (the second number: imported from text), and the creation of a domain.
NVTX_PUSH_POP = (59, 70)
NVTX_START_END = (60, 71)
NVTX_DOMAIN, NVTX_DOMAIN_END = 75, 76
NVTX_MARK = 34
OSRT_CALL = 27  # OSRT_API.eventClass of a traced call

SEVERITY_WARNINGS = (2, 3)  # DIAGNOSTIC_EVENT.severity of warnings and errors
QUEUE_FULL = 8  # overheadType of a launch that waits for room in the queue
LOADING_TYPES = (2, 6, 7)  # overheadType of compiling and loading
CUDA_OVERHEAD_TYPES = (*LOADING_TYPES, QUEUE_FULL)
# Warnings that a process had no events of a kind; each child process without CUDA has them.
ABSENCE_WARNING = (
    r"No .* events collected\. Does the process use .*\?|CUDA profiling might have not been started.*"
)
# Diagnostics about events that are missing from the capture.
LOSS_WARNING = r"(?i)dropped|lost|not all .* events|buffer.*full|incomplete"
IMPORT_ERROR = "Error when processing events"  # of nsys: it loses the events after it
XLA_DOMAIN = "TSL"  # of NVTX: the texts of XLA's ranges break the import of nsys 2025.3
# Those about other events than CUDA's: the kind that a message names, or samples of the CPU.
OTHER_LOSS = r"(?i)not all (?!cuda\b)[\w ]+ events might|nvtx events|events .*lost.*sampling rate"
CUDA_COUNT = r"Number of CUDA events collected:\s*(\d[\d,]{0,25})"  # of COUNTED, in one process
COUNTED = ("api", "kernel", "memcpy", "memset")
# nsys says this whenever it stops before the program ends. It is no loss if the GPU had no work left then, or
# if CUPTI has handed over what it had: nsys says so of each process, and what is missing of it.
STOPPED_WARNING = r"Not all \w+ events might have been collected"
HANDED_OVER = r"Number of CUPTI events produced:"
BUFFERS = r"CUPTI buffers:\s*(\d{1,9}) of (\d{1,9})\b"  # that CUPTI has handed over
DROPPED = r"Number of incomplete CUPTI events dropped:\s*(\d[\d,]{0,25})"
NOT_HANDED_OVER = r"Some CUPTI events might be missing|incomplete CUPTI events dropped"
# Of the program; before time 0 if the recording began later.
LAUNCHED = "Process was launched by the profiler"
STOPPED = "Stopping the profiling session using NVTX trigger."

UNIFIED_MEMORY_KINDS = (11, 12, 13)  # migrations, which have no API call
UM_TO_DEVICE, UM_TO_HOST = 11, 12
TO_DEVICE, TO_HOST, WITHIN_DEVICE = 1, 2, 8  # kinds of explicit copies
TINY_BYTES = 64_000  # of a copy, as in nsys' expert rule on synchronous copies
PAGE_FAULT = 2  # a cause of migrations
PAGEABLE, PINNED, MANAGED = 0, 1, 4  # kinds of memory
ON_DEVICE = (2, 3, 5)  # kinds of memory that are only on a GPU
FREED = 1  # CUDA_GPU_MEMORY_USAGE_EVENTS.memoryOperationType; 0 is an allocation
METRIC_GPU = 0xFF  # the bits of GPU_METRICS.typeId that number the GPU
# The meaning of numbers: the ENUM table, and a copy of it for exports before 2022.4, which lack it.
_COPY_KINDS = (
    "Unknown, Host-to-Device, Device-to-Host, Host-to-Array, Array-to-Host, Array-to-Array, Array-to-Device, "
    "Device-to-Array, Device-to-Device, Host-to-Host, Peer-to-Peer, Unified Host-to-Device, "
    "Unified Device-to-Host, Unified Device-to-Device"
)
_MEM_KINDS = "Pageable, Pinned, Device, Array, Managed, Device Static, Managed Static, Unknown"
_CAUSES = "Unknown, User prefetch, Page fault, Speculative prefetch, Eviction, Access counters"
ENUMS: dict[str, tuple[str, dict[int, str]]] = {
    "copy_kind": ("ENUM_CUDA_MEMCPY_OPER", dict(enumerate(_COPY_KINDS.split(", ")))),
    "mem_kind": ("ENUM_CUDA_MEM_KIND", dict(enumerate(_MEM_KINDS.split(", ")))),
    "migration_cause": ("ENUM_CUDA_UNIF_MEM_MIGRATION", dict(enumerate(_CAUSES.split(", ")))),
}

# Columns with StringIds ids, in all tables of nsys.
STRING_COLUMN = regex(
    r"(?i)(.*name|.*(?<!con)text|content)Id|(demangled|short|mangled)Name"
    r"|(func|kernel|object|provider|task|var)Name|CpuInstruction|symbol|module|sourceFile|srcFile|description"
)


def events(kind: str) -> EventKind:
    """Return the description of a kind of event; raises UsageError for an unknown kind."""
    if kind not in EVENTS:
        raise UsageError(*unknown("kind of event", kind, EVENTS, f"kinds: {' '.join(EVENTS)}"))
    return EVENTS[kind]
