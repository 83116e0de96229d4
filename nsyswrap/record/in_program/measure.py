"""Time a part of a program in an NVTX range, so that a capture can be compared with the measured time."""

from __future__ import annotations

import atexit
import functools
import importlib
import inspect
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from time import perf_counter_ns
from types import ModuleType, TracebackType
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar, cast

from nsyswrap.base.constants import MEASURE_MARK
from nsyswrap.base.errors import Unavailable
from nsyswrap.base.units import Unit, human

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
# Tools that record NVTX, such as nsys, set one of these variables.
_RECORDERS = ("NVTX_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID")


class MeasuredFunction(Protocol[P, R_co]):
    """A function decorated by `measure`, with the measurements of its calls in the order of their ends."""

    measurements: list[Measurement]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function in its range."""

    def __get__(self, instance: object, owner: type | None = None) -> Any:  # noqa: ANN401 - as functions do
        """Bind the function to an object, as a method."""


class Measurement:
    """The times of one run of a measured part."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._host_ns: int | None = None
        self._cuda_ns: int | None = None
        self._events: tuple[Any, Any] | None = None  # recorded but not read
        self._mark: Callable[[str], object] | None = None

    def __repr__(self) -> str:
        unread = ", events not read" if self._events else ""
        return f"Measurement({self.name!r}, host_ns={self._host_ns}, cuda_ns={self._cuda_ns}{unread})"

    def __str__(self) -> str:
        cuda = "" if self.cuda_ns is None else f", {human(self.cuda_ns, Unit.NS)} between its CUDA events"
        return f"{self.name}: {human(self.host_ns, Unit.NS)}{cuda}"

    @property
    def host_ns(self) -> int:
        """Time between the two time stamps in ns. Raises ValueError while the part runs, or if it raised."""
        if self._host_ns is None:
            raise ValueError(
                f"measurement {self.name!r} has no time: its block has not ended, or raised an exception"
            )
        return self._host_ns

    @property
    def cuda_ns(self) -> int | None:
        """Time between the two CUDA events in ns, with a resolution of about 500 ns; None without events.

        The first access waits until the GPU has passed the second event.
        """
        if self._events:
            start, stop = self._events
            stop.synchronize()
            self._cuda_ns = round(start.elapsed_time(stop) * 1e6)  # elapsed_time is in ms
            self._events = None
            self._write_mark()
        return self._cuda_ns

    def finish(
        self, host_ns: int, events: tuple[Any, Any] | None, mark: Callable[[str], object] | None
    ) -> None:
        """Store the time in ns, the events to read, and the function that writes the mark."""
        self._host_ns, self._events, self._mark = host_ns, events, mark
        if not events:
            self._write_mark()
        elif mark:
            _unread[id(self)] = self

    def _write_mark(self) -> None:
        _unread.pop(id(self), None)
        if self._mark:
            times: dict[str, object] = {"name": self.name, "host_ns": self._host_ns}
            if self._cuda_ns is not None:
                times["cuda_ns"] = self._cuda_ns
            self._mark(MEASURE_MARK + json.dumps(times, separators=(",", ":")))


_unread: dict[int, Measurement] = {}  # measurements whose events are not read and whose marks are not written


@atexit.register
def _read_the_rest() -> None:
    with suppress(RuntimeError):  # from PyTorch, if the GPU failed: there are no times then
        for measurement in list(_unread.values()):
            measurement.cuda_ns  # noqa: B018 - reading it writes the mark


class measure:  # noqa: N801 - used like a function
    """Time a part of a program in an NVTX range: ``with measure("step") as m:`` or ``@measure("step")``.

    ``synchronise`` waits before the stop time stamp. True calls torch.cuda.synchronize for the current
    device; a function is called itself. ``events`` records a CUDA event on PyTorch's current stream at both
    ends. ``show`` prints a line on stderr after the range; with ``events`` it waits until the GPU has passed
    them.

    Each ``with`` gives a new Measurement with ``m.host_ns`` (from time.perf_counter_ns) and ``m.cuda_ns``. A
    decorated function keeps the measurements of its calls in ``.measurements``. Both forms can be nested,
    entered again while open, and shared by threads. If the body raises, the range is closed and there is no
    measurement.

    The order is: open range, start stamp, event, body, event, synchronize, stop stamp, close range. So
    ``host_ns`` includes recording the events. On an AMD EPYC (Python 3.11, package nvtx, no events) an empty
    body measures 0.34 µs and its range is 0.33 µs longer. One measurement costs 4 µs, under nsys 5 to 6 µs.
    An enclosing measurement includes this cost.

    The range is a push/pop range in NVTX' default domain. It is made by torch.cuda.nvtx if a PyTorch for CUDA
    is imported, otherwise by the package nvtx. Without either there is no range. Under nsys an NVTX mark with
    the measurement follows: ``nsyswrap.measure {"name":"step","host_ns":1234}``. With events it also has
    ``cuda_ns``, and is written when they are first read, at the latest when the program ends.

    Raises Unavailable before the body runs if PyTorch or a GPU is needed and missing.
    """

    def __init__(
        self,
        name: str,
        *,
        synchronise: Callable[[], object] | bool | None = None,
        events: bool = False,
        show: bool = False,
    ) -> None:
        if not isinstance(name, str):
            raise TypeError(f'invalid name {name!r}: expected a string, for example @measure("step")')
        self.name = name
        self._synchronise = synchronise
        self._events = events
        self._show = show
        self._open = _Open()

    def __enter__(self) -> Measurement:
        run = self._run()
        measurement = run.__enter__()
        self._open.runs.append(run)
        return measurement

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._open.runs.pop().__exit__(kind, error, trace)

    def __call__(self, function: Callable[P, R_co]) -> MeasuredFunction[P, R_co]:
        """Return the function with each call measured.

        Raises TypeError for a coroutine function or a generator, which works after it has returned.
        """
        if any(test(function) for test in _LATER):
            raise TypeError(
                f"measure cannot decorate {function!r}: coroutines and generators work after the call; "
                "use `with measure(...)` around code without await and yield"
            )

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R_co:
            with self as measurement:
                result = function(*args, **kwargs)
            measured.measurements.append(measurement)
            return result

        measured = cast("MeasuredFunction[P, R_co]", call)
        measured.measurements = []
        return measured

    @contextmanager
    def _run(self) -> Iterator[Measurement]:
        measurement = Measurement(self.name)
        synchronise, events, nvtx = self._synchroniser(), self._new_events(), nvtx_functions()
        nvtx.push(self.name)
        try:
            start = perf_counter_ns()
            if events:
                events[0].record()
            yield measurement
            if events:
                events[1].record()
            if synchronise:
                synchronise()
            host_ns = perf_counter_ns() - start
        finally:
            nvtx.pop()
        measurement.finish(host_ns, events, nvtx.mark if is_recorded() else None)
        if self._show:
            print(measurement, file=sys.stderr)

    def _synchroniser(self) -> Callable[[], object] | None:
        if self._synchronise is True:
            waits: Callable[[], object] = torch_with_gpu("synchronise=True").cuda.synchronize
            return waits
        return self._synchronise or None

    def _new_events(self) -> tuple[Any, Any] | None:
        if not self._events:
            return None
        event = torch_with_gpu("events=True").cuda.Event
        return event(enable_timing=True), event(enable_timing=True)


_LATER = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)


class _Open(threading.local):
    """The open runs of one `measure` on this thread, the innermost last."""

    def __init__(self) -> None:
        self.runs: list[AbstractContextManager[Measurement]] = []


class NvtxCalls(NamedTuple):
    """Functions that open a range, close it and write a mark: default domain, calling thread."""

    push: Callable[[str], object]
    pop: Callable[[], object]
    mark: Callable[[str], object]


def nvtx_functions() -> NvtxCalls:
    """Return the NVTX functions of an imported PyTorch, which keep no texts, or those of the package nvtx."""
    torch_nvtx = sys.modules.get("torch.cuda.nvtx")
    if torch_nvtx and getattr(sys.modules.get("torch.version"), "cuda", None):
        return NvtxCalls(torch_nvtx.range_push, torch_nvtx.range_pop, torch_nvtx.mark)
    return _package()


def is_recorded() -> bool:
    """Return True if a tool records the NVTX marks of this process."""
    return any(name in os.environ for name in _RECORDERS)


@functools.cache
def _package() -> NvtxCalls:
    try:
        package = importlib.import_module("nvtx")
        return NvtxCalls(package.push_range, package.pop_range, package.mark)
    except (ImportError, AttributeError):  # a file or folder of the program may have the package's name
        return NvtxCalls(lambda _: None, lambda: None, lambda _: None)


@functools.cache
def torch_with_gpu(option: str) -> ModuleType:
    """Return PyTorch. Raises Unavailable if it is missing or has no GPU; ``option`` of measure needs it."""
    try:
        module = importlib.import_module("torch")
    except ImportError as error:
        raise Unavailable(
            f"measure({option}) requires PyTorch, which cannot be imported ({error}); install torch"
        ) from error
    if not module.cuda.is_available():
        raise Unavailable(
            f"measure({option}) requires a CUDA GPU, and PyTorch {module.__version__} found none"
        )
    return module
