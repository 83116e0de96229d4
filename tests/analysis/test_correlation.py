"""Which API call launched which kernel, on exports small enough to see it."""

import tempfile
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from fixed_examples import FILES, FIXED
from hypothesis import given
from hypothesis import strategies as st
from tiny_export import API, KERNEL, Row, call, global_id, kernel, memcpy, opened, write

from nsyswrap.analysis import correlation
from nsyswrap.analysis.arrays.spans import Spans, closest, enclosures, tree
from nsyswrap.analysis.correlation import launch_pairs_of
from nsyswrap.api import CaptureReader
from nsyswrap.base.constants import MISSING


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


def test_calls_of_a_process_that_comes_later_in_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls are numbered two at a time; one without a correlation id comes before the other process."""
    monkeypatch.setattr(correlation, "BLOCK_ROWS", 2)
    rows = [
        *(kernel("a", 10 + number, 20 + number, number, pid=100) for number in (3, 1, 2)),
        *(kernel("a", 30 + number, 40 + number, number, pid=200) for number in (2, 1, 4)),
        *(call("launch", number, number + 1, number, pid=100) for number in (1, 2)),
        call("wait", 3, 4, None, pid=100),
        call("launch", 4, 5, 3, pid=100),
        *(call("launch", 5 + number, 6 + number, number, pid=200, tid=201) for number in (1, 2, 3)),
    ]
    capture = opened(tmp_path, *rows)
    assert correlation.call_table(capture) is not None
    found = launch_pairs_of(capture)
    assert found.operation.tolist() == [0, 1, 2, 3, 4]
    assert found.api.tolist() == [3, 0, 1, 5, 4]
    (tmp_path / "again").mkdir()
    again = opened(tmp_path / "again", *rows, call("driver", 20, 21, 2, pid=200))
    assert correlation.call_table(again) is None


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


@pytest.mark.parametrize("kind", [11, 12, 13])  # to the device, to the host, between devices
def test_a_migration_meets_no_call(kind: int, tmp_path: Path) -> None:
    rows = [memcpy(kind, 10, 20, 4096, correlationId=1), call("launch", 0, 1, 1)]
    assert not len(launch_pairs_of(opened(tmp_path, *rows), "memcpy").operation)


def test_a_runtime_call_and_the_driver_call_below_it_are_two_pairs_as_in_nsys(tmp_path: Path) -> None:
    rows = [
        kernel("a", 50, 60, 1),
        call("cuLaunchKernel", 12, 18, 1, eventClass=1),
        call("cudaLaunchKernel", 10, 20, 1),
    ]
    assert pairs(tmp_path, *rows) == [(0, 0), (0, 1)]


def test_kernels_without_their_call_are_in_no_pair(tmp_path: Path) -> None:
    rows = [kernel("a", 50, 60, 1), kernel("a", 70, 80, 9), kernel("a", 90, 95, 9), call("launch", 10, 20, 1)]
    assert launch_pairs_of(opened(tmp_path, *rows)).operation.tolist() == [0]


@pytest.mark.parametrize("empty", [(KERNEL,), (API,), (KERNEL, API)])
def test_an_empty_table_meets_nothing(tmp_path: Path, empty: tuple[str, ...]) -> None:
    rows = [row for row in (kernel("a", 50, 60, 1), call("launch", 10, 20, 1)) if row.table not in empty]
    found = launch_pairs_of(opened(tmp_path, *rows, empty=empty))
    assert (found.operation.tolist(), found.api.tolist()) == ([], [])


def test_the_join_is_made_once_a_capture(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("a", 10, 20, 1), call("launch", 0, 1, 1))
    assert launch_pairs_of(capture) is launch_pairs_of(capture)
    (tmp_path / "other").mkdir()
    assert launch_pairs_of(
        opened(tmp_path / "other", kernel("a", 10, 20), call("launch", 0, 1))
    ) is not launch_pairs_of(capture)


IDS = st.one_of(st.none(), st.sampled_from([0, 1, 2, 2**40]))
PROCESSES = st.sampled_from([5, 100, 0xFFFFFF])
JOINED = st.lists(st.tuples(IDS, PROCESSES), min_size=1, max_size=8)


@FILES
@given(JOINED, JOINED)
@pytest.mark.slow
def test_a_launch_has_the_id_and_the_process_of_its_kernel(
    kernels: list[tuple[int | None, int]], calls: list[tuple[int | None, int]]
) -> None:
    rows = [kernel("k", 0, 1, i, globalPid=global_id(pid, hardware=255)) for i, pid in kernels]
    rows += [call("f", 0, 1, i, globalTid=global_id(pid, 7, hardware=255)) for i, pid in calls]
    with tempfile.TemporaryDirectory() as folder:
        found = launch_pairs_of(CaptureReader(write(Path(folder) / "x.sqlite", *rows)))
    both = product(enumerate(kernels), enumerate(calls))
    expected = [(k, c) for (k, one), (c, other) in both if one == other and one[0] is not None]
    assert list(zip(found.operation.tolist(), found.api.tolist(), strict=True)) == expected


# Thread, start and duration, of which many are equal.
SPAN = st.tuples(
    st.sampled_from([MISSING, 1, 2]), st.integers(0, 9), st.sampled_from([MISSING, 0, 1, 2, 5, 9])
)


def spans(rows: list[tuple[int, int, int]]) -> Spans:
    columns = [
        (thread, start, MISSING if length == MISSING else start + length) for thread, start, length in rows
    ]
    return Spans(*(np.array([row[i] for row in columns], np.int64) for i in range(3)))


@FIXED
@given(st.lists(SPAN, max_size=10), st.lists(SPAN, max_size=10))
def test_a_span_holds_what_begins_and_ends_in_it(
    calls: list[tuple[int, int, int]], ranges: list[tuple[int, int, int]]
) -> None:
    inner, outer = spans(calls), spans(ranges)
    expected = {
        (i, o)
        for i, o in product(range(len(calls)), range(len(ranges)))
        if inner.thread[i] == outer.thread[o] != MISSING
        and MISSING not in (inner.end[i], outer.end[o])
        and outer.start[o] <= inner.start[i]
        and inner.end[i] <= outer.end[o]
    }
    pairs = list(zip(*(part.tolist() for part in enclosures(inner, outer)), strict=True))
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == expected

    def tightest(held: int) -> int:
        return min((o for i, o in expected if i == held), key=lambda o: (ranges[o][2], o), default=-1)

    assert closest(inner, outer, outer.end - outer.start).tolist() == [tightest(i) for i in range(len(calls))]

    def latest(held: int) -> int:
        return min((o for i, o in expected if i == held), key=lambda o: (-ranges[o][1], o), default=-1)

    assert closest(inner, outer, -outer.start).tolist() == [latest(i) for i in range(len(calls))]


@FIXED
@given(st.lists(SPAN, max_size=12))
def test_the_parent_is_the_shortest_other_range_around(ranges: list[tuple[int, int, int]]) -> None:
    own = spans(ranges)

    def parent(i: int) -> int:
        around = [
            o
            for o in range(len(ranges))
            if o != i
            and own.thread[i] == own.thread[o] != MISSING
            and MISSING not in (own.end[i], own.end[o])
            and own.start[o] <= own.start[i]
            and own.end[i] <= own.end[o]
        ]
        return min(around, key=lambda o: (ranges[o][2], o), default=-1)

    assert tree(own).parent.tolist() == [parent(i) for i in range(len(ranges))]
