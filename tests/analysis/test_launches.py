"""What each launch cost, on exports small enough to draw."""

from pathlib import Path

import pytest
from tiny_export import Row, call, graph, kernel, memcpy, memset, nvtx, opened

from nsyswrap.analysis.gpu_operations import gpu_operations_of
from nsyswrap.analysis.launches import Launches, launches_of
from nsyswrap.capture.selection import parse_selection

GRAPH_7 = 7 << 32  # what the ids of the nodes of graph 7 begin with


def launches(folder: Path, *rows: Row) -> Launches:
    return launches_of(opened(folder, *rows))


def test_a_launch_into_an_idle_stream_has_a_latency_and_no_dependency(tmp_path: Path) -> None:
    # CPU  L[10..20)
    # GPU                k[26..40)
    found = launches(tmp_path, call("cudaLaunchKernel", 10, 20, 1), kernel("k", 26, 40, 1))
    assert found.uncontended.tolist() == [True]
    assert (found.api_ns.tolist(), found.gpu_ns.tolist()) == ([10], [14])
    assert found.latency_ns.tolist() == [16]
    assert (found.dependency_ns.tolist(), found.queue_ns.tolist()) == ([0], [6])


def test_a_launch_behind_a_kernel_depends_on_it_and_then_queues(tmp_path: Path) -> None:
    # CPU  L[0..5) L[10..20)
    # GPU         k[6 ............ 50)  k[53..60)
    rows = [call("cudaLaunchKernel", 0, 5, 1), kernel("k", 6, 50, 1)]
    rows += [call("cudaLaunchKernel", 10, 20, 2), kernel("k", 53, 60, 2)]
    found = launches(tmp_path, *rows)
    assert found.uncontended.tolist() == [True, False]
    assert found.dependency_ns.tolist() == [0, 30]  # from 20 to 50
    assert found.queue_ns.tolist() == [1, 3]  # from 50 to 53


def test_the_launches_of_one_range(tmp_path: Path) -> None:
    # CPU  a[5 .. L[10..20) .. 50)   b[105 .. L[110..125) .. 150)
    rows = [call("cudaLaunchKernel", 10, 20, 1), kernel("k", 26, 40, 1), nvtx("a", 5, 50)]
    rows += [call("cudaLaunchKernel", 110, 125, 2), kernel("k", 127, 140, 2), nvtx("b", 105, 150)]
    whole = opened(tmp_path, *rows)
    selected = {
        name: launches_of(whole.viewed(selection=parse_selection(nvtx=name))).latency_ns for name in "ab"
    }
    assert {name: values.tolist() for name, values in selected.items()} == {"a": [16], "b": [17]}


def test_a_stream_that_ran_dry_during_the_call_is_no_dependency(tmp_path: Path) -> None:
    # CPU        L[10 ..... 20)
    # GPU  k[0 ....... 15)      k[24..30)
    rows = [kernel("k", 0, 15), call("cudaLaunchKernel", 10, 20, 2), kernel("k", 24, 30, 2)]
    found = launches(tmp_path, *rows)
    assert found.uncontended.tolist() == [False]
    assert (found.dependency_ns.tolist(), found.queue_ns.tolist()) == ([0], [4])


@pytest.mark.parametrize(
    ("elsewhere", "uncontended"),
    [({}, False), ({"streamId": 8}, True), ({"deviceId": 1}, True), ({"contextId": 2}, True)],
)
def test_only_what_runs_in_the_same_stream_is_in_the_way(
    tmp_path: Path, *, elsewhere: dict[str, int], uncontended: bool
) -> None:
    rows = [memcpy(1, 0, 50, 8, **elsewhere), call("cudaLaunchKernel", 10, 20, 2), kernel("k", 60, 70, 2)]
    found = launches(tmp_path, *rows)
    assert found.uncontended.tolist() == [uncontended]
    assert found.dependency_ns.tolist() == [0 if uncontended else 30]


def test_migrations_of_unified_memory_are_in_nobodys_way(tmp_path: Path) -> None:
    rows = [memcpy(11, 0, 50, 8), call("cudaLaunchKernel", 10, 20, 2), kernel("k", 60, 70, 2)]
    assert launches(tmp_path, *rows).uncontended.tolist() == [True]


def test_a_kernel_that_seems_to_start_before_its_call_has_a_negative_latency(tmp_path: Path) -> None:
    found = launches(tmp_path, call("cudaLaunchKernel", 10, 20, 1), kernel("k", 7, 12, 1))
    assert found.latency_ns.tolist() == [-3]
    assert (found.dependency_ns.tolist(), found.queue_ns.tolist()) == ([0], [0])


def test_a_runtime_call_and_the_driver_call_below_it_are_one_launch(tmp_path: Path) -> None:
    rows = [call("cuLaunchKernel", 12, 18, 1, eventClass=1), call("cudaLaunchKernel", 10, 20, 1)]
    found = launches(tmp_path, *rows, kernel("k", 26, 40, 1))
    assert (found.call.tolist(), found.api_ns.tolist(), found.operations.tolist()) == ([1], [10], [1])


def test_two_processes_use_the_same_correlation_ids(tmp_path: Path) -> None:
    found = launches(
        tmp_path,
        kernel("k", 100, 101, 1, pid=200),
        kernel("k", 10, 40, 1, pid=100),
        kernel("k", 210, 220, 2, pid=200),
        call("cudaLaunchKernel", 0, 5, 1, pid=100),
        call("cudaLaunchKernel", 90, 97, 1, pid=200),
        call("cudaLaunchKernel", 200, 202, 2, pid=200),
    )
    assert found.api_ns.tolist() == [5, 7, 2]
    assert found.gpu_ns.tolist() == [30, 1, 10]
    assert found.first.tolist() == [True, True, False]  # each process loads its kernels for itself


def test_launches_come_in_the_order_of_their_calls(tmp_path: Path) -> None:
    rows = [kernel("a", 50, 60, 1), kernel("b", 70, 90, 2)]
    rows += [call("cudaLaunchKernel", 20, 30, 1), call("cudaLaunchKernel", 0, 11, 2)]
    capture = opened(tmp_path, *rows)
    found = launches_of(capture)
    assert found.call.tolist() == [1, 0]
    assert [found.names[code] for code in found.name] == ["b", "a"]
    assert (found.api_ns.tolist(), found.gpu_ns.tolist()) == ([11, 10], [20, 10])
    assert gpu_operations_of(capture).row[found.operation].tolist() == [1, 0]


def test_the_first_launch_is_that_of_the_first_call(tmp_path: Path) -> None:
    rows = [kernel("a", 50, 60, 1), kernel("a", 70, 90, 2)]  # streams are no queue across each other
    rows += [call("cudaLaunchKernel", 20, 30, 1), call("cudaLaunchKernel", 0, 11, 2)]
    assert launches(tmp_path, *rows).first.tolist() == [True, False]


def test_a_graph_recorded_node_by_node_is_one_launch_with_all_its_nodes(tmp_path: Path) -> None:
    # CPU  G[0..10)
    # GPU      memcpy[12..15)  k[20..30)
    #                            l[25..35)  memset[40..41)
    found = launches(
        tmp_path,
        call("cudaGraphLaunch", 0, 10, 1),
        kernel("l", 25, 35, 1, graphNodeId=GRAPH_7 + 2, streamId=8),
        kernel("k", 20, 30, 1, graphNodeId=GRAPH_7 + 1),
        memcpy(8, 12, 15, 64, correlationId=1, graphNodeId=GRAPH_7),
        memset(40, 41, 64, correlationId=1, graphNodeId=GRAPH_7 + 3),
    )
    assert [found.names[code] for code in found.name] == ["[CUDA graph]"]
    assert found.operations.tolist() == [4]
    assert found.gpu_ns.tolist() == [3 + 10 + 10 + 1]
    assert found.latency_ns.tolist() == [12]


def test_a_graph_recorded_as_a_whole_is_one_launch(tmp_path: Path) -> None:
    found = launches(tmp_path, call("cudaGraphLaunch", 0, 10, 1), graph(12, 40, 1))
    assert [found.names[code] for code in found.name] == ["[CUDA graph]"]
    assert (found.gpu_ns.tolist(), found.latency_ns.tolist()) == ([28], [12])


@pytest.mark.parametrize("whole", [True, False])
def test_every_graph_has_a_first_launch(tmp_path: Path, *, whole: bool) -> None:
    rows: list[Row] = []
    for i, number in enumerate((3, 4, 3)):
        start = 100 * i
        rows.append(call("cudaGraphLaunch", start, start + 10, i + 1))
        if whole:
            rows.append(graph(start + 12, start + 40, i + 1, graphExecId=number))
        else:
            rows.append(kernel("k", start + 12, start + 40, i + 1, graphNodeId=number << 32))
    assert launches(tmp_path, *rows).first.tolist() == [True, True, False]


def test_graphs_of_an_export_without_their_ids_are_one(tmp_path: Path) -> None:
    rows = [call("cudaGraphLaunch", 0, 10, 1), graph(12, 40, 1), call("cudaGraphLaunch", 50, 60, 2)]
    capture = opened(tmp_path, *rows, graph(62, 80, 2), without=("graphExecId",))
    assert launches_of(capture).first.tolist() == [True, False]


def test_a_kernel_stays_itself_however_it_is_called(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        nvtx("step", 0, 100),
        *(call("cudaLaunchKernel", 0, 10, 1), kernel("k<int>", 12, 20, 1, shortName="k")),
        *(call("cudaLaunchKernel", 30, 40, 2), kernel("k<float>", 42, 50, 2, shortName="k")),
        *(call("cudaLaunchKernel", 130, 140, 3), kernel("k<int>", 142, 150, 3, shortName="k")),
    )
    short = launches_of(capture.viewed(names="base"))
    assert (short.names, short.first.tolist()) == (["k"], [True, True, False])
    in_ranges = launches_of(capture.viewed(nvtx_names=True))
    assert in_ranges.names == ["k<int>", "step/k<float>", "step/k<int>"]
    assert in_ranges.first.tolist() == [True, True, False]


def test_what_is_selected_keeps_its_times_and_its_history(tmp_path: Path) -> None:
    # CPU  L1[0..5)   L2[10..20)              L3[70..80)
    # GPU         k[6 ........... 50)  k[53..60)       k[90..95)
    capture = opened(
        tmp_path,
        *(call("cudaLaunchKernel", 0, 5, 1), kernel("k", 6, 50, 1)),
        *(call("cudaLaunchKernel", 10, 20, 2), kernel("k", 53, 60, 2)),
        *(call("cudaLaunchKernel", 70, 80, 3), kernel("k", 90, 95, 3)),
    )
    found = launches_of(capture.select(time="15/55", clip=True))
    assert found.call.tolist() == [1]  # the others' call or kernel is not in the window
    assert (found.api_ns.tolist(), found.gpu_ns.tolist()) == ([10], [7])  # not cut off
    assert (found.first.tolist(), found.dependency_ns.tolist()) == ([False], [30])
    assert len(launches_of(capture.select(device=1))) == 0
    assert len(launches_of(capture)) == 3


def test_kernels_without_their_call_and_calls_without_a_kernel_are_no_launch(tmp_path: Path) -> None:
    found = launches(tmp_path, kernel("k", 0, 5, 1), call("cudaMalloc", 0, 1, 2))
    assert (len(found), found.names) == (0, [])


def test_without_any_calls_nothing_was_launched(tmp_path: Path) -> None:
    assert len(launches(tmp_path, kernel("k", 0, 5, 1))) == 0


def test_a_copy_is_no_launch(tmp_path: Path) -> None:
    rows = [call("cudaMemcpyAsync", 0, 5, 1), memcpy(1, 6, 8, 64, correlationId=1)]
    assert len(launches(tmp_path, *rows)) == 0
