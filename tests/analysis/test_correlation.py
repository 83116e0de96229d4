"""Which API call launched which kernel, on exports small enough to see it."""

from pathlib import Path

import pytest
from tiny_export import API, KERNEL, Row, call, global_id, kernel, opened

from nsyswrap.analysis.correlation import launch_pairs_of


def pairs(folder: Path, *rows: Row, without: tuple[str, ...] = ()) -> list[tuple[int, int]]:
    """The joined (kernel row, call row)."""
    found = launch_pairs_of(opened(folder, *rows, without=without))
    return list(zip(found.operation.tolist(), found.api.tolist(), strict=True))


def test_a_kernel_meets_the_call_with_its_correlation_id(tmp_path: Path) -> None:
    rows = [kernel("b", 20, 30, 2), kernel("a", 10, 20, 1), call("launch", 0, 1, 1), call("launch", 2, 3, 2)]
    assert pairs(tmp_path, *rows) == [(0, 1), (1, 0)]


def test_two_processes_use_the_same_correlation_ids(tmp_path: Path) -> None:
    rows = [
        kernel("a", 10, 20, 1, pid=200),
        kernel("a", 10, 20, 1, pid=100),
        call("launch", 0, 1, 1, pid=100),
        call("launch", 2, 3, 1, pid=200, tid=201),
    ]
    assert pairs(tmp_path, *rows) == [(0, 1), (1, 0)]


def test_without_process_ids_the_correlation_id_has_to_do(tmp_path: Path) -> None:
    rows = [kernel("a", 10, 20, 1, pid=300), call("launch", 0, 1, 1, pid=100)]
    assert pairs(tmp_path, *rows, without=("globalPid",)) == [(0, 0)]


def test_global_ids_above_2_to_the_63_are_negative_numbers(tmp_path: Path) -> None:
    process, thread = global_id(100, hardware=200), global_id(100, 101, hardware=200)
    assert process < 0
    assert thread < 0
    rows = [
        kernel("a", 10, 20, 1, globalPid=process),
        call("other machine", 0, 1, 1),
        call("launch", 0, 1, 1, globalTid=thread),
    ]
    assert pairs(tmp_path, *rows) == [(0, 1)]


def test_negative_correlation_ids(tmp_path: Path) -> None:
    rows = [kernel("a", 10, 20, -5), call("launch", 0, 1, 5), call("launch", 0, 1, -5)]
    assert pairs(tmp_path, *rows) == [(0, 1)]


def test_correlation_ids_as_far_apart_as_there_are_numbers(tmp_path: Path) -> None:
    low, high = -(2**62), 2**63 - 1
    rows = [
        kernel("a", 10, 20, high, pid=1),
        kernel("a", 10, 20, low, pid=2),
        call("launch", 0, 1, high, pid=2),
        call("launch", 0, 1, low, pid=2),
        call("launch", 0, 1, high, pid=1),
    ]
    assert pairs(tmp_path, *rows) == [(0, 2), (1, 1)]


def test_what_is_missing_meets_nothing(tmp_path: Path) -> None:
    rows = [
        kernel("no correlation id", 10, 20, None),
        kernel("no process", 10, 20, 1, globalPid=None),
        kernel("a", 10, 20, 2),
        call("launch", 0, 1, None),
        call("launch", 0, 1, 1, globalTid=None),
        call("launch", 0, 1, 2),
    ]
    assert pairs(tmp_path, *rows) == [(2, 2)]


def test_a_runtime_call_and_the_driver_call_below_it_are_two_pairs_as_in_nsys(tmp_path: Path) -> None:
    rows = [
        kernel("a", 50, 60, 1),
        call("cuLaunchKernel", 12, 18, 1, eventClass=1),
        call("cudaLaunchKernel", 10, 20, 1),
    ]
    assert pairs(tmp_path, *rows) == [(0, 0), (0, 1)]


def test_kernels_without_their_call_are_counted(tmp_path: Path) -> None:
    rows = [kernel("a", 50, 60, 1), kernel("a", 70, 80, 9), kernel("a", 90, 95, 9), call("launch", 10, 20, 1)]
    assert launch_pairs_of(opened(tmp_path, *rows)).without_call == 2


@pytest.mark.parametrize("empty", [(KERNEL,), (API,), (KERNEL, API)])
def test_an_empty_table_meets_nothing(tmp_path: Path, empty: tuple[str, ...]) -> None:
    rows = [row for row in (kernel("a", 50, 60, 1), call("launch", 10, 20, 1)) if row.table not in empty]
    found = launch_pairs_of(opened(tmp_path, *rows, empty=empty))
    assert (found.operation.tolist(), found.api.tolist()) == ([], [])
    assert found.without_call == int(KERNEL not in empty)


def test_the_join_is_made_once_a_capture(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("a", 10, 20, 1), call("launch", 0, 1, 1))
    assert launch_pairs_of(capture) is launch_pairs_of(capture)
    (tmp_path / "other").mkdir()
    assert launch_pairs_of(
        opened(tmp_path / "other", kernel("a", 10, 20), call("launch", 0, 1))
    ) is not launch_pairs_of(capture)
