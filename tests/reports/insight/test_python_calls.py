"""python_calls: the Python lines of kernels and waits, from call stacks on paper and from a recording."""

import lzma
import shutil
import struct
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from report_tables import values_of
from table_folders import as_arrow, as_parquet
from tiny_export import Row, call, kernel, nvtx, opened

import nsyswrap
from nsyswrap.api import CaptureReader, open_capture
from nsyswrap.capture.redact import redact

REPORT = "python_calls"
RECORDED = Path(__file__).parents[2] / "data" / "python_lines" / "report.sqlite.xz"
HOOK = Path(nsyswrap.__file__).parent / "record" / "in_program" / "hook" / "nsyswrap_hook" / "steps.py"
TORCH = "/venv/lib/python3.12/site-packages/torch/nn/functional.py"
STRINGS = {
    1: "linear",
    2: TORCH,
    3: "train",
    4: "/home/me/train.py",
    5: "&lt;module&gt;",
    6: "run",
    7: "<frozen runpy>",
}
LAYER, OPTIMIZER = ((1, 2, 20), (3, 4, 7), (5, 4, 30)), ((3, 4, 9), (5, 4, 30))
OTHER_THREAD = 101


def blob(*frames: tuple[int, int, int], count: int | None = None) -> bytes:
    body = b"".join(struct.pack("<2QI4x", *frame) for frame in frames)
    head = struct.pack("<4Q", 1, 2**32 + 5, 16 + len(body), 32)
    return head + struct.pack("<Q2I", 1, 1, len(frames) if count is None else count) + body


def stack(start: int, data: bytes) -> Row:
    return nvtx(None, start, None, eventType=34, domainId=1, binaryData=data)


def read(folder: Path, *rows: Row, strings: Mapping[int, str] = STRINGS) -> CaptureReader:
    return opened(folder, *rows, strings=strings)


def lines(capture: CaptureReader, *columns: str) -> list[tuple[object, ...]]:
    return values_of(capture.report(REPORT), *columns)


def test_a_kernel_has_the_innermost_line_outside_of_libraries(tmp_path: Path) -> None:
    rows = [
        *(stack(10, blob(*LAYER)), call("cudaLaunchKernel", 10, 20, 1), kernel("k", 30, 130, 1)),
        *(stack(40, blob(*OPTIMIZER)), call("cudaLaunchKernel", 40, 50, 2), kernel("k", 200, 500, 2)),
    ]
    assert lines(read(tmp_path, *rows), "kind", "calls", "total_ns", "time_percent", "site", "innermost") == [
        ("kernel", 1, 300, 75, "train.py:9 in train", "train.py:9 in train"),
        ("kernel", 1, 100, 25, "train.py:7 in train", "torch/nn/functional.py:20 in linear"),
    ]


def test_a_stack_of_libraries_alone_has_its_innermost_line(tmp_path: Path) -> None:
    rows = [
        stack(10, blob((1, 2, 20), (6, 7, 4))),
        call("cudaLaunchKernel", 10, 20, 1),
        kernel("k", 30, 40, 1),
    ]
    assert lines(read(tmp_path, *rows), "site") == [("torch/nn/functional.py:20 in linear",)]


def test_a_call_that_takes_no_time_has_its_own_line(tmp_path: Path) -> None:
    rows = [stack(10, blob((3, 4, 7))), call("cudaLaunchKernel", 10, 10, 1), kernel("k", 30, 40, 1)]
    assert lines(read(tmp_path, *rows), "site") == [("train.py:7 in train",)]


def test_lines_of_files_of_one_name_are_apart(tmp_path: Path) -> None:
    strings = {**STRINGS, 9: "/home/me/other/train.py"}
    rows = [
        *(stack(10, blob((3, 4, 7))), call("cudaLaunchKernel", 10, 20, 1), kernel("k", 30, 130, 1)),
        *(stack(40, blob((3, 9, 7))), call("cudaLaunchKernel", 40, 50, 2), kernel("k", 200, 290, 2)),
    ]
    found = lines(read(tmp_path, *rows, strings=strings), "total_ns", "site")
    assert found == [(100, "train.py:7 in train"), (90, "train.py:7 in train")]


def test_a_call_in_a_call_has_the_line_of_the_outer_one(tmp_path: Path) -> None:
    """The kernel has the correlation id of the inner call alone; calls after the outer one have no line."""
    rows = [
        *(stack(10, blob(*LAYER)), call("cudaLaunchKernel", 10, 30, 1)),
        *(call("cuLaunchKernel", 15, 25, 2), kernel("inner", 30, 40, 2)),
        *(call("cuLaunchKernel", 31, 35, 3), kernel("after", 50, 60, 3)),
    ]
    capture = read(tmp_path, *rows)
    assert lines(capture, "name", "site") == [("inner", "train.py:7 in train")]
    assert "50.0 % of kernel time has a line" in capture.report(REPORT).notes


def test_a_payload_that_begins_with_no_call_is_no_stack(tmp_path: Path) -> None:
    """As those of nsys' periodic samples of Python, also for a thread without Python."""
    rows = [
        *(stack(10, blob(*LAYER)), call("cudaLaunchKernel", 10, 20, 1), kernel("k", 30, 40, 1)),
        *(stack(45, blob(*OPTIMIZER)), call("cudaLaunchKernel", 50, 60, 2), kernel("next", 70, 80, 2)),
        *(call("cudaLaunchKernel", 55, 60, 3, tid=OTHER_THREAD), kernel("other", 90, 100, 3)),
    ]
    found = lines(read(tmp_path, *rows), "name", "site")
    assert found == [("k", "train.py:7 in train"), ("other", "train.py:7 in train")]


def test_a_thread_without_python_has_the_line_that_its_process_came_to(tmp_path: Path) -> None:
    """As in a backward pass: the thread that called it waits meanwhile."""
    rows = [
        *(stack(10, blob(*LAYER)), call("cudaLaunchKernel", 10, 20, 1)),
        *(call("cudaLaunchKernel", 5, 8, 2, tid=OTHER_THREAD), kernel("before", 30, 40, 2)),
        *(call("cudaLaunchKernel", 40, 50, 3, tid=OTHER_THREAD), kernel("behind", 60, 70, 3)),
    ]
    assert lines(read(tmp_path, *rows), "name", "site", "innermost") == [
        ("behind", "train.py:7 in train", None)
    ]


def test_stacks_of_waits_alone_do_not_tell_where_a_thread_without_python_is(tmp_path: Path) -> None:
    """The program can have left the line of its last wait long ago."""
    rows = [
        *(stack(10, blob(*LAYER)), call("cudaMemcpyAsync", 10, 20, 1)),
        *(call("cudaLaunchKernel", 30, 40, 2), call("cudaLaunchKernel", 50, 60, 3, tid=OTHER_THREAD)),
        *(kernel("forward", 40, 50, 2), kernel("backward", 60, 70, 3)),
    ]
    assert lines(read(tmp_path, *rows), "kind", "site") == [("wait", "train.py:7 in train")]


def test_where_nsyswrap_waits_is_no_line_of_the_program(tmp_path: Path) -> None:
    """It waits for the GPU at both ends of --steps."""
    assert "\ndef drain(" in HOOK.read_text()
    strings = {**STRINGS, 8: "drain", 9: str(HOOK)}
    rows = [
        *(stack(10, blob(*LAYER)), call("cudaLaunchKernel", 10, 20, 1), kernel("k", 30, 40, 1)),
        *(stack(50, blob((8, 9, 116), (3, 4, 9))), call("cudaDeviceSynchronize", 50, 60, 2)),
    ]
    found = lines(read(tmp_path, *rows, strings=strings), "kind", "site")
    assert found == [("kernel", "train.py:7 in train")]


def test_calls_that_wait_have_their_time_on_the_host(tmp_path: Path) -> None:
    rows = [
        *(call("cudaLaunchKernel", 0, 5, 1), kernel("k", 5, 10, 1)),
        *(stack(10, blob(*LAYER)), call("cudaStreamSynchronize", 10, 40, 2)),
        call("cudaStreamSynchronize_v3020", 12, 38, 2),  # in it: not counted twice
        *(stack(50, blob(*OPTIMIZER)), call("cudaMemcpyAsync", 50, 150, 3)),
        *(stack(160, blob(*OPTIMIZER)), call("cudaMemsetAsync", 160, 170, 4)),
    ]
    assert lines(read(tmp_path, *rows), "kind", "name", "calls", "total_ns", "site") == [
        ("wait", "cudaMemcpyAsync", 1, 100, "train.py:9 in train"),
        ("wait", "cudaStreamSynchronize", 1, 30, "train.py:7 in train"),
    ]


def test_three_lines_of_each_and_ten_names(tmp_path: Path) -> None:
    rows = []
    for name in range(12):
        for line in range(4):
            at, number = 1000 * name + 100 * line, 10 * name + line
            rows += [stack(at, blob((3, 4, line + 1))), call("cudaLaunchKernel", at, at + 5, number)]
            rows += [kernel(f"k{name}", at + 10, at + 20 + name + line, number)]
    found = lines(read(tmp_path, *rows), "name", "site")
    assert found[:3] == [("k11", f"train.py:{line} in train") for line in (4, 3, 2)]
    assert [name for name, _ in found[::3]] == [f"k{name}" for name in range(11, 1, -1)]


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"\xff" * 32, b"\xff" * 48, blob(), blob(*LAYER, count=2**32 - 1), blob(*LAYER)[:47]),
        *("text", None, 5),
    ],
)
def test_what_is_no_stack_says_how_to_record_one(tmp_path: Path, data: object) -> None:
    mark = nvtx(None, 10, None, eventType=34, domainId=1, binaryData=data)
    rows = [mark, call("cudaLaunchKernel", 10, 20, 1), kernel("k", 30, 40, 1)]
    table = read(tmp_path, *rows).report(REPORT)
    assert len(table) == 0
    assert "no call stacks of Python: record with nsyswrap profile --python-lines" in str(table.notes)


@pytest.mark.parametrize("write_tables", [shutil.copy, as_parquet, as_arrow])
def test_a_stack_without_a_time_is_none(write_tables: Callable[[Path, Path], Path], tmp_path: Path) -> None:
    mark = stack(10, blob(*OPTIMIZER))
    rows = [stack(10, blob(*LAYER)), Row(mark.table, {**mark.cells, "start": None})]
    rows += [call("cudaLaunchKernel", 10, 20, 1), kernel("k", 30, 40, 1)]
    capture = open_capture(write_tables(read(tmp_path, *rows).path, tmp_path / "written"))
    assert lines(capture, "calls", "site") == [(1, "train.py:7 in train")]


def test_unknown_texts(tmp_path: Path) -> None:
    rows = [stack(10, blob((8, 9, 3))), call("cudaLaunchKernel", 10, 20, 1), kernel("k", 30, 40, 1)]
    assert lines(read(tmp_path, *rows), "site") == [("?:3 in ?",)]


def test_redacting_leaves_the_lines_without_the_user(tmp_path: Path) -> None:
    """The payload has ids of texts, which no other event has."""
    strings = {**STRINGS, 4: "/home/zaphod/train.py"}
    rows = [stack(10, blob(*LAYER)), call("cudaLaunchKernel", 10, 20, 1), kernel("k", 30, 40, 1)]
    export = read(tmp_path, *rows, strings=strings).path
    redact(export, tmp_path / "redacted.sqlite")
    assert b"zaphod" not in (tmp_path / "redacted.sqlite").read_bytes()
    assert lines(open_capture(tmp_path / "redacted.sqlite"), "site") == [("train.py:7 in train",)]


def test_the_lines_of_a_training(tmp_path: Path) -> None:
    """Line 12 is the forward pass, 14 backward(), 15 the optimizer, 17 item(), 18 cpu(), 25 synchronize()."""
    path = tmp_path / "report.sqlite"
    path.write_bytes(lzma.decompress(RECORDED.read_bytes()))
    capture = open_capture(path)
    every = lines(capture, "kind", "name", "calls", "total_ns", "site")
    kernels = {(calls, ns, site) for kind, _, calls, ns, site in every if kind == "kernel"}
    assert kernels >= {
        (48, 214_496, "lines.py:14 in train_step"),  # nvjet_sm90_tst_64x64_64x13_2x1_v_bz_NNT
        (4, 248_832, "lines.py:15 in train_step"),  # of fused AdamW
        (24, 86_240, "lines.py:12 in train_step"),
    }
    assert [row[1:] for row in every if row[0] == "wait"] == [
        ("cudaMemcpyAsync", 2, 1_920_152, "lines.py:18 in train_step"),
        ("cudaMemcpyAsync", 2, 45_096, "lines.py:17 in train_step"),
        ("cudaMemcpyAsync", 2, 35_383, "lines.py:12 in train_step"),
        ("cudaStreamSynchronize", 2, 746_994, "lines.py:12 in train_step"),
        ("cudaStreamSynchronize", 2, 203_016, "lines.py:17 in train_step"),
        ("cudaStreamSynchronize", 2, 18_908, "lines.py:18 in train_step"),
        ("cudaDeviceSynchronize", 2, 37_168, "lines.py:25 in <module>"),
    ]
    step = [row for row in lines(capture.select(nvtx="step 8"), "name", "calls", "site") if row[1] == 1]
    assert ("cudaStreamSynchronize", 1, "lines.py:17 in train_step") in step
    hidden = "site-packages/transformers/masking_utils.py:755 in find_packed_sequence_indices"
    assert (746_994, hidden) in lines(capture, "total_ns", "innermost")  # the wait in the forward pass
    assert "90.9 % of kernel time has a line" in capture.report(REPORT).notes
