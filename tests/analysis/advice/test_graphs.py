"""How much of the kernel time no graph launched. Steps of 1000 ns are drawn once; three are judged."""

from pathlib import Path

import pytest
from advised import STEP_NS, looped, new
from tiny_export import Row, call, graph, kernel

from nsyswrap.analysis.advice import advice_of

KIND = "outside_graphs"


def facts_of(tmp_path: Path, *rows: Row) -> dict[str, float]:
    facts = advice_of(new(tmp_path, *rows)).facts
    return {fact.kind: fact.numbers["kernels_percent"] for fact in facts if fact.kind == KIND}


# CPU  |G 0-10|L 10-20|
# GPU          graph[20 .. until) k[until ... 1000)
def mixed(until: int) -> list[Row]:
    launches = [call("cudaGraphLaunch", 0, 10, 1), call("cudaLaunchKernel", 10, 20, 2)]
    return looped(*launches, graph(20, until, 1), kernel("k", until, STEP_NS, 2))


@pytest.mark.parametrize(
    ("until", "expected"),
    [
        (951, {}),  # 4.9 %
        (950, {KIND: 5.0}),
        (520, {KIND: 48.0}),
        (117, {}),  # graphs have less than a tenth of the kernel time
    ],
)
def test_kernels_beside_graphs(until: int, expected: dict[str, float], tmp_path: Path) -> None:
    assert facts_of(tmp_path, *mixed(until)) == expected


def test_nodes_of_graphs_are_in_graphs(tmp_path: Path) -> None:
    nodes = [
        kernel("node", start, start + 240, 1, graphNodeId=2**32 + i) for i, start in enumerate((20, 270))
    ]
    launches = [call("cudaGraphLaunch", 0, 10, 1), call("cudaLaunchKernel", 10, 20, 2)]
    rows = looped(*launches, *nodes, kernel("k", 520, STEP_NS, 2, graphNodeId=None))
    assert facts_of(tmp_path, *rows) == {KIND: 48.0}


def test_graphs_launched_far_ahead(tmp_path: Path) -> None:
    # All launches lie in the first step, which is warm-up.
    launches = [call("cudaGraphLaunch", 10 * i, 10 * i + 5, i + 1) for i in range(8)]
    work = [graph(1000 * i + 100, 1000 * i + 1100, i + 1) for i in range(8)]
    assert facts_of(tmp_path, *launches, *work) == {}


def test_without_graphs_nothing_is_said(tmp_path: Path) -> None:
    assert facts_of(tmp_path, *looped(call("cudaLaunchKernel", 0, 10, 1), kernel("k", 20, STEP_NS, 1))) == {}
