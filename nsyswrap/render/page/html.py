"""HTML from plain values: every text is escaped on its way in, so that no name in a capture becomes a tag."""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING

from nsyswrap.render.formats.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

_VOID = {"br", "input", "link", "meta"}  # elements that have no end


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(name: str, /, *children: object, **attributes: object) -> Markup:
    """Return one element; children that are no Markup are texts, and None is left out.

    ``data_value`` stands for the attribute ``data-value``, ``class_`` for ``class``. What is None or False is
    left out, and True has no value.
    """
    given = "".join(_attribute(key.strip("_").replace("_", "-"), value) for key, value in attributes.items())
    return Markup(f"<{name}{given}>" + ("" if name in _VOID else f"{joined(children)}</{name}>"))


def joined(children: Iterable[object]) -> Markup:
    """Return children one after another."""
    return Markup("".join(_child(child) for child in children if child is not None))


def plain(text: str) -> str:
    """Write what is no character, or moves or turns the text around it, as an escape."""
    return printable(text).encode("utf-8", "backslashreplace").decode()


def data(value: object, name: str) -> Markup:
    """Return a value for the page's script, as JSON that cannot end its element."""
    content = json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return Markup(f'<script type="application/json" id="{name}">{content}</script>')


def _child(child: object) -> str:
    return child if isinstance(child, Markup) else html.escape(plain(str(child)), quote=False)


def _attribute(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    return f" {key}" if value is True else f' {key}="{html.escape(plain(str(value)))}"'
