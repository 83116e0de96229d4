"""scenarios/add2.py, as far as it goes without a GPU."""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import contextmanager, nullcontext
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from scenario_scripts import load, run_without_torch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@pytest.fixture
def add2() -> ModuleType:
    return load("add2")


# The command line


def test_add2_defaults(add2: ModuleType) -> None:
    options = add2.make_parser().parse_args([])
    counts = {"n": 1048576, "warmup": 10, "iterations": 10}
    assert vars(options) == {"sync": None, **counts, "build": False, "built": None}
    assert add2.chosen_variants(options.sync) == ("both", "first", "second", "none")


def test_add2_takes_variants_once_and_in_the_order_given(add2: ModuleType) -> None:
    options = add2.make_parser().parse_args(["--sync", "none", "--sync", "both", "--sync", "none"])
    assert add2.chosen_variants(options.sync) == ("none", "both")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--n", "0"], "argument --n: must be at least 1"),
        (["--iterations", "0"], "argument --iterations: must be at least 1"),
        (["--warmup", "-1"], "argument --warmup: must be at least 0"),
        (["--n", "1e6"], "argument --n: invalid whole number value: '1e6'"),
    ],
)
def test_add2_refuses_counts_that_measure_nothing(
    add2: ModuleType, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        add2.make_parser().parse_args(arguments)
    assert stopped.value.code == 2
    assert complaint in capsys.readouterr().err


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
    samples = add2.time_block(
        recorder.operation,
        "first",
        "cuda",
        warmup=2,
        iterations=2,
        instruments=add2.Instruments(recorder.clock, recorder.synchronise, recorder.span),
    )
    assert samples == [0.25, 0.5]
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
    timings = add2.measure(
        operations,
        argparse.Namespace(sync=["none", "both"], warmup=0, iterations=1),
        add2.Instruments(recorder.clock, recorder.synchronise, recorder.span),
    )
    assert [(timing["sync"], timing["operator"], timing["samples_us"]) for timing in timings] == [
        ("none", "cuda", [1e6]),
        ("none", "torch", [4e6]),
        ("both", "cuda", [16e6]),
        ("both", "torch", [64e6]),
    ]


# The result


def test_summary_of_samples(add2: ModuleType) -> None:
    assert add2.summarise("both", "torch", [3e-6, 1e-6, 2e-6, 10e-6]) == {
        "sync": "both",
        "operator": "torch",
        "range": "both/torch",
        "median_us": 2.5,
        "mean_us": 4.0,
        "min_us": 1.0,
        "max_us": 10.0,
        "samples_us": [3.0, 1.0, 2.0, 10.0],
    }


def test_the_report_is_one_line_of_json(add2: ModuleType) -> None:
    options = argparse.Namespace(n=4, warmup=2, iterations=1)
    platform = {"device": "GPU", "torch": "2.1.0", "cuda": "12.1"}
    line = add2.report(options, platform, [add2.summarise("none", "cuda", [5e-6])])
    assert "\n" not in line
    assert json.loads(line) == {
        "scenario": "add2",
        "n": 4,
        "warmup": 2,
        "iterations": 1,
        "device": "GPU",
        "torch": "2.1.0",
        "cuda": "12.1",
        "timings": [
            {
                "sync": "none",
                "operator": "cuda",
                "range": "none/cuda",
                "median_us": 5.0,
                "mean_us": 5.0,
                "min_us": 5.0,
                "max_us": 5.0,
                "samples_us": [5.0],
            }
        ],
    }


@pytest.mark.filterwarnings("default")  # importing PyTorch may warn; that is not ours to mend
def test_a_run_on_the_cpu_checks_measures_and_reports(
    add2: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.Tensor, "cuda", lambda tensor: tensor)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "CPU")
    monkeypatch.setattr(torch.cuda.nvtx, "range", nullcontext)
    options = add2.make_parser().parse_args(["--n", "100", "--iterations", "3"])

    extension = SimpleNamespace(add2=lambda c, a, b: torch.add(a, b, out=c))
    result = json.loads(add2.run(torch, extension, options))
    assert result["device"] == "CPU"
    assert [(timing["sync"], timing["operator"]) for timing in result["timings"]] == [
        (sync, operator) for sync in ("both", "first", "second", "none") for operator in ("cuda", "torch")
    ]
    assert all(len(timing["samples_us"]) == 3 for timing in result["timings"])

    leaves_one_out = SimpleNamespace(add2=lambda c, a, b: torch.add(a[1:], b[1:], out=c[1:]))
    with pytest.raises(AssertionError, match="not equal"):
        add2.run(torch, leaves_one_out, options)


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
    assert add2.main([]) == 69
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(complaint)
    assert err.count("\n") == 1
