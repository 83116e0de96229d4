"""The part of the program that is recorded: what must be switched on and off with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import notes

if TYPE_CHECKING:
    from collections.abc import Callable

_on_open: list[Callable[[], None]] = []
_on_close: list[Callable[[], None]] = []
_state = {"open": False}


def is_open() -> bool:
    """Return True inside the recorded part."""
    return _state["open"]


def when_open(begin: Callable[[], None], end: Callable[[], None]) -> None:
    """Call ``begin`` when the recorded part begins (at once if it has), and ``end`` when it ends."""
    _on_open.append(notes.guarded(begin))
    _on_close.insert(0, notes.guarded(end))
    if _state["open"]:
        _on_open[-1]()


def open_part() -> None:
    """Begin the recorded part."""
    if not _state["open"]:
        _state["open"] = True
        for begin in _on_open:
            begin()


def close_part() -> None:
    """End the recorded part."""
    if _state["open"]:
        _state["open"] = False
        for end in _on_close:
            end()
