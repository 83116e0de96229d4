"""The colors of pages, plots and traces: one table, in which each hue and texture means one thing.

A style is a hue and a texture. Color-blind readers can tell hues of one texture from each other, and each hue
has a contrast of 3 : 1 to what it is drawn on. On paper without color, products, attention and elementwise
kernels differ in lightness. Host calls and the idle time that they cause share a style,
because they are the same activity. Verdicts have hues of their own.
"""

from __future__ import annotations

from typing import NamedTuple

BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY, GOLD, GRAY, LAVENDER, SLOWER, FASTER, INK = range(12)
SOLID, STRIPES, DOTS, LINES, GRID, CROSS = range(6)


class Style(NamedTuple):
    """A hue and a texture: positions in HUES and among the textures SOLID to CROSS."""

    hue: int
    texture: int = SOLID


class Hue(NamedTuple):
    """A hue on a light and on a dark ground."""

    light: str
    dark: str


HUES = (
    Hue("#537ded", "#989fff"),
    Hue("#b87500", "#ef9300"),
    Hue("#509251", "#279363"),
    Hue("#c14d36", "#e94210"),
    Hue("#81055b", "#9e6db2"),
    Hue("#045fa9", "#49d5ff"),
    Hue("#534900", "#dcdf69"),
    Hue("#92787f", "#aabdb4"),
    Hue("#847fa1", "#70adbd"),
    Hue("#a8001c", "#ff8f8f"),
    Hue("#00665c", "#58e0c0"),
    Hue("#343b46", "#dfe4ec"),
)

UNKNOWN = Style(GRAY, STRIPES)
TENSOR_CORE = "tensor core "  # before a class, whose style holds
KERNELS = {
    "gemm": Style(BLUE),
    "attention": Style(PURPLE),
    "convolution": Style(BLUE, STRIPES),
    "CUDA core products": Style(BLUE, CROSS),
    "memory-bound products": Style(SKY, CROSS),
    "other products": Style(PURPLE, CROSS),
    "elementwise": Style(SKY),
    "copy": Style(SKY, STRIPES),
    "reduce": Style(GREEN),
    "norm": Style(GREEN, STRIPES),
    "softmax": Style(PURPLE, STRIPES),
    "communication": Style(VERMILION),
    "fft": Style(GREEN, CROSS),
    "rng": Style(GOLD),
    "sort": Style(GOLD, STRIPES),
    "other": Style(GRAY),
    "graph": Style(GRAY, DOTS),
}
COPIES = {
    "Host-to-Device": Style(ORANGE),
    "Device-to-Host": Style(VERMILION, STRIPES),
    "Device-to-Device": Style(GOLD, DOTS),
    "Peer-to-Peer": Style(ORANGE, STRIPES),
    "Host-to-Host": Style(LAVENDER, STRIPES),
    "Unified Host-to-Device": Style(ORANGE, DOTS),
    "Unified Device-to-Host": Style(VERMILION, DOTS),
    "Unified Device-to-Device": Style(LAVENDER, DOTS),
    "memset": Style(GREEN, DOTS),
}
_HOST = {
    "launch": Style(BLUE, LINES),
    "synchronise": Style(VERMILION, LINES),
    "allocate": Style(GREEN, LINES),
    "load": Style(PURPLE, LINES),
    "copy": Style(ORANGE, LINES),
}
CALLS = {**_HOST, "other": Style(SKY, LINES)}
RANGES = {"range": Style(LAVENDER)}
CAUSES = {
    "profiler": Style(GRAY, LINES),
    **_HOST,
    "call": CALLS["other"],
    "host": Style(GOLD, LINES),
    "queued": Style(BLUE, DOTS),
    "migration": Style(SKY, DOTS),
    "unknown": UNKNOWN,
    "other_process": Style(LAVENDER, LINES),
}
STEPS = {
    "steady step": Style(SKY, GRID),
    "warm-up": Style(GRAY, GRID),
    "outlier step": Style(BLUE, GRID),
    "other step": Style(LAVENDER, GRID),
}
OTHERS = {  # calls that are not CUDA's
    "MPI collectives": Style(VERMILION, GRID),
    "MPI sends and receives": Style(ORANGE, GRID),
    "OS calls": Style(GOLD, GRID),
    "OpenMP": Style(PURPLE, GRID),
    "OpenACC": Style(GREEN, GRID),
    "profiler overhead": CAUSES["profiler"],
}
LAUNCHES = {"repeat": CALLS["launch"], "first": Style(PURPLE, DOTS)}
VERDICTS = {
    "slower": Style(SLOWER),
    "faster": Style(FASTER),
    "same": Style(INK, DOTS),
    "cannot tell": Style(INK, STRIPES),
    "lower clock": Style(SLOWER, STRIPES),
    "added or removed": Style(INK),
    "no verdict": Style(INK, STRIPES),
}
REST = Style(INK, LINES)  # what is too small for a part of its own
MEMSET = COPIES["memset"]


def style_of(styles: dict[str, Style], name: str) -> Style:
    """Return the style of a name. Names without a style of their own share one."""
    return styles.get(name, UNKNOWN)


def kernel_color(kind: str) -> Style:
    """Return the style of a class or kind of kernels. Classes from the user's own rules share one."""
    return style_of(KERNELS, kind.removeprefix(TENSOR_CORE))


def copy_color(label: str) -> Style:
    """Return the style of copies by nsys' label of their kind. Copies of arrays count as those of memory."""
    return style_of(COPIES, label.replace("Array", "Device"))


def state_color(state: str) -> Style:
    """Return the style of a state of the GPU: one of ``step_budget.STATES``."""
    if state.startswith("idle_"):
        return style_of(CAUSES, state.removeprefix("idle_"))
    if state in ("memcpy", "memset"):
        return MEMSET if state == "memset" else COPIES["Host-to-Device"]
    return kernel_color(state.removesuffix("_kernel"))
