"""scenarios/vector_add.py and nsyswrap.record.in_program.clocks, as far as they go without a GPU."""

import argparse
import json
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from scenario_scripts import load, torch_on_cpu

from nsyswrap.base.errors import Unavailable
from nsyswrap.record.in_program import clocks

pytestmark = pytest.mark.filterwarnings("default")  # PyTorch's own; they are not ours to mend


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401 - no types without torch
    return torch_on_cpu(monkeypatch)


@pytest.fixture
def vector_add(torch: Any, monkeypatch: pytest.MonkeyPatch) -> ModuleType:  # noqa: ANN401
    """The script on the CPU: a + b stands for the kernel, torch.profiler records the operators alone."""
    for name in ("NSYS_PROFILING_SESSION_ID", "QUADD_INJECTION_PROXY"):
        monkeypatch.delenv(name, raising=False)
    script = load("vector_add")
    profile, cpu = torch.profiler.profile, torch.profiler.ProfilerActivity.CPU

    def profile_on_cpu(*, activities: list[Any], **settings: object) -> Any:  # noqa: ANN401
        assert [activity.name for activity in activities] == ["CPU", "CUDA"]
        return profile(activities=[cpu], **settings)

    profile_on_cpu.toggle_collection_dynamic = profile.toggle_collection_dynamic  # type: ignore[attr-defined]
    monkeypatch.setattr(torch.profiler, "profile", profile_on_cpu)
    monkeypatch.setattr(script, "load", lambda *_: SimpleNamespace(vector_add=torch.add))
    return script


def options(*variants: str, **given: object) -> argparse.Namespace:
    defaults = {
        "n": 100,
        "warmup": 2,
        "iterations": 10,
        "clock": "sync",
        "built": "vector_add.so",
        "keep": None,
    }
    return argparse.Namespace(variants=variants, **{**defaults, **given})


def test_a_run_on_the_cpu_checks_measures_and_reports(vector_add: ModuleType) -> None:
    result = vector_add.measure(options())
    assert (result["device"], result["n"], result["warmup"], result["iterations"]) == ("CPU", 100, 2, 10)
    ranges = [timing["range"] for timing in result["timings"]]
    assert ranges == [f"{variant}/vector_add" for variant in vector_add.VARIANTS]
    launches = {timing["variant"]: timing["launches"] for timing in result["timings"]}
    assert launches == {**dict.fromkeys(vector_add.VARIANTS, 12), "schedule": 12}
    assert all(len(timing["samples_us"]) == timing["launches"] - 2 for timing in result["timings"])


@pytest.mark.parametrize(
    ("variant", "launches", "operators"),
    [
        ("schedule", 10, 6),  # three of each of two cycles
        ("toggle_neither", 10, 10),
        ("toggle_cpu", 10, 7),  # off after the third launch, on again after the sixth
        ("toggle_cuda", 10, 10),
        ("toggle_both", 10, 7),
    ],
)
def test_the_operators_that_the_profiler_sees(
    vector_add: ModuleType, variant: str, launches: int, operators: int
) -> None:
    [timing] = vector_add.measure(options(variant))["timings"]
    assert timing["profiler"] == {
        "launches": launches,
        "kernels": 0,  # there is no GPU
        "cpu_ops": operators,
        "kernel_median_us": None,
    }


def test_the_schedule_keeps_a_trace_and_a_table_of_each_cycle(
    vector_add: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [timing] = vector_add.measure(options("schedule", keep=tmp_path / "kept"))["timings"]
    assert timing["traces"] == 2
    traces = list((tmp_path / "kept" / "tensorboard").glob("*.pt.trace.json"))
    assert [sum(e.get("name") == "aten::add" for e in events_in(trace)) for trace in traces] == [3, 3]
    tables = [tmp_path / "kept" / f"key_averages-{cycle}.txt" for cycle in (1, 2)]
    assert all("Self CPU time total" in table.read_text() for table in tables)
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["Name", "Self", "CPU", "#", "of", "Calls", "Input", "Shapes"]
    [row] = [row for row in rows if row.startswith("aten::add ")]
    assert row.endswith(" 3  [[100], [100], []]")


def events_in(trace: Path) -> list[dict[str, object]]:
    events: list[dict[str, object]] = json.loads(trace.read_text())["traceEvents"]
    return events


@pytest.mark.parametrize(
    ("variant", "left_out"),
    [
        ("toggle_neither", []),
        ("toggle_cpu", ["CPU"]),
        ("toggle_cuda", ["CUDA"]),
        ("toggle_both", ["CPU", "CUDA"]),
    ],
)
def test_what_is_toggled_and_when(
    vector_add: ModuleType,
    torch: Any,  # noqa: ANN401
    monkeypatch: pytest.MonkeyPatch,
    variant: str,
    left_out: list[str],
) -> None:
    calls: list[object] = []

    def toggle(_profiler: object, enable: bool, activities: list[Any]) -> None:  # noqa: FBT001 - PyTorch's
        calls.append((enable, [activity.name for activity in activities]))

    def launch() -> object:
        calls.append("launch")
        return torch.zeros(1)

    monkeypatch.setattr(torch.profiler.profiler.profile, "toggle_collection_dynamic", toggle)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: calls.append("synchronise"))
    vector_add.time_toggled(torch, launch, variant, options(warmup=0, iterations=3))
    waited = ["launch", "synchronise"]
    assert calls[1:] == [  # the first is the one after the warm-up
        *waited,
        *("synchronise", (False, left_out)),
        *waited,
        *("synchronise", (True, left_out)),
        *waited,
    ]


def test_the_nvtx_ranges_of_a_profiled_variant(
    vector_add: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges: list[str] = []

    def nvtx_range(name: str) -> AbstractContextManager[None]:
        ranges.append(name)
        return nullcontext()

    monkeypatch.setattr(torch_on_cpu(monkeypatch).cuda.nvtx, "range", nvtx_range)
    vector_add.measure(options("toggle_cpu", iterations=3))
    assert ranges == ["check", "warm-up toggle_cpu/vector_add", *3 * ["toggle_cpu/vector_add"]]


def test_only_bare_takes_another_clock(vector_add: ModuleType) -> None:
    bare, profiled = vector_add.measure(options("bare", "toggle_neither", clock="event"))["timings"]
    assert "profiler" not in bare
    assert profiled["profiler"]["cpu_ops"] == 10
    with pytest.raises(KeyError):
        vector_add.measure(options("bare", clock="sundial"))
    assert vector_add.measure(options("toggle_neither", clock="sundial"))


@pytest.mark.parametrize("variant", ["schedule", "toggle_both"])
def test_under_nsys_the_profiler_stays_off(
    vector_add: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], variant: str
) -> None:
    [alone] = vector_add.measure(options(variant))["timings"]
    capsys.readouterr()
    monkeypatch.setenv("NSYS_PROFILING_SESSION_ID", "1")
    monkeypatch.delattr("torch.profiler.profiler.profile.__enter__")
    [recorded] = vector_add.measure(options(variant))["timings"]
    assert recorded["profiler"] is None
    assert recorded["launches"] == alone["launches"]
    assert capsys.readouterr().err == f"{variant}: {clocks.STAYS_OFF}\n"


def test_a_wrong_sum_is_refused(vector_add: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = torch_on_cpu(monkeypatch)

    def off_by_one_bit(a: Any, b: Any) -> Any:  # noqa: ANN401
        return torch.nextafter(a + b, b + 2)

    monkeypatch.setattr(vector_add, "load", lambda *_: SimpleNamespace(vector_add=off_by_one_bit))
    with pytest.raises(AssertionError, match="not equal"):
        vector_add.measure(options("bare"))


def test_a_pytorch_that_cannot_toggle_is_named(vector_add: ModuleType) -> None:
    torch = SimpleNamespace(__version__="2.4.0", profiler=SimpleNamespace(profile=object))
    with pytest.raises(Unavailable, match=r"PyTorch 2\.4\.0 cannot toggle its profiler"):
        vector_add.time_toggled(torch, lambda: None, "toggle_cpu", options())


# What a profiler saw


def event(name: str, device: object, us: float = 0, *, annotates: bool = False) -> SimpleNamespace:
    """Return a fake of an event of torch.profiler, such as a GPU gives."""
    time_range = SimpleNamespace(start=0, elapsed_us=lambda: us)
    return SimpleNamespace(name=name, device_type=device, time_range=time_range, is_user_annotation=annotates)


def test_kernels_and_operators_are_counted_and_nothing_else(torch: Any) -> None:  # noqa: ANN401
    on_cpu, on_gpu = (partial(event, device=getattr(torch.autograd.DeviceType, d)) for d in ("CPU", "CUDA"))
    events = [
        on_cpu("ProfilerStep*", annotates=True),
        on_cpu("aten::empty", us=3),
        on_cpu("cudaLaunchKernel", us=5),
        on_gpu("ProfilerStep*", us=100, annotates=True),
        on_gpu("vector_add_kernel", us=4),
        on_gpu("vector_add_kernel", us=7),
        on_gpu("Memcpy DtoH (Device -> Pageable)", us=50),
        on_gpu("Memset (Device)", us=50),
    ]
    assert clocks.read(torch, events, 3) == {
        "launches": 3,
        "kernels": 2,
        "cpu_ops": 1,
        "kernel_median_us": 5.5,
    }


WIDE = """\
---------------  ------------  ------------  ------------  ------------
           Name      CPU time     Self CUDA  CUDA time avg    # of Calls
---------------  ------------  ------------  ------------  ------------
      aten::mul       1.000us       4.000us       2.000us             2
---------------  ------------  ------------  ------------  ------------
Self CPU time total: 1.000us
"""


def test_a_header_may_be_wider_than_its_column(tmp_path: Path) -> None:
    asked: list[str] = []

    class Averages(list[object]):
        def table(self, *, sort_by: str, **_: object) -> str:
            asked.append(sort_by)
            return WIDE

    of_old_pytorch = Averages([SimpleNamespace(self_cuda_time_total=4)])
    profiler = SimpleNamespace(key_averages=lambda **_: of_old_pytorch)
    assert clocks.keep_averages(profiler, tmp_path, "a.txt").splitlines() == [
        "Name       Self CUDA  CUDA time avg  # of Calls",
        "aten::mul    4.000us        2.000us           2",
    ]
    assert asked == ["self_cuda_time_total"]
    assert "CPU time" in (tmp_path / "a.txt").read_text()
