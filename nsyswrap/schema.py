"""The one place that knows nsys' tables: field terms, the columns behind them, and what the numbers mean.

``EVENTS`` maps a kind of event to its table. A field names the columns that hold it, the newest first:
the first one that the export has is read. Ids are 64-bit and may be negative.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

FieldKind = Literal["int", "text", "string"]

STRINGS = "StringIds"
EXPORT_METADATA = ("META_DATA_EXPORT", "EXPORT_META_DATA")  # from 2023.3; 2022.1 to 2023.2; before: none
CAPTURE_METADATA = "META_DATA_CAPTURE"
COMMAND, ARGUMENT_PREFIX = "PROCESS_0:COMMAND", "PROCESS_0:ARGUMENT_"
SYSTEM_ENV = "TARGET_INFO_SYSTEM_ENV"
GPUS = "TARGET_INFO_GPU"
SESSION_START = "TARGET_INFO_SESSION_START_TIME"
ANALYSIS = "ANALYSIS_DETAILS"

# A capture is an SQLite file with StringIds and at least one table that begins like this.
CAPTURE_MARKS = ("CUPTI_ACTIVITY_KIND_", "TARGET_INFO_", "NVTX_EVENTS", "OSRT_API")

# globalTid: thread id in bits 0-23, process id in bits 24-47, above them VM and hardware id.
# globalPid is the same with the low 24 bits zero. As signed 64-bit integers:
PROCESS_MASK = -16777216  # 0xFFFFFFFFFF000000
ID_MASK = 0xFFFFFF
PID_SHIFT = 24


@dataclass(frozen=True)
class Field:
    """Where a field comes from: columns to try in order, and whether an int, a text or a StringIds id."""

    columns: tuple[str, ...]
    kind: FieldKind = "int"
    required: bool = True


@dataclass(frozen=True)
class Events:
    """One kind of event: its table, its fields, and the nsys option that collects it."""

    table: str
    title: str
    collect: str
    fields: Mapping[str, Field]


def _int(*columns: str) -> Field:
    return Field(columns)


def _optional(*columns: str, kind: FieldKind = "int") -> Field:
    return Field(columns, kind, required=False)


def _string(*columns: str) -> Field:
    return Field(columns, "string")


_SPAN = {"start_ns": _int("start"), "end_ns": _int("end")}
# Third parties trim contextId and globalPid; without globalPid there is one process.
_GPU_OP = {
    **_SPAN,
    "device_id": _int("deviceId"),
    "context_id": _optional("contextId"),
    "stream_id": _int("streamId"),
    "correlation_id": _int("correlationId"),
    "global_pid": _optional("globalPid"),
    "graph_node_id": _optional("graphNodeId"),
}

EVENTS: dict[str, Events] = {
    "kernel": Events(
        "CUPTI_ACTIVITY_KIND_KERNEL",
        "kernels",
        "--trace=cuda",
        {
            **_GPU_OP,
            "name": _string("demangledName"),
            "base_name": _string("shortName"),
            "mangled_name": _optional("mangledName", kind="string"),
            "grid_x": _int("gridX"),
            "grid_y": _int("gridY"),
            "grid_z": _int("gridZ"),
            "block_x": _int("blockX"),
            "block_y": _int("blockY"),
            "block_z": _int("blockZ"),
            "registers_per_thread": _optional("registersPerThread"),
            "static_shared_bytes": _optional("staticSharedMemory"),
            "dynamic_shared_bytes": _optional("dynamicSharedMemory"),
        },
    ),
    "memcpy": Events(
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        "memory copies",
        "--trace=cuda",
        {
            **_GPU_OP,
            "bytes": _int("bytes"),
            "copy_kind": _int("copyKind"),
            "src_kind": _optional("srcKind"),
            "dst_kind": _optional("dstKind"),
        },
    ),
    "memset": Events(
        "CUPTI_ACTIVITY_KIND_MEMSET",
        "memory sets",
        "--trace=cuda",
        {**_GPU_OP, "bytes": _int("bytes"), "mem_kind": _optional("memKind"), "value": _optional("value")},
    ),
    "api": Events(
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        "CUDA API calls",
        "--trace=cuda",
        {
            **_SPAN,
            "global_tid": _int("globalTid"),
            "correlation_id": _int("correlationId"),
            "name": _string("nameId"),
            "event_class": _optional("eventClass"),
            "return_value": _optional("returnValue"),
        },
    ),
    "synchronization": Events(
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        "CUDA synchronisations",
        "--trace=cuda",
        {
            **_SPAN,
            "device_id": _int("deviceId"),
            "stream_id": _int("streamId"),
            "correlation_id": _int("correlationId"),
            "global_pid": _optional("globalPid"),
            "sync_type": _int("syncType"),
        },
    ),
    "graph": Events(
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
        "whole-graph executions",
        "--trace=cuda --cuda-graph-trace=graph",
        {**_GPU_OP, "graph_id": _optional("graphId"), "graph_exec_id": _optional("graphExecId")},
    ),
    "nvtx": Events(
        "NVTX_EVENTS",
        "NVTX events",
        "--trace=nvtx",
        {
            "start_ns": _int("start"),
            "end_ns": _int("end"),
            "event_type": _int("eventType"),
            "global_tid": _int("globalTid"),
            "end_global_tid": _optional("endGlobalTid"),
            "domain_id": _optional("domainId"),
            "text": _optional("text", kind="text"),
            "text_id": _optional("textId", kind="string"),
        },
    ),
    "overhead": Events(
        "PROFILER_OVERHEAD",
        "profiler overhead",
        "--trace=cuda",
        {**_SPAN, "global_tid": _int("globalTid"), "name": _string("nameId")},
    ),
    "diagnostic": Events(
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

# NVTX event types: push/pop ranges and those imported as text.
NVTX_PUSH_POP = (59, 70)

# DIAGNOSTIC_EVENT.severity
SEVERITY_WARNING = 2
# Warnings that only say that a process had no events of a kind: every child without CUDA has them.
ABSENCE_WARNING = (
    r"No .* events collected\. Does the process use .*\?|CUDA profiling might have not been started.*"
)
# Diagnostics that say that something is missing from the capture.
LOSS_WARNING = r"(?i)dropped|lost|not all .* events|buffer.*full|incomplete"

# Built-in copies of the ENUM tables, which exports before 2022.4 lack.
COPY_KINDS: dict[int, str] = {
    0: "Unknown",
    1: "Host-to-Device",
    2: "Device-to-Host",
    3: "Host-to-Array",
    4: "Array-to-Host",
    5: "Array-to-Array",
    6: "Array-to-Device",
    7: "Device-to-Array",
    8: "Device-to-Device",
    9: "Host-to-Host",
    10: "Peer-to-Peer",
    11: "Unified Host-to-Device",
    12: "Unified Device-to-Host",
    13: "Unified Device-to-Device",
}
UNIFIED_MEMORY_KINDS = (11, 12, 13)  # migrations: no API call started them
COPY_KIND_TABLE = "ENUM_CUDA_MEMCPY_OPER"

# Columns that hold StringIds ids, in every table nsys writes.
STRING_COLUMN = re.compile(
    r"(?i)(.*name|.*(?<!con)text|content)Id|(demangled|short|mangled)Name"
    r"|(func|kernel|object|provider|task|var)Name|CpuInstruction|symbol|module|sourceFile|srcFile|description"
)
