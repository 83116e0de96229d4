import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace

import pytest
from scenario_scripts import load, run_without_torch, torch_on_cpu

from nsyswrap.base.version import pip_install
from nsyswrap.record.in_program import measure as measurement
from nsyswrap.record.in_program.script import Timing, main


@pytest.fixture
def add2() -> ModuleType:
    return load("add2")


# The timing loop


class Recorder:
    """Instruments and an operation that note every call; the clock reads the times given."""

    def __init__(self, times_ns: Sequence[int]) -> None:
        self.calls: list[str] = []
        self.times_ns = list(times_ns)

    def clock(self) -> int:
        self.calls.append("clock")
        return self.times_ns.pop(0)

    def synchronise(self) -> None:
        self.calls.append("synchronise")

    def operation(self) -> None:
        self.calls.append("operation")

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        self.push(name)
        yield
        self.pop()

    def push(self, name: str) -> None:
        self.calls.append(f"open {name}")

    def pop(self) -> None:
        self.calls.append("close")


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """Whose clock is the one that `measure` reads, and whose ranges are those it opens."""
    found = Recorder([])
    monkeypatch.setattr(measurement, "perf_counter_ns", found.clock)
    monkeypatch.setattr(measurement, "nvtx_functions", lambda: found)
    monkeypatch.setattr(measurement, "is_recorded", lambda: False)
    return found


def block(add2: ModuleType, recorder: Recorder, sync: str, *, queued: bool = False) -> Timing:
    timing: Timing = add2.time_block(
        recorder.operation,
        sync,
        "cuda",
        warmup=2,
        iterations=2,
        queued=queued,
        instruments=add2.Instruments(recorder.synchronise, recorder.span),
    )
    return timing


@pytest.mark.parametrize(
    ("sync", "before", "inside"),
    [
        ("both", ["synchronise"], ["operation", "synchronise"]),
        ("first", ["synchronise"], ["operation"]),
        ("second", [], ["operation", "synchronise"]),
        ("none", [], ["operation"]),
    ],
)
def test_the_range_of_an_iteration_is_what_it_times(
    add2: ModuleType, recorder: Recorder, sync: str, before: list[str], inside: list[str]
) -> None:
    recorder.times_ns = [10_000, 10_750]
    seconds = add2.time_iteration(recorder.operation, sync, "a", recorder.synchronise)
    assert seconds == pytest.approx(750e-9)
    assert recorder.calls == [*before, "open a", "clock", *inside, "clock", "close"]


WARMED_UP = ["open warm-up first/cuda", "operation", "operation", "close"]
ITERATION = ["synchronise", "open first/cuda", "clock", "operation", "clock", "close"]
TIMED = ["open add2 first cuda", *ITERATION, *ITERATION, "close"]


def test_a_block_from_warm_up_to_the_last_synchronise(add2: ModuleType, recorder: Recorder) -> None:
    recorder.times_ns = [1000, 1250, 2000, 2501]
    timing = block(add2, recorder, "first")
    assert timing["samples_us"] == [0.25, 0.501]
    assert (timing["range"], timing["launches"]) == ("first/cuda", 4)
    assert recorder.calls == [*WARMED_UP, "synchronise", *TIMED, "synchronise"]


def test_queued_leaves_the_warm_up_to_the_timed_loop(add2: ModuleType, recorder: Recorder) -> None:
    recorder.times_ns = [1000, 1250, 2000, 2501]
    block(add2, recorder, "first", queued=True)
    assert recorder.calls == [*WARMED_UP, *TIMED, "synchronise"]


def test_every_variant_is_measured_for_every_operator(add2: ModuleType, recorder: Recorder) -> None:
    # Stamps 1, 2, 4, 8, ... µs: every sample is another power of two.
    recorder.times_ns = [1000 * 2**power for power in range(8)]
    operations = {"cuda": recorder.operation, "torch": recorder.operation}
    timings = add2.time_all(
        operations,
        argparse.Namespace(variants=["none", "both"], warmup=0, iterations=1, queued=False),
        add2.Instruments(recorder.synchronise, recorder.span),
    )
    assert [(timing["variant"], timing["operator"], timing["samples_us"]) for timing in timings] == [
        ("none", "cuda", [1]),
        ("none", "torch", [4]),
        ("both", "cuda", [16]),
        ("both", "torch", [64]),
    ]


# The result


@pytest.mark.usefixtures("torch")
@pytest.mark.filterwarnings("default")  # importing PyTorch may warn; that is not ours to mend
def test_a_run_on_the_cpu_checks_measures_and_reports(
    add2: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = torch_on_cpu(monkeypatch)
    options = argparse.Namespace(variants=None, n=100, warmup=1, iterations=3, queued=False, built="add2.so")

    extension = SimpleNamespace(add2=lambda c, a, b: torch.add(a, b, out=c))
    monkeypatch.setattr(add2, "load", lambda *_: extension)
    result = add2.measure(options)
    assert (result["device"], result["n"], result["warmup"]) == ("CPU", 100, 1)
    assert result["queued"] is False
    assert [(timing["variant"], timing["operator"]) for timing in result["timings"]] == [
        (sync, operator) for sync in ("both", "first", "second", "none") for operator in ("cuda", "torch")
    ]
    assert all(len(timing["samples_us"]) == 3 for timing in result["timings"])

    leaves_one_out = SimpleNamespace(add2=lambda c, a, b: torch.add(a[1:], b[1:], out=c[1:]))
    monkeypatch.setattr(add2, "load", lambda *_: leaves_one_out)
    with pytest.raises(AssertionError, match="not equal"):
        add2.measure(options)


# The build, and what it needs


def test_add2_without_torch_says_what_to_install() -> None:
    result = run_without_torch("add2")
    assert result.returncode == 69
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("add2: PyTorch cannot be imported")
    assert pip_install("scenarios") in result.stderr


@pytest.mark.parametrize(
    ("gpu", "ninja", "cuda_home", "complaint"),
    [
        (False, True, "/cuda", "add2: PyTorch 2.1.0 found no CUDA GPU"),
        (True, False, "/cuda", "add2: ninja not found"),
        (True, True, None, "add2: nvcc not found"),
    ],
)
def test_add2_names_what_else_is_missing(  # noqa: PLR0913
    add2: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    gpu: bool,
    ninja: bool,
    cuda_home: str | None,
    complaint: str,
) -> None:
    torch = SimpleNamespace(__version__="2.1.0", cuda=SimpleNamespace(is_available=lambda: gpu))
    cpp_extension = SimpleNamespace(is_ninja_available=lambda: ninja, CUDA_HOME=cuda_home)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.utils.cpp_extension", cpp_extension)
    monkeypatch.setenv("PATH", os.environ["PATH"])  # the script adds to it
    options = argparse.Namespace(build=False, built=None)
    assert main("add2", options, add2.measure, add2.build) == 69
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(complaint)
    assert err.count("\n") == 1
