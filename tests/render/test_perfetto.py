"""Traces for Perfetto: valid events that agree with the capture."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from recorded import capture_names, run_folder
from tiny_export import (
    API,
    KERNEL,
    ON_REQUEST,
    OSRT,
    PID,
    call,
    domain,
    everything,
    global_id,
    graph,
    kernel,
    memcpy,
    memset,
    nvtx,
    on_cpu,
    opened,
    row,
    um_cpu_fault,
    um_gpu_fault,
)
from traced import Read, read, tiny, traced

from nsyswrap import open_capture
from nsyswrap.analysis.names import strip_version
from nsyswrap.api import CaptureReader
from nsyswrap.base.errors import NotInCapture
from nsyswrap.capture.capture import Capture as Columns
from nsyswrap.capture.schema import EVENTS, UNIFIED_MEMORY_KINDS
from nsyswrap.render.perfetto import compose, write
from nsyswrap.render.timeline.lanes import (
    disjoint,
    drawing_order,
    event_places,
    levels,
    nested,
    rows_by_lane,
    sublanes,
)
from nsyswrap.render.timeline.names import IDLE
from nsyswrap.reports.wording.states import CAUSE_NAMES

ON_GPU = ("kernel", "memcpy", "memset", "graph")
SAME = ("registers_per_thread", "static_shared_bytes", "dynamic_shared_bytes")
NOT_DRAWN = (
    *("synchronization", "cuda_event", "diagnostic", "gpu", "mpi_rank", "nvtx", "um_cpu_fault"),
    *("memory_use", "gpu_metric", "gpu_metric_name", *ON_REQUEST),  # curves
)


@pytest.mark.parametrize("name", capture_names()[::2])
@pytest.mark.slow
def test_everything_recorded_is_drawn_where_it_was(name: str, scratch: Path, tmp_path: Path) -> None:
    capture = open_capture(run_folder(name, scratch))
    trace = traced(capture, tmp_path)
    for kind in EVENTS:
        if kind in NOT_DRAWN or not capture.has(kind):
            continue
        assert len(trace.of(kind)) == capture.count(kind)
        events = capture.columns(kind, "start_ns", "end_ns")
        times = zip(events["start_ns"].tolist(), events["end_ns"].tolist(), strict=True)
        assert Counter((part.start, part.end) for part in trace.of(kind)) == Counter(times)
    _check_flows(capture, trace)
    _check_nvtx(capture, trace)
    faults = sum(event.kind == "um_cpu_fault" for event in trace.instants)
    assert faults == capture.count("um_cpu_fault")
    assert trace.about["nsys"] == capture.info.exporter_version


def _check_flows(capture: CaptureReader, trace: Read) -> None:
    """Check that each operation has a flow from the call with its correlation id in its process, if any."""
    known = {}
    if capture.has("api"):
        for event in capture.events("api").sort_values("start_ns", ascending=False).to_dict("records"):
            known[event["process_id"], event["correlation_id"]] = (
                event["start_ns"],
                strip_version(event["name"]),
            )
    expected: Counter[tuple[Any, ...]] = Counter()
    for kind in ON_GPU:
        if capture.has(kind):
            for event in capture.events(kind).to_dict("records"):
                key = event["process_id"], event["correlation_id"]
                if key in known and event.get("copy_kind") not in UNIFIED_MEMORY_KINDS:
                    expected[(kind, event["start_ns"], event["end_ns"], *known[key], key[0])] += 1
    found: Counter[tuple[Any, ...]] = Counter()
    for begin, end in trace.flows:
        assert begin.kind == "api"
        found[end.kind, end.start, end.end, begin.start, begin.name, trace.pid(begin)] += 1
    assert found == expected


def _check_nvtx(capture: CaptureReader, trace: Read) -> None:
    types = capture.columns("nvtx", "event_type")["event_type"] if capture.has("nvtx") else np.empty(0)
    marks = [event for event in trace.instants if event.kind == "nvtx"]
    assert len(trace.of("nvtx")) == np.isin(types, (59, 60, 70, 71)).sum()
    assert len(marks) == (types == 34).sum()


def test_kernels_say_how_they_were_launched(scratch: Path, tmp_path: Path) -> None:
    capture = open_capture(run_folder("vector_add/bare", scratch))
    trace = traced(capture, tmp_path)
    assert [trace.owner(part) for part in trace.of("kernel")] == ["GPU 0 NVIDIA H200"] * 31
    assert trace.roots[0] == "GPU 0 NVIDIA H200"
    for part, event in zip(trace.of("kernel"), capture.events("kernel").to_dict("records"), strict=True):
        assert part.name == event["name"]
        assert part.group == "other"
        assert part.args["grid"] == ", ".join(str(event[f"grid_{axis}"]) for axis in "xyz")
        assert part.args["block"] == ", ".join(str(event[f"block_{axis}"]) for axis in "xyz")
        assert all(part.args[same] == event[same] for same in SAME)
        assert trace.lane(part) == f"stream {event['stream_id']}"


def test_every_kind_there_is(tmp_path: Path) -> None:
    capture = opened(tmp_path, *everything())
    trace = traced(capture, tmp_path)
    assert {part.kind for part in trace.slices} == set(EVENTS) - set(NOT_DRAWN) - {"cuda_overhead"} | {
        "nvtx",
        IDLE,
    }
    copies = Counter((part.name, trace.lane(part)) for part in trace.of("memcpy"))
    assert copies == {
        ("[CUDA memcpy Host-to-Device]", "stream 7"): 2,
        ("[CUDA memcpy Unified Host-to-Device]", "unified memory"): 1,
        ("[CUDA memcpy Unified Device-to-Host]", "unified memory"): 1,
    }
    migrated = next(part for part in trace.of("memcpy") if "Unified" in part.name)
    assert (migrated.args["address"], migrated.args["migration_cause"]) == (0x1000, "Page fault")
    assert trace.roots == ["GPU 0 GPU", "allocated memory", "python, rank 0"]
    assert [event.name for event in trace.instants if event.kind == "um_cpu_fault"] == ["main"]
    on_gpu = [part for part in trace.slices if part.args.get("nvtx_path") == "step/library:part"]
    assert [part.start for part in on_gpu] == [5, 12, 20]


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    late = row(API, start=5, end=4, eventClass=0, globalTid=1, correlationId=0, nameId=1, returnValue=0)
    synced = row(
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        start=0,
        end=1,
        deviceId=0,
        streamId=7,
        correlationId=1,
        syncType=3,
    )
    backwards = kernel("k", 9, 5)
    trace = compose(
        opened(tmp_path, kernel("k", 0, 5, 9), backwards, call("c", 0, 2), late, synced, domain("d", 1))
    )
    assert trace.left_out == [
        "1 kernel (no start, no end, or an end before the start)",
        "1 CUDA API call (no start, no end, or an end before the start)",
        "1 CUDA synchronization (the waiting calls are drawn)",
        "1 NVTX event (names of domains, threads and categories, and events without a time)",
        "1 arrow from call to GPU work (launch call not recorded)",
    ]
    assert trace.contents()[:2] == ["1 kernel", "1 CUDA API call"]


def test_flows_go_to_the_process_that_launched(tmp_path: Path) -> None:
    trace = tiny(
        tmp_path,
        *(call("cudaLaunchKernel", 0, 5, 1), call("cudaLaunchKernel", 1, 6, 1, pid=200)),
        *(kernel("a", 10, 20, 1), kernel("b", 10, 20, 1, pid=200), kernel("lost", 30, 40, 7)),
    )
    assert sorted((trace.pid(begin), end.name) for begin, end in trace.flows) == [(100, "a"), (200, "b")]


def test_a_graph_has_a_flow_for_each_node(tmp_path: Path) -> None:
    calls = [call("cudaGraphLaunch", 0, 9, 1), call("cuGraphLaunch", 1, 8, 1, eventClass=1)]
    nodes = [kernel(f"k{i}", 10 * i, 10 * i + 5, 1, graphNodeId=(1 << 60) + i) for i in (1, 2, 3)]
    trace = tiny(tmp_path, *calls, *nodes)
    assert [(begin.name, end.name) for begin, end in trace.flows] == [
        ("cudaGraphLaunch", f"k{i}") for i in (1, 2, 3)
    ]
    assert trace.of("kernel")[0].args["graph_node_id"] == (1 << 60) + 1
    whole = tiny(tmp_path, *calls, graph(10, 20, 1))
    assert [(begin.name, end.name) for begin, end in whole.flows] == [("cudaGraphLaunch", "[CUDA graph]")]


def test_bandwidth_of_copies_adds_up_while_they_overlap(tmp_path: Path) -> None:
    trace = tiny(
        tmp_path,
        memcpy(1, 0, 10, 100, streamId=8),
        memcpy(1, 5, 15, 20, streamId=9),
        memcpy(2, 0, 10, 1),
        memcpy(2, 20, 20, 8),
    )
    down, up = trace.counters.values()
    assert down == [(0, 10), (5, 12), (10, 2), (15, 0)]
    assert up == [(0, 0.1), (10, 0)]
    assert [name for _, name in trace.counters] == ["Host-to-Device", "Device-to-Host"]


NAMES = ['"quoted" \\ </script>', "100% %s %d {x}", "a\nb\t\x01\x7f\u2028", "🚀 名", "x" * 1500, ""]


def test_names_of_any_kind(tmp_path: Path) -> None:
    times = range(10, 10 + 10 * len(NAMES), 10)
    rows = [
        part
        for name, t in zip(NAMES, times, strict=True)
        for part in (kernel(name, t, t + 5), nvtx(name, t, t + 5))
    ]
    trace = tiny(tmp_path, *rows, kernel(b"\xed\xa0\x80", 0, 5), kernel(99, 100, 105))
    assert [part.name for part in trace.of("nvtx")] == [*NAMES[:-1], "(no name)"]
    assert {part.name for part in trace.of("kernel")} >= {*NAMES[:-1], r"\xed\xa0\x80", "(no name)"}


def test_names_of_threads_and_copies_of_any_kind(tmp_path: Path) -> None:
    named = row("ThreadNames", nameId='"%s"', priority=1, globalTid=global_id(PID, PID))
    kind = row("ENUM_CUDA_MEMCPY_OPER", id=1, name="x", label='50% "%d"')
    trace = tiny(tmp_path, named, kind, call("c", 0, 1), memcpy(1, 0, 10, 5))
    [part] = trace.of("api")
    assert (trace.owner(part), trace.lane(part)) == ('"%s"', '"%s"')
    assert [name for _, name in trace.counters] == ['50% "%d"']


def test_times_before_the_start_and_long_after_it(tmp_path: Path) -> None:
    late = 9 * 10**15 + 1  # 104 days
    trace = tiny(
        tmp_path, kernel("early", -1500, -1), kernel("around", -1, 1), kernel("late", late, late + 1)
    )
    kernels = trace.of("kernel")
    assert {part.name: (part.start - 1500, part.end - 1500) for part in kernels} == {
        "early": (-1500, -1),
        "around": (-1, 1),
        "late": (late, late + 1),
    }
    assert trace.about["time_shift_ns"] == "1500"


def test_the_selection_is_drawn_alone_whole_or_cut(tmp_path: Path) -> None:
    rows = [nvtx("step", 0, 100), kernel("a", 10, 20), kernel("b", 30, 60), kernel("c", 70, 80, deviceId=1)]
    faults = um_cpu_fault(1, 5), um_cpu_fault(1, 55)
    capture = Columns(opened(tmp_path, *rows, *faults, call("cudaLaunchKernel", 5, 9, 0)).path)
    part = traced(capture.select(time="40/75", device=0), tmp_path)
    host_code = CAUSE_NAMES["host"]
    assert [(p.name, p.start, p.end) for p in part.slices] == [
        ("b", 30, 60),
        ("step", 0, 100),
        (host_code, 60, 75),
    ]
    assert [event.start for event in part.instants] == [55]
    assert part.flows == []
    cut = traced(capture.select(time="40/75", clip=True), tmp_path)
    drawn = {(p.name, p.start, p.end) for p in cut.slices if p.kind != IDLE}
    assert drawn == {("step", 40, 75), ("b", 40, 60), ("c", 70, 75)}
    assert part.about["selection"] == "time 0.00000004s/0.000000075s; device 0; whole rows (--clip no)"


def test_no_gpu_work_and_no_nvtx_table(tmp_path: Path) -> None:
    trace = tiny(tmp_path, call("cudaGetDeviceCount", 0, 5))
    assert [part.name for part in trace.slices] == ["cudaGetDeviceCount"]
    trace = tiny(tmp_path, kernel("k", 0, 5), memset(5, 6, 1), without=["globalPid", "contextId"])
    assert sorted(trace.lane(part) for part in trace.slices) == ["stream 7", "stream 7"]


def test_more_gpus_than_can_be_judged_are_drawn_without_steps_and_idle_time(tmp_path: Path) -> None:
    trace = compose(opened(tmp_path, *(kernel("k", i, i + 1, deviceId=i) for i in range(1_025))))
    assert trace.contents() == ["1,025 kernels"]
    why = (
        "1,025 pairs of a process and a GPU: at most 1,024 are judged; select some with --process or --device"
    )
    assert trace.left_out[0] == f"steps and idle time ({why})"


def test_nothing_to_draw_is_said(tmp_path: Path) -> None:
    capture = opened(tmp_path, row("TARGET_INFO_GPU", id=0, name="GPU"), empty=[KERNEL])
    with pytest.raises(NotInCapture, match=r"no event of this capture can be drawn\n") as caught:
        compose(capture)
    assert "--trace" in caught.value.hint
    (tmp_path / "b").mkdir()
    with pytest.raises(NotInCapture, match=r"can be drawn \(time 0.00000005s/60ns") as caught:
        compose(opened(tmp_path / "b", kernel("k", 0, 5)).select(time="50/60"))
    assert caught.value.hint == "select more of the capture"


def test_several_captures_stand_on_one_time_axis(tmp_path: Path) -> None:
    """The second rank starts 1 ms after the first, and the files come in the order of rank."""
    captures = []
    for rank, started in enumerate((5_000_000_000, 5_001_000_000)):
        folder = tmp_path / f"{rank}"
        folder.mkdir()
        session = row("TARGET_INFO_SESSION_START_TIME", utcEpochNs=started)
        captures.append(opened(folder, session, call("cudaLaunchKernel", 10, 20, 1), kernel("k", 30, 40, 1)))
    write(compose(*captures, labels=("rank 0", "rank 1")), tmp_path / "t.pftrace.gz")
    trace = read(tmp_path / "t.pftrace.gz")
    assert trace.started_ns == 5_000_000_000
    assert [(trace.owner(part), part.start) for part in trace.of("kernel")] == [
        ("rank 0: GPU 0", 30),
        ("rank 1: GPU 0", 1_000_030),
    ]
    assert [(trace.owner(a), trace.owner(b)) for a, b in trace.flows] == [
        ("rank 0: process", "rank 0: GPU 0"),
        ("rank 1: process", "rank 1: GPU 0"),
    ]


def test_captures_without_events_or_recorded_far_apart_are_noted(tmp_path: Path) -> None:
    day = 86_400 * 10**9
    captures = []
    for name, started, events in (
        ("a", 0, [kernel("k", 30, 40)]),
        ("b", 3 * day, [kernel("k", 30, 40), kernel("k", 50, 60)]),
        ("c", 3 * day + 15, [kernel("k", 30, 40)]),
        ("d", day, []),
    ):
        (tmp_path / name).mkdir()
        session = row("TARGET_INFO_SESSION_START_TIME", utcEpochNs=1 + started)
        captures.append(opened(tmp_path / name, session, *events))
    assert compose(*captures, labels="abcd").notes == [
        "d: no event of this capture can be drawn",
        (
            "b begins 3.0 days after the end of a, so most of the timeline is empty: export captures that "
            "were not recorded together one by one"
        ),
    ]
    assert compose(*captures[1:3], labels="bc").notes == []


def test_captures_without_a_start_are_not_put_on_one_axis(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 0, 5))
    with pytest.raises(NotInCapture, match="start of the recording is missing"):
        compose(capture, capture, labels=("rank 0", "rank 1"))


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
