from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import nullcontext
from types import ModuleType
from typing import Any

import pytest
from scenario_scripts import load, torch_on_cpu

VARIANTS = ("start", "loader", "fused", "optimizer", "no_item", "graph")


class Stream:
    """Stands for a CUDA stream: on the CPU everything is done in its order."""

    def wait_stream(self, _other: Stream) -> None:
        """Do nothing."""


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401 - no types without torch
    torch = torch_on_cpu(monkeypatch)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda _stream: nullcontext())
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda _tensor, _stream: None)
    load_batches = torch.utils.data.DataLoader  # without workers, and without pinned memory
    monkeypatch.setattr(
        torch.utils.data, "DataLoader", lambda samples, size, **_options: load_batches(samples, size)
    )
    monkeypatch.setattr(torch, "set_float32_matmul_precision", lambda _precision: None)
    return torch


@pytest.fixture
def ladder(torch: Any, monkeypatch: pytest.MonkeyPatch) -> ModuleType:  # noqa: ANN401, ARG001
    """The script, small. The step stands for its replay, as there are no graphs on the CPU."""

    def run_once(_torch: object, step: Callable[[], object]) -> Callable[[], object]:
        step()
        return step

    script = load("ladder")
    monkeypatch.setattr(script, "WIDTH", 32)
    monkeypatch.setattr(script, "RATE", 1e-2)
    monkeypatch.setattr(script, "capture_graph", run_once)
    return script


def options(*variants: str) -> argparse.Namespace:
    return argparse.Namespace(variants=variants, layers=3, batch=8, warmup=3, iterations=2)


def test_every_rung_has_the_same_losses(ladder: ModuleType) -> None:
    timings = ladder.measure(options())["timings"]
    assert [timing["variant"] for timing in timings] == list(VARIANTS)
    assert {(timing["range"], timing["launches"]) for timing in timings} == {("step", 5)}
    first = timings[0]["losses"]
    assert len(set(first)) == 5
    for timing in timings[1:]:
        assert timing["losses"] == pytest.approx(first, rel=1e-5)


def test_gelu_by_operations_is_pytorch_s_own(ladder: ModuleType, torch: Any) -> None:  # noqa: ANN401
    x = torch.linspace(-4, 4, 99, dtype=torch.float64)
    torch.testing.assert_close(ladder.gelu(torch, x), torch.nn.functional.gelu(x, approximate="tanh"))


@pytest.mark.parametrize("wrong", ["no update", "gradients add up", "other batches"])
def test_a_training_that_goes_wrong_is_not_timed(
    ladder: ModuleType,
    torch: Any,  # noqa: ANN401
    monkeypatch: pytest.MonkeyPatch,
    wrong: str,
) -> None:
    given = options()
    weights = ladder.make_weights(torch, given.layers)
    expected = ladder.expected_log(torch, given, weights)
    if wrong == "other batches":
        monkeypatch.setattr(ladder, "MEAN", 0.6)
    else:
        method = "step" if wrong == "no update" else "zero_grad"
        monkeypatch.setattr(torch.optim.Adam, method, lambda _optimizer: None)
    monkeypatch.delattr(ladder, "summarize")
    for variant in ("start", "graph"):
        with pytest.raises(AssertionError, match="not close"):
            ladder.climb(torch, given, variant, weights, expected)
