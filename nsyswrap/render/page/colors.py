"""Draw the styles of ``render.colors`` on a page: CSS for their hues, and SVG for their textures."""

from __future__ import annotations

from nsyswrap.render.colors import DOTS, GRID, HUES, LINES, STRIPES, Style
from nsyswrap.render.page.html import Markup, element


def hue_rules() -> str:
    """Return the CSS of the hues on a light and on a dark ground. Paper is light."""
    light, dark = (
        "".join(f"--hue-{number}:{hue[ground]};" for number, hue in enumerate(HUES)) for ground in (0, 1)
    )
    fills = "".join(f".hue-{number}{{fill:var(--hue-{number})}}" for number in range(len(HUES)))
    return f":root{{{light}}}@media (prefers-color-scheme:dark){{:root:not(.printed){{{dark}}}}}\n{fills}\n"


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
    lines = element("path", d="M0,1 H4", class_="ink")
    grid = element("path", d="M0,1 H4 M1,0 V4", class_="ink")
    sizes = {"width": "4", "height": "4", "patternUnits": "userSpaceOnUse"}
    patterns = (
        element("pattern", shape, id=f"texture-{number}", **sizes)
        for number, shape in ((STRIPES, stripes), (DOTS, dots), (LINES, lines), (GRID, grid))
    )
    return element("svg", element("defs", *patterns), class_="unseen", aria_hidden="true")
