"""Call a function before the first forward of a module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import module_calls, notes

if TYPE_CHECKING:
    from collections.abc import Callable


def before_first_forward(action: Callable[[], None]) -> None:
    """Call ``action`` once. PyTorch must have been imported."""
    is_compiling = module_calls.is_compiling()
    act = notes.guarded(action)
    called: list[bool] = []

    def make(call: Callable[..., Any]) -> Callable[..., Any]:
        def calling(module: object, *args: Any, **keywords: Any) -> Any:  # noqa: ANN401 - of the forward
            if not is_compiling() and not called:  # in this order: the compiler notes what is read
                called.append(True)
                act()
            return call(module, *args, **keywords)

        return calling

    module_calls.replace(make)
