"""The joins over columns find the pairs that plain loops find, one pair at a time."""

import tempfile
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from fixed_examples import FILES, FIXED
from hypothesis import given
from hypothesis import strategies as st
from tiny_export import call, global_id, kernel, write

from nsyswrap.analysis.arrays.spans import Spans, closest, enclosures, tree
from nsyswrap.analysis.correlation import launch_pairs_of
from nsyswrap.api import CaptureReader
from nsyswrap.base.constants import MISSING

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
    assert found.without_call == len(kernels) - len({k for k, _ in expected})


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
