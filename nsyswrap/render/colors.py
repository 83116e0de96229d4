"""Colors of the plots as ``#rrggbb``: kernels by class, copies by direction, API calls and NVTX ranges.

Color-blind readers can tell the kernel classes from each other, and copies and memsets from each other. They
may not be able to tell a kernel from a copy, so pictures also give these different shapes.
"""

from __future__ import annotations

KERNEL_CLASSES = {
    "attention": "#dd5555",
    "communication": "#eecc44",
    "convolution": "#7777ee",
    "copy": "#00eeaa",
    "elementwise": "#88bbff",
    "gemm": "#444499",
    "norm": "#cc66bb",
    "reduce": "#997700",
    "rng": "#aadd77",
    "softmax": "#664466",
    "sort": "#883311",
    "other": "#999999",
}
DIRECTIONS = {
    "Host-to-Device": "#0072b2",
    "Device-to-Host": "#d55e00",
    "Device-to-Device": "#009e73",
    "Peer-to-Peer": "#cc79a7",
    "Host-to-Host": "#444444",
}
MEMSET, GRAPH, API, NVTX = "#e69f00", "#000000", "#c2a878", "#6a9fb5"
FIRST, REPEAT = "#d55e00", "#0072b2"  # launches
_UNKNOWN = "#999999"


def kernel_color(kernel_class: str) -> str:
    """Return the color of a kernel class. Classes from the user's own rules have the color of ``other``."""
    return KERNEL_CLASSES.get(kernel_class, _UNKNOWN)


def copy_color(label: str) -> str:
    """Return the color of copies by nsys' label of their kind. A migration has the color of its direction."""
    return DIRECTIONS.get(label.removeprefix("Unified ").replace("Array", "Device"), _UNKNOWN)
