"""nsyswrap.measure: what it does in which order, by clocks and NVTX that note every call."""

import asyncio
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

import pytest
from waiting import PATIENCE_S

from nsyswrap import measure
from nsyswrap.base.errors import Unavailable
from nsyswrap.record.in_program import measure as measurement
from nsyswrap.record.in_program.measure import Measurement


class Told:
    """Clock, NVTX and PyTorch that note every call in `calls`. The clock goes on by 1 ms each time."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.now_ns = 0

    def note(self, *said: str) -> None:
        self.calls.append(" ".join(said))

    def clock(self) -> int:
        self.note("clock")
        self.now_ns += 1_000_000
        return self.now_ns

    def nvtx(self, name: str, push: str, pop: str) -> ModuleType:
        module: Any = ModuleType(name)
        setattr(module, push, lambda text: self.note("push", text))
        setattr(module, pop, lambda: self.note("pop"))
        module.mark = lambda text: self.note("mark", text)
        return module  # type: ignore[no-any-return]

    def event(self, *, enable_timing: bool) -> SimpleNamespace:
        assert enable_timing
        return SimpleNamespace(
            record=lambda: self.note("record"),
            synchronize=lambda: self.note("wait"),
            elapsed_time=lambda _: 0.0125,  # ms
        )

    def torch(self) -> SimpleNamespace:
        cuda = SimpleNamespace(
            is_available=lambda: True, synchronize=lambda: self.note("synchronise"), Event=self.event
        )
        return SimpleNamespace(cuda=cuda, __version__="2.9")


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    """A process under a profiler, with PyTorch and the package nvtx."""
    found = Told()
    monkeypatch.setenv("NVTX_INJECTION64_PATH", "profiler.so")
    monkeypatch.delenv("NSYS_PROFILING_SESSION_ID", raising=False)
    monkeypatch.setattr(measurement, "perf_counter_ns", found.clock)
    monkeypatch.setitem(sys.modules, "nvtx", found.nvtx("nvtx", "push_range", "pop_range"))
    monkeypatch.setitem(sys.modules, "torch", found.torch())
    monkeypatch.delitem(sys.modules, "torch.version", raising=False)
    looked_up = (measurement._package, measurement.torch_with_gpu)  # noqa: SLF001 - remembered for the process
    for function in looked_up:
        function.cache_clear()
    yield found
    for function in looked_up:
        function.cache_clear()


MARK = 'mark nsyswrap.measure {"name":"a","host_ns":1000000%s}'


# In which order


def test_the_range_holds_the_stamps_and_little_else(told: Told) -> None:
    with measure("a") as m:
        told.note("body")
    assert told.calls == ["push a", "clock", "body", "clock", "pop", MARK % ""]
    assert (m.name, m.host_ns, m.cuda_ns) == ("a", 1_000_000, None)


def test_everything_asked_for_at_once(told: Told) -> None:
    with measure("a", synchronise=True, events=True) as m:
        told.note("body")
    inside = ["push a", "clock", "record", "body", "record", "synchronise", "clock", "pop"]
    assert told.calls == inside  # the GPU may still be at it: nobody waits, nothing is marked
    assert [m.cuda_ns, m.cuda_ns] == [12_500, 12_500]
    assert told.calls == [*inside, "wait", MARK % ',"cuda_ns":12500']
    assert not measurement._unread  # noqa: SLF001 - what was read is not kept


def test_what_to_wait_for_can_be_any_function(told: Told) -> None:
    with measure("a", synchronise=lambda: told.note("drain")):
        told.note("body")
    assert told.calls[2:5] == ["body", "drain", "clock"]


def test_events_that_nobody_reads_are_marked_in_the_end(told: Told) -> None:
    for _ in range(2):
        with measure("a", events=True):
            pass
    measurement._read_the_rest()  # noqa: SLF001 - what atexit calls
    assert told.calls[-4:] == 2 * ["wait", MARK % ',"cuda_ns":12500']
    measurement._read_the_rest()  # noqa: SLF001
    assert told.calls.count("wait") == 2


def test_without_a_profiler_nothing_is_marked_or_kept(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NVTX_INJECTION64_PATH")
    with measure("a", events=True) as m:
        pass
    measurement._read_the_rest()  # noqa: SLF001
    assert told.calls[-1] == "pop"
    assert m.cuda_ns == 12_500
    assert told.calls[-1] == "wait"


def test_pytorch_marks_the_range_where_it_can(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "nvtx")
    monkeypatch.setitem(sys.modules, "torch.version", SimpleNamespace(cuda="13.0"))
    monkeypatch.setitem(
        sys.modules, "torch.cuda.nvtx", told.nvtx("torch.cuda.nvtx", "range_push", "range_pop")
    )
    with measure("a"):
        pass
    assert told.calls == ["push a", "clock", "clock", "pop", MARK % ""]


def test_another_module_of_the_name_nvtx_gives_no_range(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvtx", ModuleType("nvtx"))
    monkeypatch.delitem(sys.modules, "torch.cuda.nvtx", raising=False)
    with measure("a"):
        pass
    assert told.calls == ["clock", "clock"]


def test_what_is_shown(told: Told, capsys: pytest.CaptureFixture[str]) -> None:
    with measure("a", show=True):
        pass
    with measure("a", show=True, events=True):
        pass
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "a: 1.00 ms\na: 1.00 ms, 12.5 µs between its CUDA events\n"
    assert told.calls[-2:] == ["wait", MARK % ',"cuda_ns":12500']


# Errors


@pytest.mark.parametrize("raises", ["body", "synchronise"])
def test_an_error_passes_through_a_closed_range_and_is_no_measurement(told: Told, raises: str) -> None:
    def fail() -> NoReturn:
        raise ZeroDivisionError

    body = fail if raises == "body" else told.clock
    failing = measure("a", synchronise=fail)(body)
    with pytest.raises(ZeroDivisionError):
        failing()
    assert failing.measurements == []
    assert told.calls[:2] == ["push a", "clock"]
    assert told.calls[-1] == "pop"  # and no mark

    seen: list[Measurement] = []
    with suppress(ZeroDivisionError), measure("a", synchronise=fail) as m:
        seen.append(m)
        body()
    with pytest.raises(ValueError, match="'a' has no time"):
        assert seen[0].host_ns


@pytest.mark.parametrize("asked", ["synchronise", "events"])
def test_what_is_missing_is_told_before_the_body(
    told: Told, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    part = measure("a", **{asked: True})
    without_gpu = told.torch()
    without_gpu.cuda.is_available = lambda: False
    for torch, complaint in (
        (None, "requires PyTorch, which cannot be imported .*; install torch"),
        (without_gpu, "requires a CUDA GPU"),
    ):
        monkeypatch.setitem(sys.modules, "torch", torch)
        with pytest.raises(Unavailable, match=rf"^measure\({asked}=True\) .*{complaint}"), part:
            told.note("body")
    assert told.calls == []


def test_a_decorator_without_a_name_is_told() -> None:
    with pytest.raises(TypeError, match=r"invalid name .*: expected a string"):
        measure(len)  # type: ignore[arg-type]


# Several at once


def test_nested_and_entered_again(told: Told) -> None:
    timer = measure("a")
    with timer as outer, timer as inner, measure("b"):
        pass
    spans = [call for call in told.calls if not call.startswith("mark")]
    assert spans == [*["push a", "clock"] * 2, "push b", "clock", *["clock", "pop"] * 3]
    assert (outer.host_ns, inner.host_ns) == (5_000_000, 3_000_000)


@pytest.mark.usefixtures("told")
def test_threads_can_share_one() -> None:
    """One thread enters, then another; the first leaves, then the other."""
    timer, entered, left = measure("a"), threading.Event(), threading.Event()
    with ThreadPoolExecutor(max_workers=1) as other:

        def run() -> Measurement:
            with timer as m:
                entered.set()
                assert left.wait(PATIENCE_S)
            return m

        with timer as first:
            later = other.submit(run)
            assert entered.wait(PATIENCE_S)
        left.set()
        assert (first.host_ns, later.result().host_ns) == (2_000_000, 2_000_000)


# The decorator


@pytest.mark.usefixtures("told")
def test_a_function_keeps_its_name_and_collects_its_calls() -> None:
    class Model:
        @measure("a")
        def power(self, base: int, *, exponent: int) -> int:
            """Multiply again and again."""
            return base * self.power(base, exponent=exponent - 1) if exponent else 1

    assert Model().power(2, exponent=2) == 4
    assert (Model.power.__name__, Model.power.__doc__) == ("power", "Multiply again and again.")
    # innermost first
    assert [m.host_ns for m in Model.power.measurements] == [1_000_000, 3_000_000, 5_000_000]


async def coroutine() -> None:
    await asyncio.sleep(0)


def generator() -> Iterator[int]:
    yield 1


async def asynchronous_generator() -> Any:  # noqa: ANN401
    yield 1


@pytest.mark.parametrize("function", [coroutine, generator, asynchronous_generator])
def test_what_works_after_its_call_is_refused(function: Any) -> None:  # noqa: ANN401
    with pytest.raises(TypeError, match=f"cannot decorate .*{function.__name__}.*without await and yield"):
        measure("a")(function)
