"""Lanes of traces for Perfetto: nesting, sub-lanes and names."""

from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tiny_export import OSRT, PID, call, domain, global_id, kernel, memset, nvtx, on_cpu, opened, um_gpu_fault
from traced import tiny, traced

from nsyswrap.render.perfetto import compose
from nsyswrap.render.timeline.lanes import (
    disjoint,
    drawing_order,
    event_places,
    levels,
    nested,
    rows_by_lane,
    sublanes,
)


def test_ranges_nest_around_calls_and_calls_around_what_they_call(tmp_path: Path) -> None:
    trace = tiny(
        tmp_path,
        *(nvtx("outer", 0, 100), nvtx("inner", 10, 100)),
        *(call("cudaMalloc_v3020", 10, 50, 1), call("cuMemAlloc_v2", 20, 40, 2, eventClass=1)),
        on_cpu(OSRT, "ioctl", 20, 40),
    )
    assert [(part.name, part.depth) for part in sorted(trace.slices, key=lambda part: part.depth)] == [
        *(("outer", 0), ("inner", 1), ("cudaMalloc", 2)),
        *(("cuMemAlloc_v2", 3), ("ioctl", 4)),
    ]
    assert {trace.lane(part) for part in trace.slices} == {"thread"}


def test_what_crosses_is_drawn_beside(tmp_path: Path) -> None:
    trace = tiny(tmp_path, nvtx("a", 0, 20), nvtx("b", 10, 30), nvtx("c", 21, 40), nvtx("d", 50, 60))
    assert {part.name: trace.lane(part) for part in trace.slices} == {
        "a": "thread",
        "b": "thread (2)",
        "c": "thread",
        "d": "thread",
    }


def test_ranges_that_cross_are_at_levels_of_their_own_on_the_page() -> None:
    start, end = np.array([0, 0, 2, 9, 11]), np.array([30, 10, 12, 9, 20])
    assert levels(start[:2], end[:2]).tolist() == [0, 1]
    assert levels(start, end).tolist() == [0, 1, 2, 3, 1]  # the last one begins before the third ends


def test_kernels_at_once_in_one_stream_are_drawn_beside_each_other(tmp_path: Path) -> None:
    rows = [kernel("a", 0, 20), kernel("b", 5, 10), kernel("c", 20, 30), kernel("d", 20, 20)]
    trace = tiny(tmp_path, *rows, kernel("e", 0, 5, deviceId=1), memset(3, 4, 1))
    assert {part.name: trace.lane(part) for part in trace.slices} == {
        "a": "stream 7",
        "b": "stream 7 (2)",
        "c": "stream 7",
        "d": "stream 7 (2)",
        "e": "stream 7",
        "[CUDA memset]": "stream 7 (2)",
    }
    [(_, values)] = trace.counters.items()
    assert values == [(0, 1), (3, 1), (4, 1), (5, 2), (10, 1), (20, 1), (30, 0)]


def test_streams_of_several_contexts_and_processes_are_told_apart(tmp_path: Path) -> None:
    trace = tiny(
        tmp_path,
        *(kernel("a", 0, 9), kernel("b", 0, 9, contextId=2), kernel("c", 0, 9, pid=200)),
        kernel("d", 0, 9, globalPid=global_id(200, hardware=2)),
    )
    assert {part.name: trace.lane(part) for part in trace.slices} == {
        "a": "stream 7, context 1, process 100",
        "b": "stream 7, context 2, process 100",
        "c": "stream 7, process 200",
        "d": "stream 7",
    }
    assert len({trace.root(part.track) for part in trace.slices}) == 2  # GPU 0 of two machines


def test_one_process_id_on_two_machines(tmp_path: Path) -> None:
    other = global_id(PID, PID, hardware=2)
    trace = tiny(tmp_path, call("here", 0, 5), call("there", 3, 8, globalTid=other))
    assert {
        part.name: (trace.pid(part) == PID, trace.tracks[part.track].thread.tid) for part in trace.slices
    } == {"here": (True, PID), "there": (False, PID)}


def test_ranges_that_need_not_nest(tmp_path: Path) -> None:
    trace = tiny(
        tmp_path,
        domain("lib", 3),
        nvtx("job", 0, 50, eventType=60),
        nvtx("job", 10, 90, eventType=60, domainId=3, endGlobalTid=global_id(PID, 101)),
        nvtx("now", 20, None, eventType=34),
    )
    assert [(part.name, part.start, part.end, trace.lane(part)) for part in trace.slices] == [
        ("job", 0, 50, "NVTX start/end ranges"),
        ("lib:job", 10, 90, "NVTX start/end ranges (2)"),
    ]
    assert [(event.name, event.start, trace.lane(event)) for event in trace.instants] == [
        ("now", 20, "thread")
    ]


def test_a_range_that_never_ended_lasts_to_the_last_event(tmp_path: Path) -> None:
    capture = opened(tmp_path, nvtx("open", 0, None), nvtx("a", 5, 70))
    trace = traced(capture, tmp_path)
    assert [(part.name, part.end) for part in trace.slices] == [("a", 70), ("open", 70)]
    assert compose(capture).notes == ["NVTX ranges that never ended: 1; drawn to the last NVTX event"]
    [alone] = tiny(tmp_path, nvtx("open", 7, None)).slices
    assert (alone.start, alone.end) == (7, 7)


def test_a_range_stands_once_though_two_threads_created_its_domain(tmp_path: Path) -> None:
    capture = opened(tmp_path, domain("d", 1), domain("d", 1, tid=101), nvtx("a", 0, 9, domainId=1))
    assert [part.name for part in traced(capture, tmp_path).slices] == ["d:a"]
    assert compose(capture).notes == []


def test_page_faults_have_lanes_of_their_own(tmp_path: Path) -> None:
    trace = tiny(tmp_path, kernel("k", 0, 50), um_gpu_fault(4096, 10, 20, faults=3))
    [fault] = trace.of("um_gpu_fault")
    assert (trace.lane(fault), fault.args["faults"], fault.args["address"]) == ("page faults", 3, 0x1000)


BARS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 15), st.integers(0, 15)), max_size=40
)


@given(BARS)
def test_sublanes_nest_or_are_disjoint(bars: list[tuple[int, int, int, int]]) -> None:
    lane, rank, start, length = np.array(bars, np.int64).reshape(-1, 4).T
    end = start + length
    order = drawing_order(lane, 3, rank, start, end)
    inside = list(sublanes(rows_by_lane(lane, 3, order), start, end, nested))
    for _, _, rows in inside:
        _assert_nesting(start[rows].tolist(), end[rows].tolist())
        _assert_events(start[rows], end[rows])
    order = drawing_order(lane, 3, np.zeros_like(lane), start, end)
    apart = list(sublanes(rows_by_lane(lane, 3, order), start, end, disjoint))
    for _, _, rows in apart:
        assert (start[rows][1:] >= end[rows][:-1]).all()
    for parts in (inside, apart):
        assert all((lane[rows] == of).all() for of, _, rows in parts)
        assert sorted(row for _, _, rows in parts for row in rows.tolist()) == list(range(len(bars)))


def _assert_events(start: NDArray[Any], end: NDArray[Any]) -> None:
    """Each end closes the slice that began last, and no event comes before an earlier one."""
    begins, ends = event_places(start, end)
    places = np.concatenate((begins, ends))
    assert sorted(places.tolist()) == list(range(2 * len(start)))
    times = np.empty(len(places), np.int64)
    times[places] = np.concatenate((start, end))
    assert (np.diff(times) >= 0).all()
    stack: list[int] = []
    of = np.tile(np.arange(len(start)), 2)[np.argsort(places)]
    for place, number in enumerate(of.tolist()):
        if place == begins[number]:
            stack.append(number)
        else:
            assert stack.pop() == number


def _assert_nesting(start: list[int], end: list[int]) -> None:
    stack: list[int] = []
    for begins, until in zip(start, end, strict=True):
        stack = [limit for limit in stack if limit > begins]
        assert not stack or until <= stack[-1]
        stack.append(until)


@given(BARS)
def test_what_nests_stays_in_its_lane(bars: list[tuple[int, int, int, int]]) -> None:
    """Bars that are clipped to the bar around them do not cross."""
    found: list[tuple[int, int]] = []
    stack: list[int] = []
    for start, length in sorted(((s, n) for _, _, s, n in bars), key=lambda bar: (bar[0], -bar[1])):
        stack = [limit for limit in stack if limit > start]
        end = min(start + length, stack[-1]) if stack else start + length
        stack.append(end)
        found.append((start, end))
    starts, ends = np.array(found, np.int64).reshape(-1, 2).T
    order = np.lexsort((-ends, starts))
    assert not nested(starts[order], ends[order]).any()
