"""Text in a figure: literal, of characters that the font has, and as long as there is room for."""

from __future__ import annotations

import re
import textwrap
from functools import cache
from typing import TYPE_CHECKING
from unicodedata import bidirectional

from matplotlib.font_manager import FontProperties, findfont
from matplotlib.ft2font import FT2Font

from nsyswrap.base.text import shorten_all
from nsyswrap.render.formats.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SANS, MONO = "DejaVu Sans", "DejaVu Sans Mono"  # both come with matplotlib
SMALL = 8.0  # points
_ADVANCE = 0.603  # width of a character of MONO in its size
_POINTS_PER_IN = 72
_SUBPIXELS = 64  # in which FreeType measures
_NOTE_COLUMNS = 150
_FROM_THE_RIGHT = ("R", "AL", "AN")
_TITLE_NAME = 44


def columns_in(width_in: float, size: float = SMALL) -> int:
    """Return how many characters of MONO fit into so many inches."""
    return int(width_in * _POINTS_PER_IN / (size * _ADVANCE))


def fitted(names: Sequence[str | None], columns: int) -> list[str]:
    """Shorten names to so many characters; different ones stay different."""
    return shorten_all([drawable(name or "(no name)") for name in names], columns)


def for_title(name: str | None) -> str:
    """Return a name short enough for a sentence."""
    return fitted([name], _TITLE_NAME)[0]


def drawable(text: str) -> str:
    """Write what the fonts have no glyph for, and what moves the pen or turns its direction, as escapes."""
    return "".join(
        letter if ord(letter) in _glyphs() else letter.encode("unicode_escape").decode()
        for letter in printable(text)
    )


def title_lines(text: str, width_in: float, size: float) -> str:
    """Break a title where the sheet ends; a single word is never that long."""
    font = FT2Font(findfont(FontProperties(family=SANS, weight="bold")))
    font.set_size(size, _POINTS_PER_IN)
    lines = [""]
    for word in drawable(text).split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        font.set_text(longer)
        if font.get_width_height()[0] / _SUBPIXELS <= width_in * _POINTS_PER_IN:
            lines[-1] = longer
        else:
            lines.append(word)
    return "\n".join(lines)


def note_lines(notes: Iterable[str]) -> str:
    """Return notes as small print, each on lines of its own."""
    return "\n".join(textwrap.fill(drawable(note), _NOTE_COLUMNS) for note in notes)


def tick(text: str) -> str:
    """Take the zeros off a round figure: ``1.00 µs`` is 1 µs."""
    return re.sub(r"\.0+(?= )", "", text)


@cache
def _glyphs() -> frozenset[int]:
    sans, mono = (frozenset(FT2Font(findfont(family)).get_charmap()) for family in (SANS, MONO))
    return frozenset(code for code in sans & mono if bidirectional(chr(code)) not in _FROM_THE_RIGHT)
