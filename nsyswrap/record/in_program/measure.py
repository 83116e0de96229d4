"""Timing a part of a program so that a capture of it can be held against what was measured."""

from __future__ import annotations

import atexit
import functools
import inspect
import json
import sys
import threading
from contextlib import contextmanager, suppress
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, cast

from nsyswrap.base.marks import MEASURE_MARK
from nsyswrap.base.units import Unit, human
from nsyswrap.record.in_program import instruments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import TracebackType

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class Measured(Protocol[P, R_co]):
    """A function that `measure` decorates, with its finished calls in the order they ended."""

    measurements: list[Measurement]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call it, in its range."""

    def __get__(self, instance: object, owner: type | None = None) -> Any:  # noqa: ANN401 - as functions do
        """Bind it to an object: it may be a method."""


class Measurement:
    """What one run of a measured part took."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._host_ns: int | None = None
        self._cuda_ns: int | None = None
        self._events: tuple[Any, Any] | None = None  # recorded, and not read
        self._mark: Callable[[str], object] | None = None

    def __repr__(self) -> str:
        unread = ", events not read" if self._events else ""
        return f"Measurement({self.name!r}, host_ns={self._host_ns}, cuda_ns={self._cuda_ns}{unread})"

    def __str__(self) -> str:
        cuda = "" if self.cuda_ns is None else f", {human(self.cuda_ns, Unit.NS)} between its CUDA events"
        return f"{self.name}: {human(self.host_ns, Unit.NS)}{cuda}"

    @property
    def host_ns(self) -> int:
        """Time between the two stamps in ns. Raises ValueError while it runs, and where it raised."""
        if self._host_ns is None:
            raise ValueError(f"{self.name!r} has no time: it has not ended, or it raised")
        return self._host_ns

    @property
    def cuda_ns(self) -> int | None:
        """Time between the two CUDA events in ns, which resolve about 500; None where there are none.

        The first reading waits until the GPU has passed the second event.
        """
        if self._events:
            start, stop = self._events
            stop.synchronize()
            self._cuda_ns = round(start.elapsed_time(stop) * 1e6)  # in ms
            self._events = None
            self._write_mark()
        return self._cuda_ns

    def finish(
        self, host_ns: int, events: tuple[Any, Any] | None, mark: Callable[[str], object] | None
    ) -> None:
        """Take the time, the events that are to be read, and what marks it all once it is known."""
        self._host_ns, self._events, self._mark = host_ns, events, mark
        if not events:
            self._write_mark()
        elif mark:
            _unread[id(self)] = self

    def _write_mark(self) -> None:
        _unread.pop(id(self), None)
        if self._mark:
            said: dict[str, object] = {"name": self.name, "host_ns": self._host_ns}
            if self._cuda_ns is not None:
                said["cuda_ns"] = self._cuda_ns
            self._mark(MEASURE_MARK + json.dumps(said, separators=(",", ":")))


_unread: dict[int, Measurement] = {}  # that wait for their events to be read, and for their marks


@atexit.register
def _read_the_rest() -> None:
    with suppress(RuntimeError):  # PyTorch's, where the GPU failed: then there are no times
        for measurement in list(_unread.values()):
            measurement.cuda_ns  # noqa: B018 - reading it marks it


class measure:  # noqa: N801 - used as a function is
    """Time a part of a program in an NVTX range: ``with measure("step") as m:`` or ``@measure("step")``.

    ``synchronise`` waits before the stop stamp: True by torch.cuda.synchronize (the current device), else
    by calling it. ``events`` records a CUDA event on PyTorch's current stream at either end. ``show`` prints
    a line on stderr after the range, with ``events`` once the GPU has passed them.

    ``with`` gives a new Measurement each time: ``m.host_ns`` (time.perf_counter_ns) and ``m.cuda_ns``. A
    decorated function keeps those of its calls in ``.measurements``. Both can be nested, entered again
    while open, and shared by threads. A body that raises has its range closed, and no measurement.

    What happens, in this order: range opened, start stamp, event, body, event, synchronise, stop stamp,
    range closed. Recording the events is therefore part of ``host_ns``. On an AMD EPYC (Python 3.11, package
    nvtx, no events) an empty body has 0.34 µs, its range 0.33 µs more; all in all a measurement takes
    4 µs, under nsys 5 to 6, which one around it has in its time.

    The range is a push/pop range in NVTX' default domain, by torch.cuda.nvtx where a PyTorch for CUDA was
    imported, else by the package nvtx; without either there is none. Under nsys an NVTX mark follows that
    says what was measured: ``nsyswrap.measure {"name":"step","host_ns":1234}``, with ``cuda_ns`` where there
    are events, and then when they are first read: at the latest when the program ends.

    Raises Unavailable, before the body runs, where PyTorch or a GPU is needed and missing.
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
            raise TypeError(f'measure takes a name first, as in @measure("step"): {name!r} is none')
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

    def __call__(self, function: Callable[P, R_co]) -> Measured[P, R_co]:
        """Return the function measured; raises TypeError for one that does its work after it returned."""
        if any(test(function) for test in _LATER):
            raise TypeError(
                f"measure cannot decorate {function!r}: its work is done after the call, between that of "
                "others; put `with measure(...)` around what has no await and no yield"
            )

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R_co:
            with self as measurement:
                result = function(*args, **kwargs)
            measured.measurements.append(measurement)
            return result

        measured = cast("Measured[P, R_co]", call)
        measured.measurements = []
        return measured

    @contextmanager
    def _run(self) -> Iterator[Measurement]:
        measurement = Measurement(self.name)
        synchronise, events, nvtx = self._synchroniser(), self._new_events(), instruments.nvtx()
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
        measurement.finish(host_ns, events, nvtx.mark if instruments.recorded() else None)
        if self._show:
            print(measurement, file=sys.stderr)

    def _synchroniser(self) -> Callable[[], object] | None:
        if self._synchronise is True:
            waits: Callable[[], object] = instruments.torch("synchronise=True").cuda.synchronize
            return waits
        return self._synchronise or None

    def _new_events(self) -> tuple[Any, Any] | None:
        if not self._events:
            return None
        event = instruments.torch("events=True").cuda.Event
        return event(enable_timing=True), event(enable_timing=True)


_LATER = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)


class _Open(threading.local):
    """The runs of one `measure` that a thread has open, the innermost last."""

    def __init__(self) -> None:
        self.runs: list[AbstractContextManager[Measurement]] = []
