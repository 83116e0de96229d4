"""What keeps two sides from being compared, and what readers are told of their conditions."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from made_runs import SETUP, side_of

from nsyswrap.analysis.compare.comparability import obstacles_of, remarks_of
from nsyswrap.analysis.compare.model import Key, Obstacle, Side
from nsyswrap.reports.wording.comparisons import obstacle_text, worded_obstacle
from nsyswrap.reports.wording.notes import note_text

KEY = Key("kernel", "gemm")


def side(name: str = "base", *changes: dict[str, Any]) -> Side:
    """Return a side of one run for each change of SETUP; of one run without any."""
    setups = [replace(SETUP, **change) for change in changes or ({},)]
    return side_of(name, {KEY: [1e5] * len(setups)}, setups=setups)


def obstacles(base: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]]) -> tuple[Obstacle, ...]:
    return tuple(map(worded_obstacle, obstacles_of(side("base", *base), side("new", *new))))


def remarks(base: Side, new: Side) -> list[str]:
    return [*map(note_text, remarks_of(base, new))]


def test_equal_setups_have_no_obstacle_and_no_remark() -> None:
    assert obstacles([{}, {}], [{}]) == ()
    assert remarks(side(), side("new")) == []


@pytest.mark.parametrize(
    ("change", "obstacle"),
    [
        ({"gpus": ("NVIDIA A100",)}, Obstacle("GPU", "NVIDIA H200", "NVIDIA A100")),
        ({"gpus": ("NVIDIA H200",) * 2}, Obstacle("GPU", "NVIDIA H200", "2 x NVIDIA H200")),
        ({"driver": "580.1"}, Obstacle("driver", "570.124.06", "580.1")),
        ({"nsys": "2026.1"}, Obstacle("nsys", "2025.3.1.90", "2026.1")),
        ({"options": "--trace=cuda"}, Obstacle("trace options", "--trace=cuda,nvtx", "--trace=cuda")),
        ({"graphs": "node"}, Obstacle("CUDA graphs", "graph", "node")),
        (
            {"command": ("python", "my train.py")},
            Obstacle("command", "python train.py", "python 'my train.py'", is_deliberate=True),
        ),
        ({"lost_events": 2}, Obstacle("lost events", "none", "1 run")),
        ({"other_processes": 1}, Obstacle("another process on the GPU", "none", "1 run")),
        (
            {"throttled_percent": 6.0, "throttle_reason": "temperature (hardware)"},
            Obstacle("throttling", "none", "1 run, up to 6 % of the samples: temperature (hardware)"),
        ),
    ],
)
def test_each_difference_is_an_obstacle(change: dict[str, Any], obstacle: Obstacle) -> None:
    assert obstacles([{}], [change]) == (obstacle,)


def test_what_both_sides_suffer_from_reads_as_no_change() -> None:
    (both,) = obstacles([{"lost_events": 1}], [{"lost_events": 2}])
    assert obstacle_text(both) == "lost events: on both sides 1 run"
    (one,) = obstacles([{}], [{"lost_events": 2}])
    assert obstacle_text(one) == "lost events: none → 1 run"


def test_runs_of_one_side_that_differ_are_an_obstacle() -> None:
    found = obstacles([{}, {"driver": "580.1"}], [{}])
    assert found == (Obstacle("driver", "570.124.06 and 580.1", "570.124.06"),)
    (found_command,) = obstacles([{}, {"command": ("other",)}], [{}])
    assert not found_command.is_deliberate


def test_one_disturbed_run_of_several_is_an_obstacle() -> None:
    assert obstacles([{}], [{}, {"other_processes": 3}, {}]) == (
        Obstacle("another process on the GPU", "none", "1 of 3 runs"),
    )


@pytest.mark.parametrize(
    "changes", [{"throttled_percent": 5.0, "throttle_reason": "power limit"}, {"node": "b"}]
)
def test_little_throttling_and_another_node_are_no_obstacle(changes: dict[str, Any]) -> None:
    assert obstacles([{}], [changes]) == ()


def test_what_is_not_known_is_a_remark() -> None:
    unknown = {"gpus": (), "command": (), "other_processes": None, "sm_clock_mhz": None}
    assert obstacles([{}], [unknown]) == ()
    (remark,) = remarks(side(), side("new", unknown, {}))
    assert remark == ("not recorded; assumed equal: GPU, command, other processes on the GPU, SM clock")


def test_a_gpu_that_is_always_at_its_power_limit_is_compared() -> None:
    limited = {"throttle_reason": "power limit"}
    base, new = {**limited, "throttled_percent": 80.0}, {**limited, "throttled_percent": 70.0}
    assert obstacles([base, base], [new]) == ()
    at_limit = "all runs were at the power limit, for 80 / 70 % of the samples"
    assert remarks(side("base", base), side("new", new)) == [at_limit]
    assert [found.about for found in obstacles([base], [{**new, "throttled_percent": 30.0}])] == [
        "throttling"
    ]
    hot = {"throttle_reason": "temperature (software)", "throttled_percent": 80.0}
    assert [found.about for found in obstacles([hot], [hot])] == ["throttling"]


def test_other_differences_are_remarks() -> None:
    new = {
        "sm_clock_mhz": 1755.0,
        "node": "node2",
        "commit": "b",
        "versions": {"torch": "2.10", "numpy": "2"},
    }
    assert remarks(side(), side("new", new)) == [
        "the SM clock differs: 1980 / 1755 MHz",
        "node: node1 / node2",
        "commit: 4f2a91c03bd7 / b",
        "torch: 2.9.1 / 2.10",
    ]


def test_the_energy_of_a_step_is_said_where_both_sides_have_it() -> None:
    assert not remarks(side("base", {"step_joules": 11.6}), side("new", {}))
    base = side("base", *({"step_joules": joules} for joules in (11.6, 11.0, 12.0)))
    assert remarks(base, side("new", {"step_joules": 1234.0})) == [
        "energy of a step: 11.6 J / 1.23 kJ (not judged)"
    ]


def test_many_nodes_are_counted() -> None:
    nodes = [{"node": f"n{number}"} for number in range(5)]
    assert remarks(side("base", *nodes), side("new")) == ["node: n0, n1, n2 and 2 more / node1"]
