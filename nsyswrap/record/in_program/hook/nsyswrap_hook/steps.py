"""Number the steps of the program, mark each with an NVTX range, and open and close the recorded part.

A step ends where its optimizers have stepped, or at what the user names; the next one begins there. Numbers
begin at 0. The recorded part is a range, too, at which nsys starts and stops.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
from typing import TYPE_CHECKING

from . import notes, nvtx

if TYPE_CHECKING:
    from collections.abc import Callable

DOMAIN = "nsyswrap"
# What is switched on and off with the recorded part.
_on_open: list[Callable[[], None]] = []
_on_close: list[Callable[[], None]] = []
_state = {"open": False, "step": 0}


class StepRecorder:
    """The steps of this process. ``first`` and ``last`` are the steps to record; None: everything is."""

    def __init__(self, first: int | None = None, last: int | None = None) -> None:
        self._first, self._last = first, last
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._number = -1  # the step that has begun
        self._range = self._recorded_range = 0  # numbers of the open ranges, 0: none
        self._closed = False
        self._count = notes.counter()
        atexit.register(notes.guarded(self._note))
        if first is None:
            open_part()

    @property
    def begun(self) -> bool:
        """True if step 0 has begun."""
        return self._number >= 0

    @property
    def wants_first(self) -> bool:
        """True if step 0 is recorded, so that its beginning matters."""
        return not self._first

    def begin(self) -> None:
        """Begin step 0, unless it has begun."""
        with self._lock:
            if not self.begun:
                self._begin(0)

    def end(self, count: int = 1) -> None:
        """End the current step and begin the next; ``count``: this many steps are known to have ended."""
        if count < 1 or os.getpid() != self._process:  # a forked worker steps for itself
            return
        with self._lock:
            if not self.begun:
                notes.add(unseen_start=True)
                self._begin(0)
            if self._range:
                nvtx.domain(DOMAIN).end(self._range)
                self._range = 0
            ended = self._number + count - 1
            if self._last is not None and ended >= self._last:
                self._close(ended)
            self._begin(ended + 1)
            self._count[:] = self._number.to_bytes(len(self._count), "little")

    def _begin(self, number: int) -> None:
        self._number = _state["step"] = number
        if self._first is not None and self._last is not None and self._first <= number <= self._last:
            self._open(number)
        if is_open():
            self._range = nvtx.domain(DOMAIN).start(f"step {number}")

    def _open(self, number: int) -> None:
        if self._recorded_range or self._closed:
            return
        drain()
        notes.add(steps=number, first=number)
        # nsys starts to record
        self._recorded_range = nvtx.domain(DOMAIN).start(f"steps {self._first}-{self._last}")
        open_part()

    def _close(self, ended: int) -> None:
        if self._closed:
            return
        self._closed = True
        if self._recorded_range:
            close_part()
            drain()
            notes.add(steps=ended + 1, last=ended)
            nvtx.domain(DOMAIN).end(self._recorded_range)  # nsys stops, and can end the program
            self._recorded_range = 0

    def _note(self) -> None:
        if os.getpid() == self._process:
            notes.add(steps=max(self._number, 0))


def drain() -> None:
    """Wait until the GPU has done all work of this process, so that no kernel is on the wrong side."""
    try:
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        if cuda is not None and cuda.is_initialized():
            for device in range(cuda.device_count()):
                has_context = getattr(sys.modules["torch"]._C, "_cuda_hasPrimaryContext", None)  # noqa: SLF001
                if has_context is None or bool(has_context(device)):
                    cuda.synchronize(device)
        else:  # the program may use CUDA in another way
            ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_NOW).cuCtxSynchronize()
    except (OSError, AttributeError, RuntimeError) as error:
        if not isinstance(error, OSError):  # libcuda is not loaded
            notes.failed(error)


def is_open() -> bool:
    """Return True inside the recorded part."""
    return bool(_state["open"])


def current() -> int:
    """Return the number of the step that has begun, 0 before the first one."""
    return _state["step"]


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
