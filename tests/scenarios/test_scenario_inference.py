import argparse
from types import ModuleType
from typing import Any

import pytest
from scenario_scripts import load, torch_on_cpu


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401 - no types without torch
    return torch_on_cpu(monkeypatch)


@pytest.fixture
def inference(torch: Any, monkeypatch: pytest.MonkeyPatch) -> ModuleType:  # noqa: ANN401, ARG001
    """The script, small. The step stands for its replay, as there are no graphs on the CPU."""
    script = load("inference")
    monkeypatch.setattr(script, "WIDTH", 32)
    monkeypatch.setattr(script, "capture_graph", lambda _torch, step: step)
    return script


def options(*variants: str) -> argparse.Namespace:
    counts = {"prompt": 9, "tokens": 4, "layers": 2, "warmup": 1, "iterations": 2}
    return argparse.Namespace(variants=variants, **counts)


def test_every_variant_is_checked_and_timed(inference: ModuleType) -> None:
    timings = inference.measure(options())["timings"]
    assert [timing["range"] for timing in timings] == ["prefill/prompt", "decode/tokens", "graph/tokens"]


@pytest.mark.parametrize("variant", ["prefill", "decode", "graph"])
def test_each_variant_runs_alone(inference: ModuleType, variant: str) -> None:
    [timing] = inference.measure(options(variant))["timings"]
    assert timing["variant"] == variant


def test_a_token_does_not_see_those_behind_it(inference: ModuleType, torch: Any) -> None:  # noqa: ANN401
    model = inference.Model(torch, inference.make_weights(torch, 2, 8))
    places = torch.arange(8)
    one, other = torch.arange(8), torch.arange(8).flip(0)
    other[:5] = one[:5]
    first, second = (model(tokens, places).clone() for tokens in (one, other))
    torch.testing.assert_close(first[:5], second[:5])
    assert not torch.allclose(first[5:], second[5:])


@pytest.mark.parametrize("wrong", ["stale cache", "other token"])
def test_wrong_tokens_are_not_timed(
    inference: ModuleType,
    torch: Any,  # noqa: ANN401
    monkeypatch: pytest.MonkeyPatch,
    wrong: str,
) -> None:
    right = inference.Answer.step

    def step(answer: Any) -> Any:  # noqa: ANN401
        if wrong == "stale cache":
            for cache in answer.model.caches:
                cache[:, : len(answer.prompt)] = 0
        right(answer)
        if wrong == "other token":
            answer.written[-1] = (answer.written[-1] + 1) % inference.VOCABULARY
        return answer.written

    monkeypatch.setattr(inference.Answer, "step", step)
    monkeypatch.delattr(inference, "time_operation")
    with pytest.raises(AssertionError, match="not close"):
        inference.measure(options("decode"))
    assert torch.is_grad_enabled()
