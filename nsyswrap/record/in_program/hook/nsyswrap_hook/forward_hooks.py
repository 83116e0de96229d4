"""Call functions around the forward of every module, and leave torch.compile as it is without them.

They stay until the program ends: torch.compile would compile again if a hook came or went. They must do
nothing while ``is_compiling()`` is true, which has to be the first thing that they ask.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from . import imports

if TYPE_CHECKING:
    from collections.abc import Callable

_COMPILER = "torch._dynamo.eval_frame"
_TABLES = ("forward_pre_hooks", "forward_hooks", "backward_pre_hooks", "backward_hooks")
_own: set[int] = set()


def add(before: Callable[..., None], after: Callable[..., None] | None = None) -> None:
    """Call ``before(module, args)`` and ``after(module, args, output)``, this also after an exception."""
    module: Any = sys.modules["torch"].nn.modules.module
    _own.add(module.register_module_forward_pre_hook(before).id)
    if after:
        _own.add(module.register_module_forward_hook(after, always_call=True).id)
    if hasattr(module, "_has_any_global_hook"):
        module._has_any_global_hook = functools.partial(_has_others, module)  # noqa: SLF001
    for function in filter(None, (before, after)):
        imports.after_import(_COMPILER, functools.partial(_leave_out, function))


def is_compiling() -> Callable[[], bool]:
    """Return the function that tells whether torch.compile reads the code that asks."""
    compiler = getattr(sys.modules["torch"], "compiler", None)
    found: Callable[[], bool] = getattr(compiler, "is_compiling", bool)
    return found


def _has_others(module: Any) -> bool:  # noqa: ANN401 - no types without torch
    """Return True if there are hooks of the program: each call of a compiled module warns of them."""
    return any(number not in _own for name in _TABLES for number in getattr(module, f"_global_{name}", ()))


def _leave_out(function: Any) -> None:  # noqa: ANN401 - with attributes
    """Keep torch.compile from compiling a hook itself, where it runs around what is compiled."""
    while function is not None:
        sys.modules[_COMPILER].skip_code(function.__code__)
        function = getattr(function, "__wrapped__", None)
