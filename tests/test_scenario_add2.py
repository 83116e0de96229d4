"""scenarios/add2.py, as far as it goes without a GPU."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from scenario_scripts import load, run_without_torch, torch_on_cpu

from nsyswrap.experiment import main

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@pytest.fixture
def add2() -> ModuleType:
    return load("add2")


# The timing loop


class Recorder:
    """Instruments and an operation that note every call; the clock reads the times given."""

    def __init__(self, times: Sequence[float]) -> None:
        self.calls: list[str] = []
        self.times = list(times)

    def clock(self) -> float:
        self.calls.append("clock")
        return self.times.pop(0)

    def synchronise(self) -> None:
        self.calls.append("synchronise")

    def operation(self) -> None:
        self.calls.append("operation")

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        self.calls.append(f"open {name}")
        yield
        self.calls.append(f"close {name}")


@pytest.mark.parametrize(
    ("sync", "calls"),
    [
        ("both", ["synchronise", "clock", "operation", "synchronise", "clock"]),
        ("first", ["synchronise", "clock", "operation", "clock"]),
        ("second", ["clock", "operation", "synchronise", "clock"]),
        ("none", ["clock", "operation", "clock"]),
    ],
)
def test_where_an_iteration_synchronises(add2: ModuleType, sync: str, calls: list[str]) -> None:
    recorder = Recorder([10.0, 10.75])
    instruments = add2.Instruments(recorder.clock, recorder.synchronise, recorder.span)
    assert add2.time_iteration(recorder.operation, sync, instruments) == 0.75
    assert recorder.calls == calls


def test_a_block_from_warm_up_to_the_last_synchronise(add2: ModuleType) -> None:
    recorder = Recorder([1.0, 1.25, 2.0, 2.5])
    timing = add2.time_block(
        recorder.operation,
        "first",
        "cuda",
        warmup=2,
        iterations=2,
        instruments=add2.Instruments(recorder.clock, recorder.synchronise, recorder.span),
    )
    assert timing["samples_us"] == [0.25e6, 0.5e6]
    assert (timing["range"], timing["launches"]) == ("first/cuda", 4)
    assert recorder.calls == [
        "open warm-up first/cuda",
        "operation",
        "operation",
        "close warm-up first/cuda",
        "synchronise",
        "open add2 first cuda",
        "open first/cuda",
        "synchronise",
        "clock",
        "operation",
        "clock",
        "close first/cuda",
        "open first/cuda",
        "synchronise",
        "clock",
        "operation",
        "clock",
        "close first/cuda",
        "close add2 first cuda",
        "synchronise",
    ]


def test_every_variant_is_measured_for_every_operator(add2: ModuleType) -> None:
    # Stamps 1, 2, 4, 8, ... seconds: every sample is another power of two.
    recorder = Recorder([2.0**power for power in range(8)])
    operations = {"cuda": recorder.operation, "torch": recorder.operation}
    timings = add2.time_all(
        operations,
        argparse.Namespace(variants=["none", "both"], warmup=0, iterations=1),
        add2.Instruments(recorder.clock, recorder.synchronise, recorder.span),
    )
    assert [(timing["variant"], timing["operator"], timing["samples_us"]) for timing in timings] == [
        ("none", "cuda", [1e6]),
        ("none", "torch", [4e6]),
        ("both", "cuda", [16e6]),
        ("both", "torch", [64e6]),
    ]


# The result


@pytest.mark.filterwarnings("default")  # importing PyTorch may warn; that is not ours to mend
def test_a_run_on_the_cpu_checks_measures_and_reports(
    add2: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = torch_on_cpu(monkeypatch)
    options = argparse.Namespace(variants=None, n=100, warmup=1, iterations=3, built="add2.so")

    extension = SimpleNamespace(add2=lambda c, a, b: torch.add(a, b, out=c))
    monkeypatch.setattr(add2, "load", lambda *_: extension)
    result = add2.measure(options)
    assert (result["device"], result["n"], result["warmup"]) == ("CPU", 100, 1)
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
    assert "pip install 'nsyswrap[scenarios]'" in result.stderr


@pytest.mark.parametrize(
    ("gpu", "ninja", "cuda_home", "complaint"),
    [
        (False, True, "/cuda", "add2: PyTorch 2.1.0 finds no CUDA GPU"),
        (True, False, "/cuda", "add2: ninja was not found"),
        (True, True, None, "add2: nvcc was not found"),
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
