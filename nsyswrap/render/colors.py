"""Colours, the same in every picture: of kernels by their class, of copies by direction, of the host's calls.

Kernels among themselves, and copies and memsets, stay apart for readers who see no red, no green or no blue;
one from the other they have to be told by shape. As ``#rrggbb``, for a drawing library and a web page alike.
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
    """Return the colour of a class of kernels; one of the user's own has that of ``other``."""
    return KERNEL_CLASSES.get(kernel_class, _UNKNOWN)


def copy_color(label: str) -> str:
    """Return the colour of copies by nsys' label of their kind; a migration has that of its direction."""
    return DIRECTIONS.get(label.removeprefix("Unified ").replace("Array", "Device"), _UNKNOWN)
