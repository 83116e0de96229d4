"""Say for each table of nsys which of its cells are removed, searched, or kept as names of events.

Every TEXT and BLOB cell that no rule keeps is searched for removed values. So a rule lists exceptions only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

REMOVED = "redacted"


@dataclass(frozen=True)
class Rule:
    """What redacting does with one table.

    ``rows`` is the kind of secret if some rows are removed. ``kept`` lists columns with texts that are never
    changed. ``searched`` lists columns with StringIds ids whose texts are searched; all others are names of
    events, which are kept.
    """

    rows: str = ""
    kept: tuple[str, ...] = ()
    searched: tuple[str, ...] = ()


NUMBERS = Rule()
_NAME = Rule(kept=("name",))
_CALLCHAIN = Rule(searched=("module",))
_MARKER = Rule(searched=("textId",))

# A name with a ``*`` stands for all tables that match and have no line of their own.
RULES: dict[str, Rule] = {
    "ANALYSIS_DETAILS": NUMBERS,
    "ANALYSIS_FILE": Rule(rows="program output"),
    "COMPOSITE_EVENTS": NUMBERS,
    "CUBLAS_EVENTS": NUMBERS,
    "CUDA_CALLCHAINS": _CALLCHAIN,
    "CUDA_GPU_MEMORY_POOL_EVENTS": NUMBERS,
    "CUDA_GPU_MEMORY_USAGE_EVENTS": _NAME,
    "CUDA_GRAPH_*": NUMBERS,
    "CUDA_UM_CPU_PAGE_FAULT_EVENTS": Rule(searched=("module", "sourceFile")),
    "CUDA_UM_GPU_PAGE_FAULT_EVENTS": NUMBERS,
    "CUDNN_EVENTS": NUMBERS,
    "CUPTI_ACTIVITY_KIND_*": _NAME,
    "CUPTI_ACTIVITY_KIND_OPENACC_*": Rule(searched=("srcFile",)),
    "D3D11_*": _MARKER,
    "D3D12_*": _MARKER,
    "DEMOTED_BYTES_EVENTS": NUMBERS,
    "DIAGNOSTIC_EVENT": NUMBERS,
    "DX12_*": _MARKER,
    "ENUM_*": Rule(kept=("name", "label")),
    "ETW_*": NUMBERS,
    "EXPORT_META_DATA": Rule(rows="user, host and paths", kept=("name",)),
    "FECS_EVENTS": NUMBERS,
    "GENERIC_EVENT*": NUMBERS,
    "GPU_*": NUMBERS,
    "KHR_DEBUG_EVENTS": _MARKER,
    "MEMORY_TRANSFER_EVENTS": NUMBERS,
    "META_DATA_CAPTURE": Rule(rows="environment", kept=("name",)),
    "META_DATA_EXPORT": Rule(rows="user, host and paths", kept=("name",)),
    "MPI_*": NUMBERS,
    "NET_*": NUMBERS,
    "NIC_ID_MAP": NUMBERS,
    "NVTX_EVENTS": Rule(searched=("textId", "jsonTextId")),
    "NVTX_PAYLOAD_*": NUMBERS,
    "NVVIDEO_*": NUMBERS,
    "NV_LOAD_BALANCE_*": NUMBERS,
    "OPENGL_*": NUMBERS,
    "OPENMP_EVENT_KIND_*": NUMBERS,
    "OSRT_API": NUMBERS,
    "OSRT_CALLCHAINS": _CALLCHAIN,
    "OSRT_FILE_ACCESS_*": NUMBERS,
    "PERF_EVENT_*": NUMBERS,
    "PMU_*": NUMBERS,
    "PROCESSES": Rule(rows="other processes' names"),
    "PROFILER_OVERHEAD": NUMBERS,
    "ProcessStreams": Rule(rows="program output"),
    "SAMPLING_CALLCHAINS": _CALLCHAIN,
    "SCHED_EVENTS": NUMBERS,
    "SLI_*": NUMBERS,
    "StringIds": Rule(rows="environment"),
    "TARGET_INFO_*": _NAME,
    "TARGET_INFO_GPU_METRICS": Rule(kept=("metricName", "typeName")),
    "TARGET_INFO_NVTX_CUDA_*": NUMBERS,
    "TARGET_INFO_PROCESS": Rule(searched=("nameId",)),
    "TARGET_INFO_SYSTEM_ENV": Rule(rows="environment", kept=("name",)),
    "TARGET_INFO_XMC_SPEC": NUMBERS,
    "TOTAL_BYTES_RESIDENT_IN_SEGMENT_EVENTS": NUMBERS,
    "TRACE_PROCESS_EVENT_NVMEDIA": NUMBERS,
    "ThreadNames": Rule(rows="other processes' names", searched=("nameId",)),
    "UCP_*": NUMBERS,
    "UNCORE_PMU_*": NUMBERS,
    "UnwindMethodType": _NAME,
    "VULKAN_*": _MARKER,
    "WDDM_*": NUMBERS,
}

# Columns, in any table, that identify a device.
IDENTIFIERS = re.compile(r"(?i)uuid|guid|luid|serial(_?number)?|mac_?addr(ess)?")
# Names of rows with a value that is personal as a whole.
PERSONAL_KEYS = re.compile(
    r"(?i)(^|:|_)(host|hostname|user|user_?name|device_display_name|working_dir|domain_?name|uuid|nic_?info"
    r"|serial(_?number)?|mac_?addr(ess)?|ip_?addr(ess)?)$|_PATH(_ABS)?$"
)
ENVIRONMENT_KEYS = "%environment%"  # of rows with a part of the environment, for LIKE


def rule_of(table: str) -> Rule | None:
    """Return the rule of a table; None for a table that this version does not know."""
    if table in RULES:
        return RULES[table]
    matching = [pattern for pattern in RULES if "*" in pattern and fnmatchcase(table, pattern)]
    return RULES[max(matching, key=len)] if matching else None
