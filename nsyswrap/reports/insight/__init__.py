"""The reports that nsys does not have."""

from __future__ import annotations

# In the order of `-r all`.
NAMES = (
    "step_budget",
    "loops",
    "launch_overhead",
    "launch_exposure",
    "gpu_time",
    "gpu_idle",
    "memcpy_bandwidth",
    "um_migrations",
    "gpu_memory",
    "kernel_class_sum",
    "kernel_histogram",
    "kernel_efficiency",
    "gpu_metrics",
    "python_calls",
    "nvtx_phases",
    "nvtx_tree",
    "module_kern_sum",
    "module_budget",
    "timing_audit",
    "diagnostics",
    "advice",
)
