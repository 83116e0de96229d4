"""Call a function before the first forward of a module."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

from . import notes

if TYPE_CHECKING:
    from collections.abc import Callable


def before_first_forward(action: Callable[[], None]) -> None:
    """Call ``action`` once. PyTorch must have been imported."""
    torch: Any = sys.modules["torch"]
    is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", bool)
    # A compiled module warns of global hooks, which can fire twice. This one acts once.
    warnings.filterwarnings("ignore", r"Using `torch\.compile\(module\)` when there are global hooks")

    called: list[bool] = []

    def before(_module: object, _args: object) -> None:
        if not is_compiling() and not called:  # in this order: the compiler notes what is read
            called.append(True)
            action()

    # The hook stays: the compiler would compile again without it.
    torch.nn.modules.module.register_module_forward_pre_hook(notes.guarded(before))
