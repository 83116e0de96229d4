"""Call a function before the first forward of a module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import forward_hooks, notes

if TYPE_CHECKING:
    from collections.abc import Callable


def before_first_forward(action: Callable[[], None]) -> None:
    """Call ``action`` once. PyTorch must have been imported."""
    is_compiling = forward_hooks.is_compiling()
    called: list[bool] = []

    def before(_module: object, _args: object) -> None:
        if not is_compiling() and not called:  # in this order: the compiler notes what is read
            called.append(True)
            action()

    forward_hooks.add(notes.guarded(before))
