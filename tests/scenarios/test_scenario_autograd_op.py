import argparse
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from scenario_scripts import load, torch_on_cpu


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401 - no types without torch
    return torch_on_cpu(monkeypatch)


def extension(torch: Any, error: float = 0, factor: float = 1) -> SimpleNamespace:  # noqa: ANN401
    """Stands for the extension: the same formulas in PyTorch, with errors."""

    def backward(x: Any, gradient: Any) -> Any:  # noqa: ANN401
        sigmoid = torch.sigmoid(x)
        return factor * gradient * sigmoid * (1 + x * (1 - sigmoid))

    return SimpleNamespace(forward=lambda x: x * torch.sigmoid(x) + error, backward=backward)


@pytest.fixture
def script(torch: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModuleType]:  # noqa: ANN401
    def loaded(**errors: float) -> ModuleType:
        script = load("autograd_op")
        monkeypatch.setattr(script, "load", lambda *_: extension(torch, **errors))
        return script

    return loaded


def options(*variants: str) -> argparse.Namespace:
    return argparse.Namespace(variants=variants, n=100, warmup=1, iterations=2, built="swish.so")


def test_forward_and_backward_of_both_are_checked_and_timed(script: Callable[..., ModuleType]) -> None:
    timings = script().measure(options())["timings"]
    assert [timing["range"] for timing in timings] == [
        *("torch/forward", "torch/backward", "cuda/forward", "cuda/backward")
    ]
    assert {timing["launches"] for timing in timings} == {3}


@pytest.mark.parametrize(
    ("errors", "says"), [({"factor": 1.01}, "not the derivative"), ({"error": 1e-3}, "not close")]
)
def test_a_wrong_operation_is_refused(
    script: Callable[..., ModuleType], errors: dict[str, float], says: str
) -> None:
    with pytest.raises(AssertionError, match=says):
        script(**errors).measure(options("cuda"))


def test_the_operation_keeps_its_input_alone(script: Callable[..., ModuleType], torch: Any) -> None:  # noqa: ANN401
    x = torch.randn(5, requires_grad=True)
    kept: list[Any] = []

    def keep(tensor: Any) -> Any:  # noqa: ANN401
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        script().make_swish(torch, extension(torch))(x)
    assert [tensor.data_ptr() for tensor in kept] == [x.data_ptr()]
