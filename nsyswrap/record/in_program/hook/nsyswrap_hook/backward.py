"""Let PyTorch mark each function of a backward pass, with autograd's number of its forward operation.

PyTorch writes these NVTX ranges itself, as its ``emit_nvtx`` does. In the first steps it also writes its
operations with the shapes of their inputs. Later it does not: a step has twenty times as many of them. It
also writes ranges of ``record_function``, as around an optimizer's step. They are switched on for one thread
and the backward passes that it begins. They stay on until the program ends: PyTorch warns if they are
switched off inside of one, as around an optimizer's step, or never. Switching to others at once does no harm.
"""

from __future__ import annotations

import atexit
import functools
import sys
import threading
from typing import TYPE_CHECKING, Any

from . import notes, steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_START = ("_prepare_profiler", "_enable_profiler")  # of torch.autograd.profiler
_NO_NVTX = "without CUDA"
_FLAGS = (False,) * 4  # no memory, stacks, floating-point operations, modules
_MOST_CALLS = 16  # of outermost modules with shapes, where no step ends
_CALLS, _MOST_SHAPES = 2, 16  # of a module with new shapes after these, and so many different ones


def numbers() -> Callable[[], int]:
    """Return the function that tells the number of the next operation that autograd records in a thread."""
    numbering: Callable[[], int] = getattr(_autograd(), "_get_sequence_nr", int)  # PyTorch 2.0 lacks it
    return numbering


class BackwardRanges:
    """The ranges of the first thread that begins them. PyTorch must have been imported."""

    def __init__(self, shapes_end: Callable[[], None]) -> None:
        self._shapes_end = shapes_end
        self._on = self._with_shapes = False
        self._is_possible = True
        self._thread = 0
        self._calls: dict[tuple[Any, ...], int] = {}  # of an outermost module with inputs of these shapes
        self._last_step: int | None = None  # with shapes

    def begin(self, module: Any, inputs: Iterable[Any]) -> None:  # noqa: ANN401 - no types without torch
        """Switch the ranges on, with shapes or without; each call of an outermost module does so.

        While a profiler of the program runs in this thread, they stay off.
        """
        self._thread = self._thread or threading.get_ident()
        if not self._is_possible or self._thread != threading.get_ident():
            return
        shapes, had_shapes = self._wants_shapes(module, inputs), self._on and self._with_shapes
        if self._on and shapes == had_shapes:
            return
        if self._on:
            self._disable()
        elif _autograd()._profiler_type() != _profiler().ActiveProfilerType.NONE:  # noqa: SLF001
            return
        self._enable(shapes=shapes)
        if had_shapes:
            self._shapes_end()

    def _wants_shapes(self, module: Any, inputs: Iterable[Any]) -> bool:  # noqa: ANN401 - no types without torch
        """Return True in the first steps; where no step ends, for inputs of new shapes."""
        if self._last_step is None:  # the first step of all loads kernels and chooses them
            self._last_step = max(steps.current(), 1)
        if steps.current() > self._last_step:
            return False
        tensor = sys.modules["torch"].Tensor
        key = (id(module), *(str(value.shape) for value in inputs if isinstance(value, tensor)))
        count = self._calls.get(key, 0)
        if count or len(self._calls) < _MOST_SHAPES:
            self._calls[key] = count + 1
        return sum(self._calls.values()) <= _MOST_CALLS or (key in self._calls and count < _CALLS)

    def settle(self) -> None:
        """Switch from ranges with shapes to those without, in the thread that has them."""
        if self._on and self._with_shapes and self._thread == threading.get_ident():
            self._disable()
            self._enable(shapes=False)

    def _enable(self, *, shapes: bool) -> None:
        profiler = _profiler()
        scopes = {profiler.RecordScope.BACKWARD_FUNCTION, profiler.RecordScope.USER_SCOPE}
        if shapes or not hasattr(_autograd(), "_get_sequence_nr"):
            scopes = set()  # all of them: operations have the numbers
        config = (profiler.ProfilerState.NVTX, shapes, *_FLAGS, profiler._ExperimentalConfig())  # noqa: SLF001
        try:
            _autograd()._enable_profiler(profiler.ProfilerConfig(*config), set(), scopes)  # noqa: SLF001
        except RuntimeError as error:
            self._is_possible = False
            if _NO_NVTX not in str(error):
                raise
        else:
            self._on, self._with_shapes = True, shapes

    def end(self) -> None:
        """Switch them off, if they are on in this thread."""
        if self._on and self._thread == threading.get_ident():
            self._disable()

    def _disable(self) -> None:
        self._on = False
        _autograd()._disable_profiler()  # noqa: SLF001

    def give_way(self) -> None:
        """End them with the program, or where it starts a profiler of its own: PyTorch would refuse two."""
        atexit.register(notes.guarded(self.end))
        profiler: Any = sys.modules["torch.autograd.profiler"]
        for name in _START:
            if hasattr(profiler, name):
                setattr(profiler, name, self._ending(getattr(profiler, name)))

    def _ending(self, start: Callable[..., Any]) -> Callable[..., Any]:
        end = notes.guarded(self.end)

        @functools.wraps(start)
        def starting(*args: Any, **keywords: Any) -> Any:  # noqa: ANN401
            end()
            return start(*args, **keywords)

        return starting


def _autograd() -> Any:  # noqa: ANN401 - no types without torch
    return sys.modules["torch"]._C._autograd  # noqa: SLF001


def _profiler() -> Any:  # noqa: ANN401 - no types without torch
    return sys.modules["torch"]._C._profiler  # noqa: SLF001
