"""Findings about communication. Steps of 1000 ns are drawn once; of four, the last three are judged."""

from pathlib import Path

import pytest
from advised import STEP_NS, findings_of, looped, new, stakes
from tiny_export import Row, call, kernel

from nsyswrap.reports.wording.advice import words

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096>)"


# exposed_communication
# CPU  |L 0-10|L 10-20|
# GPU         gemm[10 ........ 700)
# 9                all-reduce[500 ... until) gemm[until ... 1000)
def communicated(until: int) -> list[Row]:
    return [
        *(call("cudaLaunchKernel", 0, 10, 1), kernel("gemm", 10, 700, 1)),
        *(call("cudaLaunchKernel", 10, 20, 2), kernel(ALL_REDUCE, 500, until, 2, streamId=9)),
        *(call("cudaLaunchKernel", 20, 30, 3), kernel("gemm", until, STEP_NS, 3)),
    ]


@pytest.mark.parametrize(
    ("until", "expected"),
    [(700, {}), (749, {}), (750, {"exposed_communication": 150}), (900, {"exposed_communication": 600})],
)
def test_communication_that_no_compute_hides(until: int, expected: dict[str, int], tmp_path: Path) -> None:
    assert stakes(tmp_path, *looped(*communicated(until))) == expected


def test_what_is_said_of_exposed_communication(tmp_path: Path) -> None:
    one = findings_of(new(tmp_path, *looped(*communicated(900))))["exposed_communication"]
    exposed = {"steps": 3, "exposed_ns": 600, "running_ns": 1200, "overlapped_ns": 600}
    assert one.numbers == {**exposed, "blocked_ns": 0}  # gemm is in another stream
    assert "launched work waits" not in words(one).evidence


def test_that_nothing_waited_is_not_known_of_waits_without_their_events(tmp_path: Path) -> None:
    waiting = (*communicated(900), call("cudaStreamWaitEvent", 30, 40, 4))
    one = findings_of(new(tmp_path, *looped(*waiting)))["exposed_communication"]
    assert "blocked_ns" not in one.numbers


def test_that_nothing_waited_is_not_known_without_launches(tmp_path: Path) -> None:
    kernels = [one for one in communicated(900) if "gridX" in one.cells]
    one = findings_of(new(tmp_path, *kernels))["exposed_communication"]
    assert "blocked_ns" not in one.numbers
