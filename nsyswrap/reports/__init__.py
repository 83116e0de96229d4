"""The reports, one module each. A module here named like its report is all that a new report takes."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from nsyswrap.errors import UsageError

if TYPE_CHECKING:
    from nsyswrap.report import Report

# In the order of `-r all`: nsys' own, then what nsys does not give.
NAMES = (
    "cuda_gpu_kern_sum",
    "cuda_api_sum",
    "cuda_gpu_mem_time_sum",
    "cuda_gpu_mem_size_sum",
    "cuda_gpu_sum",
    "cuda_kern_exec_sum",
    "launch_overhead",
    "memcpy_bandwidth",
    "nvtx_phases",
)


def find(name: str) -> Report:
    """Return the report with this name; raises UsageError with the names there are."""
    if name not in NAMES:
        raise UsageError(f"there is no report {name!r}", f"reports: {' '.join(NAMES)}")
    report: Report = importlib.import_module(f"nsyswrap.reports.{name}").REPORT
    return report
