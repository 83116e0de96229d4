"""Let PyTorch mark each function of a backward pass, with autograd's number of its forward operation.

PyTorch writes these NVTX ranges itself, as its ``emit_nvtx`` does, but here without its operations: a step
has twenty times as many of them. It also writes those of ``record_function``, as around an optimizer's step.
They are switched on for one thread and the backward passes that it begins. They stay on until the program
ends: PyTorch warns if they are switched off inside of one, as around an optimizer's step, or never.
"""

from __future__ import annotations

import atexit
import functools
import sys
import threading
from typing import TYPE_CHECKING, Any

from . import notes

if TYPE_CHECKING:
    from collections.abc import Callable

_START = ("_prepare_profiler", "_enable_profiler")  # of torch.autograd.profiler
_NO_NVTX = "without CUDA"
_FLAGS = (False,) * 5  # no shapes, memory, stacks, floating-point operations, modules


def numbers() -> Callable[[], int]:
    """Return the function that tells the number of the next operation that autograd records in a thread."""
    numbering: Callable[[], int] = getattr(_autograd(), "_get_sequence_nr", int)  # PyTorch 2.0 lacks it
    return numbering


class Backward:
    """The ranges of the first thread that begins them. PyTorch must have been imported."""

    def __init__(self) -> None:
        self.on = False
        self._is_possible = True
        self._thread = 0

    def begin(self) -> None:
        """Switch the ranges on, unless a profiler of the program runs in this thread."""
        profiler: Any = sys.modules["torch"]._C._profiler  # noqa: SLF001
        self._thread = self._thread or threading.get_ident()
        is_possible = self._is_possible and self._thread == threading.get_ident()
        if not is_possible or _autograd()._profiler_type() != profiler.ActiveProfilerType.NONE:  # noqa: SLF001
            return
        scopes = {profiler.RecordScope.BACKWARD_FUNCTION, profiler.RecordScope.USER_SCOPE}
        if not hasattr(_autograd(), "_get_sequence_nr"):
            scopes = set()  # all of them: operations have the numbers
        config = profiler.ProfilerConfig(profiler.ProfilerState.NVTX, *_FLAGS, profiler._ExperimentalConfig())  # noqa: SLF001
        try:
            _autograd()._enable_profiler(config, set(), scopes)  # noqa: SLF001
        except RuntimeError as error:
            self._is_possible = False
            if _NO_NVTX not in str(error):
                raise
        else:
            self.on = True

    def end(self) -> None:
        """Switch them off, if they are on in this thread."""
        if self.on and self._thread == threading.get_ident():
            self.on = False
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
