"""nvtx_tree: GPU time in ranges and modules as a tree, whose sums are exact."""

import lzma
from pathlib import Path
from typing import Any

import pytest
from made_modules import Training, training
from report_tables import notes_text, records_of, table_of
from tiny_export import (
    API,
    MEMORY_USE,
    PID,
    Row,
    allocation,
    call,
    domain,
    global_id,
    graph,
    kernel,
    nvtx,
    opened,
)

from nsyswrap import open_capture, reports
from nsyswrap.api import CaptureReader
from nsyswrap.base.errors import UsageError
from nsyswrap.capture.schema import FREED
from nsyswrap.reports.make import combine

Tree = dict[str, dict[str, Any]]


def tree_of(capture: CaptureReader, asked: str = "nvtx_tree:min=0") -> Tree:
    return {record["path"]: record for record in records_of(table_of(capture, asked))}


def times(tree: Tree, *columns: str) -> dict[str, tuple[int, ...]]:
    return {path: tuple(record[f"{column}_ns"] for column in columns) for path, record in tree.items()}


# Per step: embed 3; layers 10 and 20 forward, 20 + 5 and 40 + 5 backward; adam 7.
def test_kernels_of_forward_and_backward_belong_to_their_module(tmp_path: Path) -> None:
    tree = tree_of(opened(tmp_path, *training(steps=2)))
    assert times(tree, "total", "own", "forward", "backward") == {
        "GPT": (206, 6, 66, 140),
        "GPT/layers.1": (130, 130, 40, 90),
        "GPT/layers.0": (70, 70, 20, 50),
        "optimizer": (14, 14, 0, 0),
        "(no module or range)": (0, 0, 0, 0),
    }
    assert [record["range"] for record in tree.values()][:3] == ["GPT", "  layers.1", "  layers.0"]
    assert tree["GPT"]["kernels"] == 2 * 7


def test_a_row_is_its_own_time_and_that_of_its_children(tmp_path: Path) -> None:
    made = Training()
    made.range("epoch 1", 0, 5000)
    for step in range(3):
        made.step(step, layers=4, slower=step)
    made.launch("alone", 6000, 11)
    for asked in ("nvtx_tree:min=0", "nvtx_tree:min=20", "nvtx_tree:min=0:depth=1"):
        tree = tree_of(opened_in(tmp_path, asked.partition(":")[2], *made.rows), asked)
        rows = list(tree.values())
        for path, record in tree.items():
            children = [row for row in rows if row["path"].rpartition("/")[0] == path]
            assert record["total_ns"] == record["own_ns"] + sum(row["total_ns"] for row in children), path
            assert record["idle_ns"] >= sum(row["idle_ns"] for row in children)
            assert record["kernels"] >= sum(row["kernels"] for row in children)
        roots = [row for row in rows if row["depth"] == 0]
        of_step = 3 + sum(30 * i + 5 for i in (1, 2, 3, 4)) + 7
        assert sum(row["total_ns"] for row in roots) == 3 * of_step + (0 + 1 + 2) + 11
        assert sum(row["time_percent"] for row in roots) == pytest.approx(100)


def opened_in(folder: Path, name: str, *rows: Row) -> CaptureReader:
    (folder / name).mkdir()
    return opened(folder / name, *rows)


# CPU  encode[0 ................ 100)    A range that ends on another thread holds no launches.
#        launch[10 .. 40)
@pytest.mark.parametrize(("tid", "path"), [(PID, "encode/launch"), (PID + 1, "encode")])
def test_start_end_ranges_of_one_thread_hold_its_launches(tid: int, path: str, tmp_path: Path) -> None:
    of_thread = {"eventType": 60, "endGlobalTid": global_id(PID, PID)}
    rows = [
        nvtx("encode", 0, 100, **of_thread),
        nvtx("launch", 10, 40, eventType=60, endGlobalTid=global_id(PID, tid)),
        *(call("cudaLaunchKernel", 20, 30, 1), kernel("k", 35, 90, 1)),
    ]
    capture = opened(tmp_path, *rows)
    own = {path: own for path, (own,) in times(tree_of(capture), "own").items() if own}
    assert own == {path: 55}
    launches = {row[0]: row[2] for row in capture.report("nvtx_phases").rows()}
    assert launches == ({"encode": 1, "launch": 1} if tid == PID else {"encode": 1})


def test_ranges_without_modules_are_a_tree_of_names(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(nvtx("step 0", 0, 100), nvtx("step 1", 200, 300), domain("loop", 3)),
        *(nvtx("part", 10, 50, domainId=3), nvtx("part", 210, 250, domainId=3)),
        *(call("launch", 20, 25, 1), kernel("k", 30, 40, 1)),
        *(call("launch", 60, 65, 2), kernel("k", 70, 71, 2)),
        *(call("launch", 220, 225, 3), kernel("k", 230, 232, 3)),
        *(call("launch", 400, 405, 4), kernel("k", 410, 415, 4)),
        kernel("without a call", 500, 503, 99),
    )
    assert times(tree_of(capture), "total", "own") == {
        "step *": (13, 1),
        "step */loop:part": (12, 12),
        "(no range)": (8, 8),
    }


def test_a_launch_belongs_to_ranges_of_its_own_thread_alone(tmp_path: Path) -> None:
    capture = opened(
        tmp_path, nvtx("main", 0, 100), *(call("launch", 10, 15, 1, tid=101), kernel("k", 20, 30, 1))
    )
    assert times(tree_of(capture), "total") == {"(no range)": (10,)}


def test_ranges_with_the_same_times_and_without_an_end(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(nvtx("outer", 0, None), nvtx("a", 10, 50), nvtx("b", 10, 50), nvtx("last", 90, 95)),
        *(call("launch", 20, 25, 1), kernel("k", 30, 40, 1)),
        *(call("launch", 60, 65, 2), kernel("k", 70, 74, 2)),
    )
    assert times(tree_of(capture), "total", "own") == {
        "outer (not ended)": (14, 4),
        "outer (not ended)/a": (10, 0),
        "outer (not ended)/a/b": (10, 10),
    }


# CPU  outer[0 ........................... 100)   outer[200 ...... 300)
#         a[5 ..... 40)  b[50 ..... 90)             a[205 ... 240)
# GPU        k[20,25)k[31,35)  k[60,65)                k[220,225)
def test_idle_time_is_inside_the_range_around_both_launches(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(nvtx("outer", 0, 100), nvtx("a", 5, 40), nvtx("b", 50, 90)),
        *(nvtx("outer", 200, 300), nvtx("a", 205, 240)),
        *(call("launch", 10, 12, 1), kernel("k", 20, 25, 1)),
        *(call("launch", 14, 16, 2), kernel("k", 31, 35, 2)),
        *(call("launch", 55, 57, 3), kernel("k", 60, 65, 3)),
        *(call("launch", 210, 212, 4), kernel("k", 220, 225, 4)),
    )
    assert times(tree_of(capture), "idle") == {
        "outer": (6 + 25,),
        "outer/a": (6,),  # not the time between its two instances
        "outer/b": (0,),
        "(no range)": (225 - 65 - 5,),
    }


def test_the_operations_that_autograd_does_not_know_stay_on_their_thread(tmp_path: Path) -> None:
    made = Training()
    made.step(0)
    made.backward("MulBackward0", 2000, 2100, seq=77)
    made.launch("lost", 2005, 9, tid=101)
    capture = opened(tmp_path, *made.rows)
    assert times(tree_of(capture), "total", "backward")["MulBackward0"] == (9, 9)
    assert "backward operations without a known forward: 1" in notes_text(capture, "nvtx_tree")


def test_ranges_nested_deeper_than_functions(tmp_path: Path) -> None:
    rows = [nvtx("deeper", i, 10_000 - i) for i in range(1200)]
    table = table_of(
        opened(tmp_path, *rows, call("k", 2000, 2001, 1), kernel("k", 2010, 2020, 1)), "nvtx_tree"
    )
    assert len(table) == 1200
    assert records_of(table)[-1]["own_ns"] == 10


def test_depth_and_min_and_what_they_take(tmp_path: Path) -> None:
    capture = opened(tmp_path, *training())
    assert list(tree_of(capture, "nvtx_tree:depth=1:min=0")) == ["GPT", "optimizer", "(no module or range)"]
    assert list(tree_of(capture, "nvtx_tree:min=40%")) == [
        *("GPT", "GPT/layers.1", "GPT/(1 more)", "(1 more)", "(no module or range)")
    ]
    assert table_of(capture, "nvtx_tree:min=40%").left_out == 2
    with pytest.raises(UsageError, match="min=101 is out of range"):
        table_of(capture, "nvtx_tree:min=101")


def test_a_selected_part(tmp_path: Path) -> None:
    capture = opened(tmp_path, *training(steps=2)).select(time="1us/", clip=True)
    assert times(tree_of(capture), "total")["GPT"] == (103,)


def test_the_steps_that_are_named(tmp_path: Path) -> None:
    whole = opened(tmp_path, *training(steps=4))
    for steps in ("1-2", "step/1-2"):
        named = whole.viewed(steps=steps)
        assert times(tree_of(named), "total")["GPT"] == (2 * 103,)
        kernels = records_of(table_of(named, "module_kern_sum"))
        assert sum(row["total_ns"] for row in kernels) == 2 * (103 + 7)


def test_only_reports_that_judge_steps_depend_on_them(tmp_path: Path) -> None:
    whole = opened(tmp_path, *training(steps=4))
    named = whole.viewed(steps="1-2")
    for report in map(reports.find_report, reports.NAMES):
        if not report.judges_steps and not report.lacks(whole):
            assert records_of(report.make(named)) == records_of(report.make(whole)), report.name


def test_a_whole_graph_is_one_kernel(tmp_path: Path) -> None:
    capture = opened(tmp_path, nvtx("replay", 0, 100), call("cudaGraphLaunch", 10, 15, 1), graph(20, 60, 1))
    assert times(tree_of(capture), "total") == {"replay": (40,)}
    assert "whole-graph executions (1) count as one kernel each" in notes_text(capture, "nvtx_tree")


def test_the_verdict_names_what_has_the_most_time(tmp_path: Path) -> None:
    table = table_of(opened(tmp_path, *training()), "nvtx_tree")
    assert table.verdict == ("Most GPU time of its own: GPT > layers.1 59.1 %; backward passes 63.6 %.")


def named(folder: Path, *ranges: str) -> list[str]:
    """Return the rows of ranges of 100 ns with a kernel each."""
    made = Training()
    for i, text in enumerate(ranges):
        made.range(text, 100 * i, 100 * i + 90)
        made.launch("k", 100 * i + 10, 1)
    return [record["range"] for record in tree_of(opened(folder, *made.rows)).values()][:-1]


def test_numbered_siblings_are_one_row(tmp_path: Path) -> None:
    requests = [f"request {number}" for number in (5, 17, 200)]
    assert named(tmp_path, *requests, "warm-up 1", "warm-up 2") == [*("request *", "warm-up 1", "warm-up 2")]


@pytest.mark.parametrize("parts", ["layer {}", "layers.{}", "block_{}", "conv{}"])
def test_parts_of_a_model_have_a_row_each(parts: str, tmp_path: Path) -> None:
    names = [parts.format(number) for number in range(3)]
    assert named(tmp_path, *names) == names


def test_what_is_there_again_in_each_step_has_a_row_each(tmp_path: Path) -> None:
    names = [f"phase {number}" for number in range(3)]
    assert named(tmp_path, *names, *names) == names


def test_a_range_that_did_not_end_says_so(tmp_path: Path) -> None:
    made = Training()
    made.range("step 1", 0, 500)
    made.launch("k", 10, 1)
    made.rows.append(nvtx("step 2", 600, None))
    made.launch("k", 610, 2)
    made.range("part", 620, 700)
    made.launch("k", 630, 4)
    tree = tree_of(opened(tmp_path, *made.rows))
    assert times(tree, "total")["step *"] == (1,)
    assert times(tree, "total", "own")["step * (not ended)"] == (6, 2)
    assert times(tree, "total")["step * (not ended)/part"] == (4,)


@pytest.mark.parametrize(("ended_by", "ns"), [(PID, 20), (PID + 1, 0)])
def test_a_start_end_range_holds_the_launches_of_its_thread_or_a_note_says_why_not(
    tmp_path: Path, ended_by: int, ns: int
) -> None:
    """A range from 0 to 50 with a launch at 10 of a kernel of 20 ns."""
    ended = nvtx("encode", 0, 50, eventType=60, endGlobalTid=global_id(PID, ended_by))
    capture = opened(tmp_path, ended, call("cudaLaunchKernel", 10, 12, 1), kernel("k", 20, 40, 1))
    assert times(tree_of(capture), "total").get("encode", (0,)) == (ns,)
    for name in ("nvtx_tree", "nvtx_phases"):
        text = "ended on another thread than they began on: 1; no GPU work is theirs"
        assert (text in notes_text(capture, name)) is (ns == 0)


# CPU  step[0 ............................ 100)
#        forward[10 ........ 50)
#          A 40 B [20, 30)  B 10 B [25, 60)    C 5 B [70, end)    D 7 B [120, 130), pinned 9 B [125, end)
def allocating() -> list[Row]:
    sizes = {20: 40, 25: 10, 70: 5, 120: 7}
    freed = {20: 30, 25: 60, 120: 130}
    rows = [nvtx("step", 0, 100), nvtx("forward", 10, 50), nvtx("idle", 60, 65)]
    for start, size in sizes.items():
        rows += [
            call("cudaMalloc", start - 1, start, start),
            allocation(start, start, size, correlationId=start),
        ]
    rows += [allocation(start, end, 0, memoryOperationType=FREED) for start, end in freed.items()]
    rows += [allocation(9, 125, 9, memKind=1)]
    launches = {15: 200, 80: 1000, 110: 1000}
    for start, duration in launches.items():
        rows += [call("cudaLaunchKernel", start, start + 1, start)]
        rows += [kernel("k", 1000 * start, 1000 * start + duration, start)]
    return rows


MEMORY = ("memory_peak_bytes", "retained_bytes", "transient_bytes")


def memory(capture: CaptureReader, asked: str = "nvtx_tree") -> dict[str, tuple[int, ...]]:
    return {path: tuple(record[name] for name in MEMORY) for path, record in tree_of(capture, asked).items()}


def test_memory_is_retained_by_ranges_that_it_outlives(tmp_path: Path) -> None:
    assert memory(opened(tmp_path, *allocating())) == {
        "step": (50, 5, 50),
        "step/forward": (50, 10, 40),
        "(no range)": (7, 0, 7),
    }


def test_a_negative_number_of_bytes_is_retained_by_no_range(tmp_path: Path) -> None:
    expected = memory(opened_in(tmp_path, "as it was", *allocating()))
    capture = opened(
        tmp_path, *allocating(), call("cudaMalloc", 39, 41, 40), allocation(40, 40, -99, correlationId=40)
    )
    assert memory(capture) == expected
    assert "allocations of a negative number of bytes are left out: 1" in capture.report("nvtx_tree").notes


def test_only_what_was_allocated_in_the_selected_time_counts(tmp_path: Path) -> None:
    capture = opened(tmp_path, *allocating()).select(time="22ns/100us")
    assert memory(capture)["step/forward"] == (10, 10, 0)


def test_a_range_with_little_gpu_time_and_much_memory_has_a_row(tmp_path: Path) -> None:
    """200 of 2200 ns, and 50 of 62 bytes."""
    assert list(memory(opened(tmp_path, *allocating()), "nvtx_tree:min=80")) == [
        "step",
        "step/forward",
        "(no range)",
    ]


def test_memory_without_gpu_work_has_rows_too(tmp_path: Path) -> None:
    """A model is loaded before the first kernel, and 3 B in no range."""
    rows = [
        nvtx("load model", 0, 30),
        nvtx("step", 100, 200),
        *(call("cudaMalloc", start - 1, start, start) for start in (20, 50)),
        allocation(20, 20, 60, correlationId=20),
        allocation(50, 50, 3, correlationId=50),
        call("cudaLaunchKernel", 110, 111, 110),
        kernel("k", 120, 130, 110),
    ]
    assert memory(opened(tmp_path, *rows)) == {
        "step": (0, 0, 0),
        "load model": (60, 60, 0),
        "(no range)": (3, 3, 0),
    }


def test_without_recorded_memory_there_are_no_columns_of_it(tmp_path: Path) -> None:
    rows = [row for row in allocating() if row.table != MEMORY_USE]
    assert not set(MEMORY) & set(tree_of(opened(tmp_path, *rows))["step"])
    with_memory = opened_in(tmp_path, "other", *allocating()).report("nvtx_tree")
    both = combine([("a", opened_in(tmp_path, "third", *rows).report("nvtx_tree")), ("b", with_memory)])
    peaks = [record["memory_peak_bytes"] for record in both.records()]
    assert peaks == [None, None, None, 50, 50, 7]


def test_memory_of_a_backward_pass_is_that_of_its_module(tmp_path: Path) -> None:
    rows = training(steps=2)
    calls = [row.cells for row in rows if row.table == API]
    rows += [
        allocation(number, int(str(one["start"])), 8, correlationId=one["correlationId"])
        for number, one in enumerate(calls)
    ]
    found = memory(opened(tmp_path, *rows), "nvtx_tree:min=0")
    assert found["GPT"][1] == found["GPT"][0] == 2 * 7 * 8
    assert found["GPT/layers.1"] == (2 * 3 * 8, 2 * 3 * 8, 0)


def test_memory_of_a_recorded_program(tmp_path: Path) -> None:
    """It keeps 48 MiB in each of 24 steps: see the README beside the capture."""
    packed = Path(__file__).parents[2] / "data" / "memory" / "leak.sqlite.xz"
    (tmp_path / "x.sqlite").write_bytes(lzma.decompress(packed.read_bytes()))
    capture = open_capture(tmp_path / "x.sqlite")
    found, held = memory(capture), capture.report("gpu_memory").frame["at_peak_bytes"].sum()
    assert found["step */forward/remember"] == (24 * (48 << 20), 24 * (48 << 20), 0)
    assert found["step *"][0] + found["(no range)"][0] == held
