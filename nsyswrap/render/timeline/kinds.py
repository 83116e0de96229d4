"""The kinds of events in lanes: what the page and the plots call them, and their styles.

A kind is a family of events and a name within it.
"""

from __future__ import annotations

from nsyswrap.analysis.gpu_gaps import CAUSES
from nsyswrap.analysis.gpu_operations import GRAPH, KERNEL, MEMSET
from nsyswrap.render import colors

Kind = tuple[str, str]

# A lane of a GPU has kernels and copies, another one has events of its own family.
KERNELS, COPIES, CALLS, RANGES, OTHERS = ("kernels", "copies", "calls", "ranges", "other calls")
STEPS, IDLE = ("steps", "idle by cause")
NO_NAME = "(no name)"  # of an event

_STYLES = {
    KERNELS: colors.KERNELS,
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
    **{(IDLE, cause): name for cause, name in CAUSES.items()},
}


def kind_of(operation: str, label: str = "") -> Kind:
    """Return the kind of a GPU operation; ``label`` is the class of a kernel or the direction of a copy."""
    if operation == GRAPH:
        return KERNELS, "graph"
    return (KERNELS, label) if operation == KERNEL else (COPIES, "memset" if operation == MEMSET else label)


def style_of(kind: Kind) -> colors.Style:
    """Return the style of a kind."""
    family, name = kind
    return colors.copy_color(name) if family == COPIES else colors.style_of(_STYLES[family], name)


def name_of(kind: Kind) -> str:
    """Return the name of a kind within its family."""
    return _NAMES.get(kind, kind[1])
