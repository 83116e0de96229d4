from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from scenario_scripts import load, torch_on_cpu

from nsyswrap.record.in_program import clocks
from nsyswrap.record.in_program.clocks import STAYS_OFF
from nsyswrap.record.in_program.script import add_keep_option, make_parser

ON_THE_CPU = ("sync", "nosync", "event")


@pytest.fixture
def events() -> ModuleType:
    return load("events")


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401 - torch is not installed for the type checker
    for name in ("NSYS_PROFILING_SESSION_ID", "QUADD_INJECTION_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return torch_on_cpu(monkeypatch)


@pytest.fixture
def profiled(torch: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A torch.profiler (a fake: there is no GPU) that saw one kernel of 7 µs an iteration."""

    def export(path: str) -> None:
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_text("{}")

    profiler = SimpleNamespace(events=list, key_averages=lambda **_: [], export_chrome_trace=export)
    monkeypatch.setattr(torch.profiler, "profile", lambda **_: nullcontext(profiler))
    monkeypatch.setattr(clocks, "kernels_us", lambda _torch, _profiler: [7.0] * 3)


def measure(events: ModuleType, *arguments: str) -> dict[str, Any]:
    parser = make_parser(
        events.__doc__, events.VARIANTS, option=events.VARIANT_OPTION, counts=events.COUNTS, builds=False
    )
    add_keep_option(parser)
    small = ("--n", "100", "--warmup", "1", "--iterations", "3")
    result: dict[str, Any] = events.measure(parser.parse_args([*small, *arguments]))
    return result


def test_the_variants_are_the_clocks(events: ModuleType) -> None:
    assert events.VARIANTS == clocks.CLOCKS


@pytest.mark.usefixtures("profiled")
def test_every_clock_times_the_operation(events: ModuleType, torch: ModuleType) -> None:
    result = measure(events)
    assert {name: result[name] for name in (*events.COUNTS, "device", "torch")} == {
        "n": 100,
        "warmup": 1,
        "iterations": 3,
        "device": "CPU",
        "torch": torch.__version__,
    }
    assert [timing["variant"] for timing in result["timings"]] == list(clocks.CLOCKS)
    for timing in result["timings"]:
        assert timing["range"] == f"{timing['variant']}/a * b"
        assert (timing["operator"], timing["launches"], len(timing["samples_us"])) == ("a * b", 4, 3)


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("clock", ON_THE_CPU)
def test_one_clock_can_be_asked_for(events: ModuleType, clock: str) -> None:
    assert [timing["variant"] for timing in measure(events, "--clock", clock)["timings"]] == [clock]


@pytest.mark.usefixtures("profiled")
def test_under_the_profiler_the_samples_are_the_kernels(events: ModuleType, tmp_path: Path) -> None:
    [timing] = measure(events, "--clock", "profiler", "--keep", str(tmp_path))["timings"]
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]
    assert (timing["range"], timing["samples_us"]) == ("profiler/a * b", [7.0, 7.0, 7.0])


@pytest.mark.usefixtures("torch")
def test_under_nsys_the_profiler_stays_off_and_the_result_says_so(
    events: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NSYS_PROFILING_SESSION_ID", "1")
    [timing] = measure(events, "--clock", "profiler")["timings"]
    assert (timing["variant"], timing["range"]) == ("sync", "sync/a * b")
    assert (timing["launches"], len(timing["samples_us"])) == (4, 3)
    assert capsys.readouterr().err.count(STAYS_OFF) == 1


@pytest.mark.usefixtures("torch")
def test_a_wrong_product_is_not_timed(events: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = events.import_torch()
    monkeypatch.setattr(torch.Tensor, "cuda", lambda tensor: tensor + 1e-7)  # what a GPU might get wrong
    monkeypatch.delattr(events, "time_operation")
    with pytest.raises(AssertionError, match="not equal"):
        measure(events)
