"""Budgets on paper: what counts if several things hold at once, and time that another process used."""

from pathlib import Path

import numpy as np
import pytest
from tiny_export import Row, call, global_id, graph, kernel, memcpy, memset, opened

from nsyswrap.analysis.step_budget import BUSY, COMPUTE, IDLE, STATES, TimeBreakdown, budgets_of

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL()"
GEMM, SOFTMAX = "void gemm<float>(int)", "softmax_forward"


def used(budget: TimeBreakdown, interval: int = 0) -> dict[str, int]:
    """Return the states with any time."""
    return {state: int(times[interval]) for state, times in budget.state_ns.items() if times[interval]}


def only(folder: Path, *rows: Row) -> TimeBreakdown:
    [budget] = budgets_of(opened(folder, *rows))
    return budget


def test_the_states_are_those_of_a_busy_gpu_and_the_causes_of_idling() -> None:
    assert (*BUSY, *(f"idle_{cause}" for cause in IDLE)) == STATES
    assert (*COMPUTE, "communication", "memcpy", "memset") == BUSY
    assert len(set(STATES)) == len(STATES)


# The second operation runs from 10 to 40, beside the first from 0 to 20.
@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (kernel(GEMM, 0, 20), kernel(SOFTMAX, 10, 40), {"gemm_kernel": 20, "softmax_kernel": 20}),
        (kernel(SOFTMAX, 0, 20), kernel(GEMM, 10, 40), {"softmax_kernel": 10, "gemm_kernel": 30}),
        (graph(0, 20, 0), kernel("k", 10, 40), {"graph": 10, "other_kernel": 30}),
        (kernel(NCCL, 0, 20), graph(10, 40, 0), {"communication": 10, "graph": 30}),
        (kernel(NCCL, 0, 20), kernel("k", 10, 40), {"communication": 10, "other_kernel": 30}),
        (memcpy(1, 0, 20, 8), kernel(NCCL, 10, 40), {"memcpy": 10, "communication": 30}),
        (memset(0, 20, 8), kernel("k", 10, 40), {"memset": 10, "other_kernel": 30}),
        (memset(0, 20, 8), memcpy(1, 10, 40, 8), {"memset": 10, "memcpy": 30}),
        (memcpy(11, 0, 20, 8), memcpy(1, 10, 40, 8), {"memcpy": 40}),
    ],
)
def test_what_counts_first(first: Row, second: Row, expected: dict[str, int], tmp_path: Path) -> None:
    assert used(only(tmp_path, first, second)) == expected


def test_what_is_overlapped(tmp_path: Path) -> None:
    # nccl [0 ........ 50)    k [30 ........ 70)    copy [40 ......... 100)
    budget = only(tmp_path, kernel(NCCL, 0, 50), kernel("k", 30, 70), memcpy(1, 40, 100, 8))
    assert used(budget) == {"communication": 30, "other_kernel": 40, "memcpy": 30}
    assert {kind: times.tolist() for kind, times in budget.overlapped_ns.items()} == {
        "communication": [20],
        "copy": [30],
    }
    assert budget.busy_ns.tolist() == [100]
    assert sum(times[0] for times in budget.idle_ns.values()) == 0


def test_intervals_part_what_crosses_them(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 0, 40), memcpy(1, 60, 100, 8))
    [budget] = budgets_of(capture, (np.array([10, 70]), np.array([70, 90])))
    assert used(budget) == {"other_kernel": 30, "memcpy": 10, "idle_unknown": 20}
    assert used(budget, 1) == {"memcpy": 20}
    assert budget.duration_ns.tolist() == [60, 20]
    [busy] = budgets_of(capture, (np.array([10, 70]), np.array([70, 90])), with_idle=False)
    assert (used(busy), used(busy, 1)) == ({"other_kernel": 30, "memcpy": 10}, {"memcpy": 20})


# 100   k[0,10)                                              k[90,100)
# 200            k[30 ....... 60)
@pytest.mark.parametrize(
    ("begin", "end", "expected"),
    [
        (2, 5, {"idle_queued": 50, "idle_other_process": 30}),  # launched long before
        (70, 80, {"idle_host": 60, "idle_launch": 20}),  # nothing waited while the other one worked
        (20, 40, {"idle_host": 10, "idle_launch": 20, "idle_queued": 30, "idle_other_process": 20}),
    ],
)
def test_waiting_for_another_process(begin: int, end: int, expected: dict[str, int], tmp_path: Path) -> None:
    other = {"globalPid": global_id(200)}
    quick = [
        row
        for i in (1000, 1100)
        for row in (call("cudaLaunchKernel", i, i + 1, i), kernel("q", i + 5, i + 6, i))
    ]
    rows = [kernel("k", 0, 10), call("cudaLaunchKernel", begin, end, 2), kernel("k", 90, 100, 2), *quick]
    capture = opened(tmp_path, *rows, kernel("k", 30, 60, None, **other)).select(time="0/100")
    one, another = budgets_of(capture)
    assert used(one) == {"other_kernel": 20, **expected}
    # Nobody knows what launched the other process' kernel.
    assert used(another) == {"other_kernel": 30, "idle_unknown": 50, "idle_other_process": 20}


def test_another_device_is_not_waited_for(tmp_path: Path) -> None:
    rows = [kernel("k", 0, 10), kernel("k", 90, 100)]
    elsewhere = kernel("k", 30, 60, None, globalPid=global_id(200), deviceId=1)
    one, other = budgets_of(opened(tmp_path, *rows, elsewhere))
    assert used(one) == {"other_kernel": 20, "idle_unknown": 80}
    assert (other.device_id, used(other)) == (1, {"other_kernel": 30})


def test_nothing_on_the_gpu_has_no_budget(tmp_path: Path) -> None:
    assert budgets_of(opened(tmp_path, call("cudaFree", 0, 10))) == []


def test_a_class_of_the_users_own_counts_as_other(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel(GEMM, 0, 10)).viewed(classes=(("stencil", "gemm"),))
    [budget] = budgets_of(capture)
    assert used(budget) == {"other_kernel": 10}
