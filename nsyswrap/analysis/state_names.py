"""Name the states of a GPU in a few words: what it was busy with, and why it was idle."""

from __future__ import annotations

from nsyswrap.analysis.gpu_operations import GRAPH, MEMCPY
from nsyswrap.analysis.kernel_names import OTHER
from nsyswrap.analysis.step_budget import BUSY, COMMUNICATION, COMPUTE, OTHER_PROCESS

OTHER_NAME = "other"  # of a sum of small shares
IDLE_NAMES = {
    "profiler": "profiler",
    "load": "loading modules",
    "allocate": "allocating",
    "synchronise": "synchronizing",
    "launch": "launches",
    "copy": "copy calls",
    "call": "other CUDA calls",
    "host": "host code",
    "queued": "between queued operations",
    "migration": "page migration",
    "unknown": "unexplained",
    OTHER_PROCESS: "another process",
}
KERNELS = tuple(state for state in COMPUTE if state != GRAPH)
OTHER_KERNELS = f"{OTHER}_kernel"
BUSY_NAMES = {
    **{state: state.removesuffix("_kernel") for state in KERNELS},
    "copy_kernel": "copy kernels",
    OTHER_KERNELS: "other kernels",
    GRAPH: "graphs",
    COMMUNICATION: "communication",
    MEMCPY: "copies",
}


def state_name(state: str) -> str:
    """Return the words for one of ``step_budget.STATES``."""
    return BUSY_NAMES[state] if state in BUSY else IDLE_NAMES[state.removeprefix("idle_")]
