"""Act around the call of every module, and leave torch.compile as it is without that.

PyTorch's own hooks for all modules cost more: with any of them each call takes a longer way. What stands here
stays until the program ends. It must do nothing while ``is_compiling()`` is true, which has to be the first
thing that it asks. The compiler, imported later, takes it for PyTorch's own and goes straight to the forward.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from . import imports, notes

if TYPE_CHECKING:
    from collections.abc import Callable

_COMPILER = "torch._dynamo.eval_frame"


def replace(make: Callable[[Callable[..., Any]], Any]) -> None:
    """Put what ``make`` returns in the place of the function that it is given: it calls a module.

    Both take the module and the arguments of its forward. PyTorch must have been imported.
    """
    kind: Any = sys.modules["torch"].nn.Module
    original = kind.__call__
    call = functools.wraps(original)(make(original))
    kind.__call__ = call
    imports.after_import(_COMPILER, functools.partial(_leave_out, call))


def before_first_forward(action: Callable[[], None]) -> None:
    """Call ``action`` once, before the first forward of a module. PyTorch must have been imported."""
    is_compiling_now = is_compiling()
    act = notes.guarded(action)
    called: list[bool] = []

    def make(call: Callable[..., Any]) -> Callable[..., Any]:
        def calling(module: object, *args: Any, **keywords: Any) -> Any:  # noqa: ANN401 - of the forward
            if not is_compiling_now() and not called:  # in this order: the compiler notes what is read
                called.append(True)
                act()
            return call(module, *args, **keywords)

        return calling

    replace(make)


def is_compiling() -> Callable[[], bool]:
    """Return the function that tells whether torch.compile reads the code that asks."""
    compiler = getattr(sys.modules["torch"], "compiler", None)
    found: Callable[[], bool] = getattr(compiler, "is_compiling", bool)
    return found


def _leave_out(function: Any) -> None:  # noqa: ANN401 - with attributes
    """Keep torch.compile from compiling ``function`` itself, where it runs around what is compiled."""
    sys.modules[_COMPILER].skip_code(function.__code__)
