import argparse
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from scenario_scripts import load, torch_on_cpu

from nsyswrap.base.errors import UsageError
from nsyswrap.record.in_program import clocks

pytestmark = pytest.mark.filterwarnings("default")  # PyTorch's own; they are not ours to mend


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401 - no types without torch
    """torch on the CPU, where its autograd profiler records the operators alone."""
    for name in ("NSYS_PROFILING_SESSION_ID", "QUADD_INJECTION_PROXY"):
        monkeypatch.delenv(name, raising=False)
    found = torch_on_cpu(monkeypatch)
    profile = found.autograd.profiler.profile

    def profile_on_cpu(**settings: object) -> object:
        return profile(**{**settings, "use_device": None})

    monkeypatch.setattr(found.autograd.profiler, "profile", profile_on_cpu)
    return found


@pytest.fixture
def square(torch: Any, monkeypatch: pytest.MonkeyPatch) -> ModuleType:  # noqa: ANN401
    """The script; a * a stands for its inline kernel."""
    script = load("square")
    monkeypatch.setattr(script, "load", lambda *_: inline(torch.square))
    return script


def inline(kernel: Callable[[Any], object]) -> SimpleNamespace:
    return SimpleNamespace(square_matrix=kernel)


def options(*variants: str, **given: object) -> argparse.Namespace:
    defaults = {"rows": 5, "columns": 17, "warmup": 1, "iterations": 3, "clock": "sync", "built": "square.so"}
    return argparse.Namespace(variants=variants, **{**defaults, **given})


def test_a_run_on_the_cpu_checks_measures_and_reports(square: ModuleType) -> None:
    result = square.measure(options())
    assert (result["device"], result["rows"], result["columns"]) == ("CPU", 5, 17)
    assert [timing["range"] for timing in result["timings"]] == [
        "square/torch.square(a)",
        "mul/a * a",
        "pow/a ** 2",
        "inline/inline kernel",
        "autograd_mul/a * a",
        "autograd_pow/a ** 2",
    ]
    assert all(timing["launches"] == 4 for timing in result["timings"])
    assert all(len(timing["samples_us"]) == 3 for timing in result["timings"])


def test_the_autograd_profiler_sees_what_a_power_calls(square: ModuleType) -> None:
    mul, power = square.measure(options("autograd_mul", "autograd_pow"))["timings"]
    assert mul["profiler"] == {"launches": 3, "kernels": 0, "cpu_ops": 3, "kernel_median_us": None}
    assert power["profiler"]["cpu_ops"] > mul["profiler"]["cpu_ops"]


def test_the_autograd_profiler_is_asked_for_kernels(
    square: ModuleType,
    torch: Any,  # noqa: ANN401
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[object] = []
    profile = torch.autograd.profiler.profile

    def note(**settings: object) -> object:
        asked.append(settings)
        return profile(**settings)

    monkeypatch.setattr(torch.autograd.profiler, "profile", note)
    square.measure(options("autograd_mul"))
    assert asked == [{"use_device": "cuda", "use_kineto": True}]


@pytest.mark.parametrize(
    ("variant", "operators"),
    [
        ("square", {"aten::square": 6, "aten::pow": 6, "aten::mul": 1}),
        ("mul", {"aten::square": 0, "aten::pow": 0, "aten::mul": 7}),
        ("pow", {"aten::square": 0, "aten::pow": 6, "aten::mul": 1}),
        ("inline", {"aten::square": 6, "aten::pow": 6, "aten::mul": 1}),  # as its stand-in does
    ],
)
def test_a_variant_runs_its_own_operation_alone(
    square: ModuleType,
    torch: Any,  # noqa: ANN401
    variant: str,
    operators: dict[str, int],
) -> None:
    """Once to check, twice to warm up, three times timed; the expected result is a product besides."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        square.measure(options(variant, warmup=2))
    names = [event.name for event in profiler.events()]
    assert {operator: names.count(operator) for operator in operators} == operators


def test_the_clock_is_for_the_variants_without_a_profiler(square: ModuleType) -> None:
    assert square.measure(options("mul", "autograd_mul", clock="event"))
    with pytest.raises(KeyError):
        square.measure(options("mul", clock="sundial"))
    assert square.measure(options("autograd_mul", clock="sundial"))


def test_under_nsys_the_profiler_stays_off(
    square: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NSYS_PROFILING_SESSION_ID", "1")
    monkeypatch.delattr("torch.autograd.profiler.profile")
    [timing] = square.measure(options("autograd_pow"))["timings"]
    assert (timing["profiler"], timing["launches"]) == (None, 4)
    assert capsys.readouterr().err == f"autograd_pow: {clocks.STAYS_OFF}\n"


@pytest.mark.parametrize("variant", ["inline", "mul"])
def test_a_wrong_square_is_refused_where_it_is_measured(
    square: ModuleType,
    torch: Any,  # noqa: ANN401
    monkeypatch: pytest.MonkeyPatch,
    variant: str,
) -> None:
    def misses_the_last_column(a: Any) -> Any:  # noqa: ANN401
        return torch.cat([a[:, :-1] ** 2, a[:, -1:]], dim=1)

    monkeypatch.setattr(square, "load", lambda *_: inline(misses_the_last_column))
    if variant == "mul":
        assert square.measure(options(variant))
        return
    with pytest.raises(AssertionError, match="not equal"):
        square.measure(options(variant))


def test_more_rows_than_a_grid_has_are_a_usage_error(square: ModuleType) -> None:
    with pytest.raises(UsageError, match="--rows must be at most 1048560"):
        square.measure(options(rows=1048561))
    assert square.measure(options("inline", rows=1048560, columns=1, iterations=1))


def test_what_is_built_is_what_is_loaded(square: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []

    def build_inline(_torch: object, name: str, cpp: str, cuda: str, functions: list[str]) -> object:
        assert functions == ["square_matrix"]
        assert cpp.removesuffix(";") in cuda
        built.append(name)
        return SimpleNamespace(__file__="/cache/square_inline.so")

    def load_built(name: str, library: str) -> object:
        assert [name] == built
        assert library == "/cache/square_inline.so"
        return inline(lambda a: a * a)

    monkeypatch.setattr(square, "build_inline", build_inline)
    monkeypatch.setattr(square, "load", load_built)
    assert square.measure(options("inline", built=square.build(options())))
