"""The clocks without a GPU: what each clock does in which order, and how many samples it takes."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import Cli
from scenario_scripts import torch_on_cpu

from nsyswrap.record.in_program import clocks
from nsyswrap.record.in_program import script as experiment
from nsyswrap.record.in_program.clocks import STAYS_OFF, kernels_us

NSYS_VARIABLES = ("NSYS_PROFILING_SESSION_ID", "QUADD_INJECTION_PROXY")


class FakeTorch:
    """Stands for torch, and notes every call. Its events are recorded at 1, 4, 9, ... ms.

    ``kernels_us``: what its torch.profiler says it saw.
    """

    def __init__(self, kernels_us: list[float] | None = None) -> None:
        self.calls: list[str] = []
        self.recorded = 0
        nvtx = SimpleNamespace(range=self.span)
        self.cuda = SimpleNamespace(synchronize=lambda: self.note("synchronise"), nvtx=nvtx, Event=self.event)
        self.autograd = SimpleNamespace(DeviceType=SimpleNamespace(CUDA="cuda", CPU="cpu"))
        activity = SimpleNamespace(CPU="cpu", CUDA="cuda")
        self.profiler = SimpleNamespace(ProfilerActivity=activity, profile=self.profile)
        self.kernels_us = kernels_us or []

    def note(self, call: str) -> None:
        self.calls.append(call)

    def operation(self) -> Any:  # noqa: ANN401 - torch is not installed for the type checker
        self.note("operation")

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        self.note(f"open {name}")
        yield
        self.note(f"close {name}")

    def event(self, *, enable_timing: bool) -> SimpleNamespace:
        assert enable_timing
        event = SimpleNamespace()

        def record() -> None:
            self.note("record")
            self.recorded += 1
            event.ms = self.recorded**2

        event.record = record
        event.elapsed_time = lambda later: later.ms - event.ms
        return event

    @contextmanager
    def profile(self, *, activities: list[str], record_shapes: bool) -> Iterator[SimpleNamespace]:
        assert activities == ["cpu", "cuda"]
        assert record_shapes
        self.note("profiler on")
        seen = [profiled("kernel", start, us) for start, us in enumerate(self.kernels_us)]
        others = [profiled("aten::mul", 0, 500, "cpu"), profiled("Memcpy HtoD", 0, 700)]
        # torch.profiler does not promise an order.
        yield SimpleNamespace(events=lambda: [*others, *reversed(seen)])
        self.note("profiler off")


def profiled(name: str, start: int, us: float, device: str = "cuda") -> SimpleNamespace:
    span = SimpleNamespace(start=start, elapsed_us=lambda: us)
    return SimpleNamespace(name=name, device_type=device, time_range=span)


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> FakeTorch:
    """A torch whose calls are noted together with those of time.perf_counter: a second from call to call."""
    torch = FakeTorch()

    def perf_counter() -> float:
        torch.note("stamp")
        return float(torch.calls.count("stamp"))

    monkeypatch.setattr(clocks, "time", SimpleNamespace(perf_counter=perf_counter))
    return torch


def timed(torch: Any, clock: str, *, warmup: int = 1, iterations: int = 2) -> experiment.Timing:  # noqa: ANN401
    return clocks.time_operation(
        torch,
        torch.operation,
        variant="fast",
        operator="a * b",
        warmup=warmup,
        iterations=iterations,
        clock=clock,
    )


WARM_UP = ["open warm-up fast/a * b", "operation", "close warm-up fast/a * b", "synchronise"]


def in_range(*calls: str) -> list[str]:
    return ["open fast/a * b", *calls, "close fast/a * b"]


# Each clock


def test_sync_waits_before_it_stops(ticking: FakeTorch) -> None:
    timing = timed(ticking, "sync")
    iteration = in_range("stamp", "operation", "synchronise", "stamp")
    assert ticking.calls == [*WARM_UP, *iteration, *iteration, "synchronise"]
    assert timing["samples_us"] == [1e6, 1e6]


def test_nosync_waits_when_all_samples_are_taken(ticking: FakeTorch) -> None:
    timing = timed(ticking, "nosync")
    iteration = in_range("stamp", "operation", "stamp")
    assert ticking.calls == [*WARM_UP, *iteration, *iteration, "synchronise"]
    assert timing["samples_us"] == [1e6, 1e6]


def test_events_are_read_when_all_are_recorded(ticking: FakeTorch) -> None:
    timing = timed(ticking, "event")
    iteration = in_range("record", "operation", "record")
    assert ticking.calls == [*WARM_UP, *iteration, *iteration, "synchronise", "synchronise"]
    # Recorded at 1, 4, 9 and 16 ms.
    assert timing["samples_us"] == [3e3, 7e3]


def test_the_profiler_is_on_for_the_samples_alone() -> None:
    torch = FakeTorch(kernels_us=[1.0, 2.0])
    timing = timed(torch, "profiler")
    iteration = in_range("operation")
    profiled_calls = ["profiler on", *iteration, *iteration, "synchronise", "profiler off"]
    assert torch.calls == [*WARM_UP, *profiled_calls, "synchronise"]
    assert timing["samples_us"] == [1.0, 2.0]


def test_a_sample_of_the_profiler_is_the_sum_of_the_kernels_of_one_iteration() -> None:
    torch = FakeTorch(kernels_us=[1.0, 2.0, 30.0, 40.0])
    assert timed(torch, "profiler")["samples_us"] == [3.0, 70.0]


@pytest.mark.parametrize("kernels_us", [[], [1.0], [1.0, 2.0, 3.0]])
def test_kernels_that_do_not_fit_the_iterations_are_an_error(kernels_us: list[float]) -> None:
    with pytest.raises(AssertionError, match=f"saw {len(kernels_us)} kernels in 2 iterations of fast/a"):
        timed(FakeTorch(kernels_us), "profiler")


@pytest.mark.parametrize("clock", clocks.CLOCKS)
@pytest.mark.parametrize("warmup", [0, 3])
def test_every_clock_runs_the_operation_equally_often(clock: str, warmup: int) -> None:
    torch = FakeTorch(kernels_us=[1.0] * 5)
    timing = timed(torch, clock, warmup=warmup, iterations=5)
    assert torch.calls.count("operation") == timing["launches"] == warmup + 5
    assert len(timing["samples_us"]) == torch.calls.count("open fast/a * b") == 5
    assert (timing["variant"], timing["operator"], timing["range"]) == ("fast", "a * b", "fast/a * b")


@pytest.mark.parametrize("clock", ["sync", "nosync", "event"])
@pytest.mark.usefixtures("torch")
def test_a_clock_times_a_real_operation_on_the_cpu(clock: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = torch_on_cpu(monkeypatch)
    a = torch.ones(1000)
    timing = clocks.time_operation(
        torch, lambda: a * a, variant="v", operator="o", warmup=1, iterations=4, clock=clock
    )
    assert len(timing["samples_us"]) == 4
    assert 0 < timing["min_us"] <= timing["median_us"] <= timing["max_us"]


@pytest.mark.filterwarnings("default")  # of torch.profiler, which misses the GPU
def test_the_real_profiler_of_work_on_the_cpu_has_no_kernels(torch: Any) -> None:  # noqa: ANN401
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        torch.ones(10) * 2
    assert kernels_us(torch, profiler.events()) == []


# The option, and torch.profiler under nsys


def test_the_option_takes_each_clock_and_no_other() -> None:
    parser = argparse.ArgumentParser(exit_on_error=False)
    clocks.add_clock_option(parser)
    assert parser.parse_args([]).clock == "sync"
    for clock in clocks.CLOCKS:
        assert parser.parse_args(["--clock", clock]).clock == clock
    with pytest.raises(argparse.ArgumentError, match="invalid choice: 'wall'"):
        parser.parse_args(["--clock", "wall"])


@pytest.fixture
def without_nsys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NSYS_VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("without_nsys")
def test_every_clock_is_usable_without_nsys(capsys: pytest.CaptureFixture[str]) -> None:
    assert tuple(map(clocks.usable, clocks.CLOCKS)) == clocks.CLOCKS
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("without_nsys")
@pytest.mark.parametrize("variable", NSYS_VARIABLES)
def test_under_nsys_the_profiler_gives_way_to_a_synchronise(
    variable: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, "1")
    assert [clocks.usable(clock) for clock in ("sync", "nosync", "event")] == ["sync", "nosync", "event"]
    assert capsys.readouterr() == ("", "")
    assert clocks.usable("profiler") == "sync"
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(STAYS_OFF)
    assert err.count("\n") == 1


@pytest.mark.usefixtures("nsys")
def test_the_real_nsys_is_noticed(tmp_path: Path, cli: Cli) -> None:
    program = "from nsyswrap.record.in_program import clocks; print(clocks.usable('profiler'))"
    (tmp_path / "asks.py").write_text(program)
    done = cli("profile", "--no-stats", "-o", "run", "asks.py")
    assert done.returncode == 0
    assert done.stdout.startswith("sync\n")
    assert STAYS_OFF in done.stderr
