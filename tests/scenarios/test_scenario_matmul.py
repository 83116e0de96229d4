import argparse
from types import ModuleType
from typing import Any

import pytest
from scenario_scripts import load, torch_on_cpu


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401 - no types without torch
    return torch_on_cpu(monkeypatch)


@pytest.fixture
def matmul(torch: Any) -> ModuleType:  # noqa: ANN401, ARG001 - the CPU stands for a GPU
    return load("matmul")


def measure(matmul: ModuleType, *variants: str) -> list[dict[str, Any]]:
    given = argparse.Namespace(variants=variants, n=33, warmup=1, iterations=2)
    timings: list[dict[str, Any]] = matmul.measure(given)["timings"]
    return timings


def test_every_variant_is_checked_and_timed_and_its_operations_counted(matmul: ModuleType) -> None:
    timings = measure(matmul)
    assert [timing["range"] for timing in timings] == [f"{variant}/mm" for variant in matmul.VARIANTS]
    assert {timing["variant"]: timing["flop"] for timing in timings} == {
        **dict.fromkeys(("float32", "tf32", "bf16"), 2 * 33**3),
        "odd": 2 * 32**3,
        "deep": 2 * 256 * 256 * 16 * 33,
        "vector": 2 * 33 * 33,
    }
    for timing in timings:
        assert timing["tflops"] == round(timing["flop"] / timing["median_us"] / 1e6, 1)


@pytest.mark.parametrize("variant", ["float32", "bf16", "deep"])
def test_a_result_with_a_sum_left_out_is_refused(
    matmul: ModuleType,
    torch: Any,  # noqa: ANN401
    monkeypatch: pytest.MonkeyPatch,
    variant: str,
) -> None:
    right = torch.mm

    def without_the_last_sum(a: Any, b: Any) -> Any:  # noqa: ANN401
        result = right(a, b)
        result.flatten()[result.abs().argmax()] = 0
        return result

    monkeypatch.setattr(torch, "mm", without_the_last_sum)
    monkeypatch.delattr(matmul, "time_operation")
    with pytest.raises(AssertionError, match=r"not (close|equal)"):
        measure(matmul, variant)


def test_tf32_is_allowed_where_it_is_asked_for_alone(matmul: ModuleType, torch: Any) -> None:  # noqa: ANN401
    for variant, product in matmul.products(8).items():
        matmul.multiply(torch, product, *matmul.make_inputs(torch, product))
        assert torch.backends.cuda.matmul.allow_tf32 == (variant == "tf32")
