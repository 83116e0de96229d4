"""The words for what a GPU did, and for why it was idle."""

from __future__ import annotations

from nsyswrap.analysis.gpu_operations import GRAPH, MEMCPY, MEMSET
from nsyswrap.analysis.step_budget import COMMUNICATION, KERNELS, OTHER_KERNELS, OTHER_PROCESS

# What causes a gap, of those in ``gpu_gaps.CAUSES``; then in as few words as a line of shares has room for.
CAUSE_NAMES = {
    "profiler": "profiler overhead",
    "load": "loading modules or contexts",
    "allocate": "allocating or freeing memory",
    "synchronise": "synchronizing",
    "launch": "launch latency",
    "copy": "copy or memset calls",
    "call": "other CUDA calls",
    "host": "host code outside CUDA calls",
    "queued": "between queued operations: dependency or GPU latency",
    "migration": "page migration of unified memory",
    "unknown": "unexplained: no recorded call launched the next operation",
}
IDLE_NAMES = {
    **CAUSE_NAMES,
    "load": "loading modules",
    "allocate": "allocating",
    "host": "host code",
    "queued": "between queued operations",
    "migration": "page migration",
    "unknown": "unexplained",
    OTHER_PROCESS: "another process",
}
BUSY_NAMES = {
    **{state: state.removesuffix("_kernel") for state in KERNELS},
    "copy_kernel": "copy kernels",
    OTHER_KERNELS: "other kernels",
    GRAPH: "graphs",
    COMMUNICATION: "communication",
    MEMCPY: "copies",
    MEMSET: "memsets",
}
OTHER_NAME = "other"  # of a sum of small shares


def state_name(state: str) -> str:
    """Return the words for one of ``step_budget.STATES``."""
    return BUSY_NAMES[state] if state in BUSY_NAMES else IDLE_NAMES[state.removeprefix("idle_")]
