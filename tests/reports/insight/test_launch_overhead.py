from pathlib import Path

import pytest
from report_tables import csv_of, values_of
from tiny_export import Row, call, graph, kernel, opened

from nsyswrap.render.formats.text import table_lines
from nsyswrap.render.notebook import table_html
from nsyswrap.reports.insight.launch_overhead import REPORT as REPORTED
from nsyswrap.reports.table import Table

REPORT = "launch_overhead"
HEADER = (
    "launches,first_launches,repeat_launches,first_api_ns,first_cost_ns,api_total_ns,api_avg_ns,api_med_ns,api_p95_ns,"
    "api_p99_ns,uncontended,latency_avg_ns,latency_med_ns,latency_p95_ns,latency_p99_ns,queue_total_ns,"
    "queue_med_ns,dependency_total_ns,dependency_med_ns,kernel_total_ns,kernel_med_ns,api_per_kernel,name\n"
)
ALL = "[all launches]"


def launch(  # noqa: PLR0913 - what a launch is
    number: int, start: int, *, api: int, wait: int, gpu: int, name: str = "k"
) -> list[Row]:
    """A call of ``api`` ns, and its kernel ``wait`` ns after the call's return."""
    begin = start + api + wait
    return [
        call("cudaLaunchKernel", start, start + api, number),
        kernel(name, begin, begin + gpu, number, shortName=name.partition("<")[0]),
    ]


def report(folder: Path, *rows: Row) -> Table:
    return opened(folder, *rows).report(REPORT)


def figures(table: Table, *columns: str) -> dict[object, tuple[object, ...]]:
    """The values of these columns by name, in the table's order."""
    return {name: tuple(values) for name, *values in values_of(table, "name", *columns)}


# CPU  F[0...100) L2[200.210) L3[300..330)   L4[400.410)
# GPU            f[150,160)  k2[215...235)  k3[320......405)  k4[425,430)
FOUR = [
    *launch(1, 0, api=100, wait=50, gpu=10),
    *launch(2, 200, api=10, wait=5, gpu=20),
    *launch(3, 300, api=30, wait=-10, gpu=85),  # it starts before its call returns
    *launch(4, 400, api=10, wait=15, gpu=5),  # behind the one before until 405: its call runs until 410
]


# CPU  F[0...100)            L2[200,210)             L3[300 ... 320)
# GPU            k[150,160)             k[215,225)                  k[325,345)
def test_one_kernel(tmp_path: Path) -> None:
    rows = [*launch(1, 0, api=100, wait=50, gpu=10), *launch(2, 200, api=10, wait=5, gpu=10)]
    capture = opened(tmp_path, *rows, *launch(3, 300, api=20, wait=5, gpu=20))
    # the repeats: 10 and 20 ns in calls, 15 and 25 from call to kernel, 5 and 5 in the queue, 10 and 20 of
    # GPU time; the first call took 100, the median of the others is 15
    figures = "3,1,2,100,85.0,30,15.0,15.0,20.0,20.0,2,20.0,20.0,25.0,25.0,10,5.0,0,0.0,30,15.0,1.0"
    assert csv_of(capture, REPORT) == f"{HEADER}{figures},[all launches]\n{figures},k\n"


def test_first_launches_stand_apart_from_repeats(tmp_path: Path) -> None:
    table = report(tmp_path, *FOUR)
    assert figures(table, "launches", "first_launches", "first_api_ns", "first_cost_ns") == {
        ALL: (4, 1, 100, 90.0),  # the median repeat takes 10
        "k": (4, 1, 100, 90.0),
    }
    assert figures(table, "api_total_ns", "api_avg_ns", "api_med_ns", "api_p95_ns", "api_p99_ns") == {
        ALL: (50, pytest.approx(50 / 3), 10.0, 30.0, 30.0),
        "k": (50, pytest.approx(50 / 3), 10.0, 30.0, 30.0),
    }
    kernels = figures(table, "kernel_total_ns", "kernel_med_ns", "api_per_kernel")
    assert kernels["k"] == (110, 20.0, pytest.approx(50 / 110))


def test_latencies_are_of_launches_into_an_idle_stream(tmp_path: Path) -> None:
    table = report(tmp_path, *FOUR)
    latency = ("latency_avg_ns", "latency_med_ns", "latency_p95_ns", "latency_p99_ns")
    # L2 and L3 find the stream idle: 15 and 20. L4 comes while k3 runs.
    assert figures(table, "uncontended", *latency)["k"] == (2, 17.5, 17.5, 20.0, 20.0)
    waits = ("queue_total_ns", "queue_med_ns", "dependency_total_ns", "dependency_med_ns")
    assert figures(table, *waits)["k"] == (5 + 0 + 15, 5.0, 0, 0.0)


def test_a_wait_for_the_kernel_before_is_a_dependency_and_no_queue(tmp_path: Path) -> None:
    # CPU  L1[0,5) L2[10,20) L3[22,30)
    # GPU         k1[6 ............ 50) k2[53,60) k3[60,61)
    rows = [*launch(1, 0, api=5, wait=1, gpu=44), *launch(2, 10, api=10, wait=33, gpu=7)]
    table = report(tmp_path, *rows, *launch(3, 22, api=8, wait=30, gpu=1))
    waits = ("queue_total_ns", "queue_med_ns", "dependency_total_ns", "dependency_med_ns")
    # dependency 50 - 20 and 60 - 30, queue 53 - 50 and 60 - 60
    assert figures(table, *waits)["k"] == (3, 1.5, 60, 30.0)
    assert figures(table, "uncontended", "latency_med_ns", "latency_p99_ns")["k"] == (0, None, None)


def test_kernels_come_by_what_their_repeats_cost_and_those_without_last(tmp_path: Path) -> None:
    table = report(
        tmp_path,
        *launch(1, 0, api=100, wait=1, gpu=1, name="often"),
        *launch(2, 1000, api=900, wait=1, gpu=1, name="long once"),
        *launch(3, 2000, api=700, wait=1, gpu=1, name="once"),
        *launch(4, 3000, api=6, wait=1, gpu=1, name="twice"),
        *launch(5, 4000, api=8, wait=1, gpu=1, name="twice"),
        *launch(6, 5000, api=6, wait=1, gpu=1, name="often"),
        *launch(7, 6000, api=6, wait=1, gpu=1, name="often"),
    )
    # The repeats take 8, 6 and 6: a median of 6, which stands in for those that have none of their own.
    assert figures(table, "launches", "api_total_ns", "first_api_ns", "first_cost_ns", "api_med_ns") == {
        ALL: (7, 20, 1706, 94 + 894 + 694 - 2, 6.0),
        "often": (3, 12, 100, 94.0, 6.0),
        "twice": (2, 8, 6, -2.0, 8.0),
        "long once": (1, None, 900, 894.0, None),
        "once": (1, None, 700, 694.0, None),
    }
    assert list(figures(table)) == [ALL, "often", "twice", "long once", "once"]


def test_a_single_launch_is_shown_and_what_it_cannot_tell_is_missing(tmp_path: Path) -> None:
    table = report(tmp_path, *launch(1, 0, api=100, wait=5, gpu=10))
    known = {"launches": 1, "first_launches": 1, "repeat_launches": 0, "first_api_ns": 100, "uncontended": 0}
    for values, name in zip(table.rows(), (ALL, "k"), strict=True):
        shown = dict(zip([column.name for column in table.columns], values, strict=True))
        assert {field: value for field, value in shown.items() if value is not None} == {
            **known,
            "name": name,
        }


def test_a_selection_without_first_launches_has_no_cost_of_them(tmp_path: Path) -> None:
    table = opened(tmp_path, *FOUR).select(time="190/").report(REPORT)
    assert figures(table, "launches", "first_launches", "first_api_ns", "first_cost_ns", "api_total_ns") == {
        ALL: (3, 0, None, None, 50),
        "k": (3, 0, None, None, 50),
    }


@pytest.mark.parametrize("whole", [True, False])
def test_a_graph_is_one_launch_recorded_as_a_whole_or_by_nodes(tmp_path: Path, *, whole: bool) -> None:
    rows: list[Row] = []
    for i in range(2):
        start = 100 * i
        rows.append(call("cudaGraphLaunch", start, start + 10, i + 1))
        if whole:
            rows.append(graph(start + 12, start + 32, i + 1))
        else:
            rows += [
                kernel(
                    f"node {n}", start + 12 + 10 * n, start + 22 + 10 * n, i + 1, graphNodeId=(3 << 32) + n
                )
                for n in range(2)
            ]
    table = report(tmp_path, *rows)
    assert figures(table, "launches", "first_launches", "kernel_med_ns", "latency_med_ns") == {
        ALL: (2, 1, 20.0, 12.0),
        "[CUDA graph]": (2, 1, 20.0, 12.0),
    }


def test_a_kernel_before_its_call_is_counted_said_and_in_no_latency(tmp_path: Path) -> None:
    rows = [*launch(1, 0, api=10, wait=-30, gpu=5), *launch(2, 100, api=10, wait=-14, gpu=5)]
    table = report(tmp_path, *rows, *launch(3, 200, api=10, wait=5, gpu=5))
    assert figures(table, "uncontended", "latency_avg_ns", "latency_med_ns")["k"] == (1, 15.0, 15.0)
    [note] = table.notes
    assert note.startswith("repeat launches that start on the GPU before their call: 1, by up to 4 ns;")


def test_kernels_that_took_no_time_have_no_ratio(tmp_path: Path) -> None:
    rows = [*launch(1, 0, api=10, wait=5, gpu=0), *launch(2, 100, api=10, wait=5, gpu=0)]
    assert figures(report(tmp_path, *rows), "kernel_total_ns", "api_per_kernel")["k"] == (0, None)


def test_kernels_without_their_call_are_said(tmp_path: Path) -> None:
    table = report(tmp_path, *launch(1, 0, api=10, wait=5, gpu=5), kernel("k", 60, 65, 9))
    assert figures(table, "launches")["k"] == (1,)
    assert table.notes == ("kernels and graphs without a recorded launch call: 1; not included",)


def test_names_are_those_of_the_view(tmp_path: Path) -> None:
    rows = launch(1, 0, api=10, wait=5, gpu=5, name="k<int>")
    rows += launch(2, 100, api=10, wait=5, gpu=5, name="k<float>")
    table = opened(tmp_path, *rows).viewed(names="base").report(REPORT)
    # two kernels still: each has its first launch
    assert figures(table, "launches", "first_launches") == {ALL: (2, 2), "k": (2, 2)}


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 9])
def test_the_first_rows_alone_are_those_of_the_whole_table(rows: int, tmp_path: Path) -> None:
    mixed = [  # the repeats of a to d cost as much, those of f more, and e was never launched again
        *(launch(i, 1_000 * i, api=20 + i % 3, wait=5, gpu=9 + i, name="abcd"[i % 4]) for i in range(1, 17)),
        launch(20, 20_000, api=70, wait=5, gpu=9, name="e"),
        *(launch(i, 1_000 * i, api=90, wait=5, gpu=9, name="f") for i in (21, 22)),
    ]
    capture = opened(tmp_path, *(row for one in mixed for row in one))
    whole, first = (report.make(capture) for report in (REPORTED, REPORTED.top(rows)))
    assert first.rows() == whole.rows(rows)
    assert len(first) + first.left_out == len(whole) == 7
    names = whole.columns[-1]
    assert sorted(map(str, first.names_of(names))) == sorted(map(str, whole.names_of(names)))


def test_rows_that_were_not_computed_are_counted_and_number_names(tmp_path: Path) -> None:
    template = (
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, {}>(int)"
    )
    names = [template.format(number) for number in (3, 2, 1)]
    rows = [launch(i, 1_000 * i, api=50 - i, wait=5, gpu=9, name=names[i % 3]) for i in range(1, 10)]
    capture = opened(tmp_path, *(row for one in rows for row in one))
    whole, first = (report.make(capture) for report in (REPORTED, REPORTED.top(2)))
    shown, alone = (list(map(str, table_lines(table, 80, top=2, whole=""))) for table in (whole, first))
    assert alone == shown
    assert any(line.endswith("#2") for line in shown)
    assert "2 more rows" in table_html(first)
