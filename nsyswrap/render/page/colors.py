"""What each kind of thing looks like: one of eight hues that all can tell apart, and one of three textures.

Hues are those of Okabe and Ito, made darker or lighter for their background in page.css. No two things that
stand in one picture share both hue and texture, so that none is told by its colour alone.
"""

from __future__ import annotations

from typing import NamedTuple

from nsyswrap.render.page.html import Markup, element

BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY, GOLD, GREY = range(8)
SOLID, STRIPES, DOTS = range(3)


class Look(NamedTuple):
    """Hue and texture, as numbers."""

    hue: int
    texture: int


_UNKNOWN = Look(GREY, STRIPES)
KERNELS = {
    "gemm": Look(BLUE, SOLID),
    "attention": Look(PURPLE, SOLID),
    "convolution": Look(BLUE, STRIPES),
    "elementwise": Look(SKY, SOLID),
    "copy": Look(SKY, STRIPES),
    "reduce": Look(GREEN, SOLID),
    "norm": Look(GREEN, STRIPES),
    "softmax": Look(PURPLE, STRIPES),
    "communication": Look(VERMILION, SOLID),
    "rng": Look(GOLD, SOLID),
    "sort": Look(GOLD, STRIPES),
    "other": Look(GREY, SOLID),
    "graph": Look(GREY, DOTS),
}
COPIES = {
    "Host-to-Device": Look(ORANGE, SOLID),
    "Device-to-Host": Look(ORANGE, STRIPES),
    "Device-to-Device": Look(GOLD, DOTS),
    "Peer-to-Peer": Look(VERMILION, STRIPES),
    "Unified Host-to-Device": Look(ORANGE, DOTS),
    "Unified Device-to-Host": Look(VERMILION, DOTS),
    "memset": Look(GREEN, DOTS),
}
CALLS = {
    "launch": Look(BLUE, SOLID),
    "synchronise": Look(GREY, STRIPES),
    "allocate": Look(GREEN, SOLID),
    "load": Look(PURPLE, SOLID),
    "copy": Look(ORANGE, SOLID),
    "other": Look(GREY, SOLID),
}
RANGES = {"range": Look(SKY, SOLID)}
CAUSES = {
    "profiler": Look(GREY, DOTS),
    "load": Look(PURPLE, SOLID),
    "allocate": Look(GREEN, SOLID),
    "synchronise": Look(VERMILION, SOLID),
    "launch": Look(BLUE, SOLID),
    "copy": Look(ORANGE, SOLID),
    "call": Look(SKY, SOLID),
    "host": Look(GOLD, SOLID),
    "queued": Look(BLUE, STRIPES),
    "migration": Look(ORANGE, DOTS),
    "unknown": Look(GREY, STRIPES),
}


def look(looks: dict[str, Look], name: str) -> Look:
    """Return what a thing looks like; all that have no look of their own share one."""
    return looks.get(name, _UNKNOWN)


def swatch(of: Look) -> Markup:
    """Return a small patch of hue and texture, for a legend."""
    return element("svg", *filled(of, x="0", width="14", height="14"), class_="swatch", aria_hidden="true")


def filled(of: Look, **place: str) -> list[Markup]:
    """Return the rectangles of SVG that fill a place: hue, and over it the texture."""
    parts = [element("rect", class_=f"hue-{of.hue}", **place)]
    if of.texture:
        parts.append(element("rect", fill=f"url(#texture-{of.texture})", **place))
    return parts


def textures() -> Markup:
    """Return what the fills refer to, once a page."""
    stripes = element("path", d="M-1,5 L5,-1 M-1,1 L1,-1 M3,5 L5,3", class_="ink")
    dots = element("circle", cx="2", cy="2", r="1.1", class_="inked")
    sizes = {"width": "4", "height": "4", "patternUnits": "userSpaceOnUse"}
    patterns = (
        element("pattern", shape, id=f"texture-{number}", **sizes)
        for number, shape in ((STRIPES, stripes), (DOTS, dots))
    )
    return element("svg", element("defs", *patterns), class_="unseen", aria_hidden="true")
