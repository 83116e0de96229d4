"""scenarios/graphs.py without a GPU: its chain is the real one, the CUDA graph a fake."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from scenario_scripts import load, torch_on_cpu

from nsyswrap.record.in_program.script import make_parser

COUNTS = {"n": 100, "kernels": 40, "warmup": 2, "iterations": 3}


class Device:
    """Stands for a GPU: counts the operations it is given, and runs them or adds them to a graph."""

    def __init__(self) -> None:
        self.launched = 0
        self.replayed = 0
        self.captured: list[tuple[Any, tuple[Any, ...]]] | None = None

    def launch(self, operation: Any, arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401 - an operation of torch
        if self.captured is not None:
            self.captured.append((operation, arguments))
            return arguments[0]
        self.launched += 1
        return operation(*arguments)


class Graph:
    """Stands for torch.cuda.CUDAGraph: replays what was captured, on the same memory."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.operations: list[tuple[Any, tuple[Any, ...]]] = []

    def replay(self) -> None:
        self.device.replayed += 1
        for operation, arguments in self.operations:
            operation(*arguments)


@contextmanager
def capturing(graph: Graph) -> Iterator[None]:
    """Stand for torch.cuda.graph."""
    graph.device.captured = graph.operations
    yield
    graph.device.captured = None


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401 - torch is not installed for the type checker
    torch = torch_on_cpu(monkeypatch)
    stream = SimpleNamespace(wait_stream=lambda _other: None)
    for name in ("Stream", "current_stream"):
        monkeypatch.setattr(torch.cuda, name, lambda: stream)
    monkeypatch.setattr(torch.cuda, "stream", nullcontext)
    return torch


@pytest.fixture
def device(torch: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Device:
    """The operations that the chain is made of go to this device."""
    device = Device()

    def goes_to_it(operation: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments: device.launch(operation, arguments)

    for name in ("mul_", "add_"):
        monkeypatch.setattr(torch.Tensor, name, goes_to_it(getattr(torch.Tensor, name)))
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: Graph(device))
    monkeypatch.setattr(torch.cuda, "graph", capturing)
    return device


@pytest.fixture
def graphs() -> ModuleType:
    return load("graphs")


def measure(graphs: ModuleType, *arguments: str, **counts: int) -> dict[str, Any]:
    parser = make_parser(graphs.__doc__, graphs.VARIANTS, counts=graphs.COUNTS, builds=False)
    given = [f"--{name}={count}" for name, count in {**COUNTS, **counts}.items()]
    result: dict[str, Any] = graphs.measure(parser.parse_args([*given, *arguments]))
    return result


@pytest.mark.usefixtures("device")
def test_every_variant_is_checked_and_timed(graphs: ModuleType, torch: ModuleType) -> None:
    result = measure(graphs)
    assert {name: result[name] for name in (*COUNTS, "device", "torch")} == {
        **COUNTS,
        "device": "CPU",
        "torch": torch.__version__,
    }
    assert [timing["range"] for timing in result["timings"]] == ["eager/chain", "graph/chain", "nodes/chain"]
    for timing in result["timings"]:
        assert (timing["launches"], len(timing["samples_us"])) == (5, 3)


@pytest.mark.parametrize("kernels", [1, 2, 40, 41])
def test_the_chain_is_exactly_as_many_operations_as_asked_for(
    graphs: ModuleType, torch: ModuleType, device: Device, kernels: int
) -> None:
    x = torch.rand(5)
    assert graphs.run_chain(x, kernels) is x
    assert device.launched == kernels


def test_eager_launches_every_operation_and_captures_nothing(graphs: ModuleType, device: Device) -> None:
    measure(graphs, "--variant", "eager")
    # The CPU's result, the check, the warm-up, the samples.
    assert (device.launched, device.replayed) == (40 * (1 + 1 + 2 + 3), 0)


@pytest.mark.parametrize("variant", ["graph", "nodes"])
def test_a_graph_is_replayed_and_nothing_launched_beside_it(
    graphs: ModuleType, device: Device, variant: str
) -> None:
    measure(graphs, "--variant", variant)
    # Launched: the warm-up before the capture, the CPU's result, the check of eager.
    assert (device.launched, device.replayed) == (40 * 3, 1 + 2 + 3)


def test_the_runner_records_one_graph_whole_and_one_by_nodes(graphs: ModuleType) -> None:
    assert graphs.NSYS == {"graph": {"graphs": "graph"}, "nodes": {"graphs": "node"}}


def test_a_replay_that_does_something_else_is_wrong(
    graphs: ModuleType, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replay(graph: Graph) -> None:
        for operation, arguments in graph.operations[1:]:
            operation(*arguments)

    monkeypatch.setattr(Graph, "replay", replay)
    monkeypatch.delattr(graphs, "time_operation")
    with pytest.raises(AssertionError, match="not equal"):
        measure(graphs, "--variant", "graph")
    assert device.replayed == 0


@pytest.mark.usefixtures("device")
def test_an_eager_result_unlike_the_cpu_s_is_wrong(
    graphs: ModuleType, torch: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = torch.Tensor.copy_
    monkeypatch.setattr(torch.Tensor, "copy_", lambda x, start: right(x, start + 1))
    with pytest.raises(AssertionError, match="not close"):
        measure(graphs, "--variant", "eager")
