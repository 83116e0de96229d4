"""Styles of the things in the page's pictures: one of eight hues and one of three textures.

The hues are the color-blind safe palette of Okabe and Ito. page.css adapts them to a light or dark
background. Two things in one picture differ in hue or texture.
"""

from __future__ import annotations

from typing import NamedTuple

from nsyswrap.render.page.html import Markup, element

BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY, GOLD, GRAY = range(8)
SOLID, STRIPES, DOTS = range(3)


class Style(NamedTuple):
    """A hue and a texture, as the numbers that page.css uses."""

    hue: int
    texture: int


_UNKNOWN = Style(GRAY, STRIPES)
KERNELS = {
    "gemm": Style(BLUE, SOLID),
    "attention": Style(PURPLE, SOLID),
    "convolution": Style(BLUE, STRIPES),
    "elementwise": Style(SKY, SOLID),
    "copy": Style(SKY, STRIPES),
    "reduce": Style(GREEN, SOLID),
    "norm": Style(GREEN, STRIPES),
    "softmax": Style(PURPLE, STRIPES),
    "communication": Style(VERMILION, SOLID),
    "rng": Style(GOLD, SOLID),
    "sort": Style(GOLD, STRIPES),
    "other": Style(GRAY, SOLID),
    "graph": Style(GRAY, DOTS),
}
COPIES = {
    "Host-to-Device": Style(ORANGE, SOLID),
    "Device-to-Host": Style(ORANGE, STRIPES),
    "Device-to-Device": Style(GOLD, DOTS),
    "Peer-to-Peer": Style(VERMILION, STRIPES),
    "Unified Host-to-Device": Style(ORANGE, DOTS),
    "Unified Device-to-Host": Style(VERMILION, DOTS),
    "memset": Style(GREEN, DOTS),
}
CALLS = {
    "launch": Style(BLUE, SOLID),
    "synchronise": Style(GRAY, STRIPES),
    "allocate": Style(GREEN, SOLID),
    "load": Style(PURPLE, SOLID),
    "copy": Style(ORANGE, SOLID),
    "other": Style(GRAY, SOLID),
}
RANGES = {"range": Style(SKY, SOLID)}
OTHERS = {
    "MPI collectives": Style(VERMILION, SOLID),
    "MPI sends and receives": Style(VERMILION, STRIPES),
    "OS calls": Style(GOLD, SOLID),
    "OpenMP": Style(PURPLE, STRIPES),
    "OpenACC": Style(PURPLE, DOTS),
    "profiler overhead": Style(GRAY, DOTS),
}  # calls that are not CUDA's
CAUSES = {
    "profiler": Style(GRAY, DOTS),
    "load": Style(PURPLE, SOLID),
    "allocate": Style(GREEN, SOLID),
    "synchronise": Style(VERMILION, SOLID),
    "launch": Style(BLUE, SOLID),
    "copy": Style(ORANGE, SOLID),
    "call": Style(SKY, SOLID),
    "host": Style(GOLD, SOLID),
    "queued": Style(BLUE, STRIPES),
    "migration": Style(ORANGE, DOTS),
    "unknown": Style(GRAY, STRIPES),
}


def style_of(styles: dict[str, Style], name: str) -> Style:
    """Return the style of a name. Names without a style of their own share one."""
    return styles.get(name, _UNKNOWN)


def swatch(style: Style) -> Markup:
    """Return a small patch in this style, for a legend."""
    return element("svg", *filled(style, x="0", width="14", height="14"), class_="swatch", aria_hidden="true")


def filled(style: Style, **place: str) -> list[Markup]:
    """Return SVG rectangles in this style: the hue, and the texture over it.

    ``place`` has the attributes of the rectangle: x, y, width and height.
    """
    parts = [element("rect", class_=f"hue-{style.hue}", **place)]
    if style.texture:
        parts.append(element("rect", fill=f"url(#texture-{style.texture})", **place))
    return parts


def textures() -> Markup:
    """Return the SVG patterns that filled rectangles refer to. A page needs them once."""
    stripes = element("path", d="M-1,5 L5,-1 M-1,1 L1,-1 M3,5 L5,3", class_="ink")
    dots = element("circle", cx="2", cy="2", r="1.1", class_="inked")
    sizes = {"width": "4", "height": "4", "patternUnits": "userSpaceOnUse"}
    patterns = (
        element("pattern", shape, id=f"texture-{number}", **sizes)
        for number, shape in ((STRIPES, stripes), (DOTS, dots))
    )
    return element("svg", element("defs", *patterns), class_="unseen", aria_hidden="true")
