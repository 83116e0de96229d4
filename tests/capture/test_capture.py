"""A capture: opened from a file or a run folder, read in the field's terms."""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tiny_export import (
    API,
    KERNEL,
    NVTX,
    Row,
    call,
    changed,
    diagnostic,
    domain,
    global_id,
    kernel,
    memcpy,
    nvtx,
    opened,
    row,
    write,
)

from nsyswrap import open_capture
from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import CaptureError, NotACapture, NotInCapture, UsageError
from nsyswrap.base.run_facts import COLUMNS
from nsyswrap.base.run_folder import CONDITIONS
from nsyswrap.capture import info, schema
from nsyswrap.capture.info import read_samples
from nsyswrap.capture.selection import KernelNames


def test_an_export_is_opened_by_a_path_or_its_name(tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", kernel("k", 0, 5))
    assert open_capture(path).count("kernel") == open_capture(str(path)).count("kernel") == 1


def test_a_run_folder_is_opened_by_its_export(tmp_path: Path) -> None:
    write(tmp_path / "report.sqlite", kernel("k", 0, 5))
    assert open_capture(tmp_path).path == tmp_path / "report.sqlite"


def test_a_run_that_left_no_export_says_how_it_ended(tmp_path: Path) -> None:
    status = {"outcome": "interrupted", "program_code": None, "nsys_code": 0, "exit_code": 130}
    (tmp_path / "status.json").write_text(json.dumps(status), encoding="utf-8")
    with pytest.raises(NotACapture, match=r"outcome: interrupted") as caught:
        open_capture(tmp_path)
    assert caught.value.hint == f"see {tmp_path}/nsys.log"


def test_any_other_folder_is_no_run_folder(tmp_path: Path) -> None:
    with pytest.raises(NotACapture, match=r"not a run folder: report\.sqlite is missing"):
        open_capture(tmp_path)


def test_a_missing_and_an_empty_table_have_no_events(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 0, 5), empty=[API])
    assert [capture.has(kind) for kind in ("kernel", "api", "nvtx")] == [True, False, False]
    assert [capture.count(kind) for kind in ("kernel", "api", "nvtx")] == [1, 0, 0]


def test_a_stream_of_fields_that_the_export_lacks_has_columns_without_values(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 0, 5), kernel("k", 9, 12))
    fields = ("graph_node_id",)
    expected = capture.columns("kernel", *fields)["graph_node_id"]
    streamed = capture.stream("kernel", fields, dict)["graph_node_id"]
    assert streamed.tolist() == expected.tolist() == [MISSING, MISSING]


def test_a_stream_of_a_missing_table_names_what_collects_it(tmp_path: Path) -> None:
    with pytest.raises(NotInCapture, match=r"no CUDA API calls in this capture"):
        opened(tmp_path, kernel("k", 0, 5)).stream("api", ("start_ns",), dict)


@pytest.mark.parametrize("kind", schema.EVENTS)
def test_columns_of_a_missing_table_name_what_collects_them(tmp_path: Path, kind: str) -> None:
    capture = opened(tmp_path, row("TARGET_INFO_NVTX", id=0))
    with pytest.raises(NotInCapture, match=f"no {schema.EVENTS[kind].title} in this capture") as caught:
        capture.columns(kind, next(iter(schema.EVENTS[kind].fields)))
    assert caught.value.hint == f"collect with {schema.collecting(schema.EVENTS[kind])}"


def test_a_column_that_cannot_be_done_without(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 0, 5), without=["streamId"])
    with pytest.raises(NotInCapture, match=f"{KERNEL} has no column streamId; the file was trimmed"):
        capture.columns("kernel", "stream_id")


def test_a_column_that_can_be_done_without_is_missing_in_every_row(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 0, 5), kernel("k", 5, 9), without=["globalPid"])
    assert capture.columns("kernel", "global_pid")["global_pid"].tolist() == [MISSING, MISSING]


def test_columns_that_users_added_do_no_harm(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 0, 5, kernel_name="mine", long_name="mine"))
    assert capture.events("kernel")["name"].tolist() == ["k"]


def test_the_order_of_columns_in_the_file_does_not_matter(tmp_path: Path) -> None:
    table, cells = kernel("k", 3, 5, 7)
    capture = opened(tmp_path, Row(table, dict(reversed(cells.items()))))
    assert capture.columns("kernel", "start_ns", "correlation_id") == {"start_ns": [3], "correlation_id": [7]}


def test_kernel_events(tmp_path: Path) -> None:
    frame = opened(tmp_path, kernel("k", 100, 350, 9, pid=4242), kernel(7, 400, 400, 10)).events("kernel")
    assert frame["start_ns"].tolist() == [100, 400]
    assert frame["duration_ns"].tolist() == [250, 0]
    assert frame["process_id"].tolist() == [4242, 100]
    assert frame["correlation_id"].tolist() == [9, 10]
    assert frame["name"].tolist()[0] == "k"
    assert pd.isna(frame["name"][1])
    assert "thread_id" not in frame


def test_the_names_of_events_are_those_the_capture_was_opened_with(tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", kernel("f(int)", 0, 5, shortName="f", mangledName="_Z1fi"))
    expected: dict[KernelNames, str] = {"full": "f(int)", "base": "f", "mangled": "_Z1fi"}
    for names, name in expected.items():
        frame = open_capture(path, names=names).events("kernel")
        assert frame["name"].tolist() == [name]
        assert frame["base_name"].tolist() == ["f"]


def test_api_events_have_their_process_and_thread(tmp_path: Path) -> None:
    high = global_id(100, 7, hardware=255)
    frame = opened(tmp_path, call("cudaFree", 0, 5, tid=101), call("cudaFree", 0, 5, globalTid=high)).events(
        "api"
    )
    assert frame["process_id"].tolist() == [100, 100]
    assert frame["thread_id"].tolist() == [101, 7]


def test_ids_are_integers_and_nullable_ones_where_some_are_missing(tmp_path: Path) -> None:
    large = 2**53 + 1  # a float would lose the 1
    rows = [kernel("k", 0, 5, large, graphNodeId=None), kernel("k", 5, 9, large, graphNodeId=large)]
    frame = opened(tmp_path, *rows).events("kernel")
    assert frame["correlation_id"].dtype == np.int64
    assert frame["correlation_id"].tolist() == [large, large]
    assert frame["graph_node_id"].dtype == "Int64"
    assert frame["graph_node_id"][1] == large
    assert frame["graph_node_id"].isna().tolist() == [True, False]


def test_every_column_that_is_no_text_holds_integers(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 0, 5), call("f", 0, 5), memcpy(1, 0, 5, 8), nvtx("a", 0, None))
    for kind in ("kernel", "api", "memcpy", "nvtx"):
        frame = capture.events(kind)
        types = {str(dtype) for name, dtype in frame.dtypes.items() if "name" not in str(name)}
        assert types <= {"int64", "Int64"}


def test_an_open_range_has_no_duration(tmp_path: Path) -> None:
    frame = opened(tmp_path, nvtx("a", 10, 30), nvtx("b", 10, None)).events("nvtx")
    assert frame["duration_ns"].dtype == "Int64"
    assert frame["duration_ns"].isna().tolist() == [False, True]
    assert frame["duration_ns"][0] == 20


def test_nvtx_events_are_called_by_their_text_or_the_registered_string(tmp_path: Path) -> None:
    frame = opened(tmp_path, nvtx("plain", 0, 5), nvtx(None, 0, 5, textId="registered")).events("nvtx")
    assert frame["name"].tolist() == ["plain", "registered"]
    assert "text_id" not in frame


def test_the_events_of_an_empty_table_are_an_empty_frame(tmp_path: Path) -> None:
    frame = opened(tmp_path, kernel("k", 0, 5), empty=[NVTX]).events("nvtx")
    assert len(frame) == 0
    assert {"start_ns", "duration_ns", "process_id", "thread_id"} <= set(frame.columns)


def test_names_that_are_no_utf8(tmp_path: Path) -> None:
    frame = opened(tmp_path, kernel(b"a\xff", 0, 5), kernel(b"a\xfe", 0, 5)).events("kernel")
    assert frame["name"].tolist() == [r"a\xff", r"a\xfe"]


def test_arrays_are_shared_and_cannot_be_changed(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 0, 5))
    starts = capture.columns("kernel", "start_ns")["start_ns"]
    assert capture.columns("kernel", "end_ns", "start_ns")["start_ns"] is starts
    assert not starts.flags.writeable


def test_a_frame_of_events_can_be_changed_without_harm(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 0, 5))
    frame = capture.events("kernel")
    frame["start_ns"] += 1000
    assert capture.events("kernel")["start_ns"].tolist() == [0]


def test_a_report_by_name(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 0, 5))
    assert capture.report("cuda_gpu_kern_sum").frame["total_ns"].tolist() == [5]
    with pytest.raises(UsageError, match="no report named 'kernels'"):
        capture.report("kernels")


def pair(table: str, name: str, value: str) -> Row:
    return row(table, name=name, value=value)


def test_where_a_capture_comes_from(tmp_path: Path) -> None:
    info = opened(
        tmp_path,
        pair("META_DATA_EXPORT", "EXPORT_PRODUCT_VERSION", "2025.3.2.0"),
        pair("META_DATA_EXPORT", "EXPORT_SCHEMA_VERSION", "3.20.3"),
        pair("TARGET_INFO_SYSTEM_ENV", "NvDriverVersion", "580.82.07"),
        pair("TARGET_INFO_SYSTEM_ENV", "CudaDriverVersion", "12080"),
        row("TARGET_INFO_GPU", id=1, name="B"),
        row("TARGET_INFO_GPU", id=0, name="A"),
        row("TARGET_INFO_SESSION_START_TIME", utcEpochNs=1, utcTime="2025-11-20T18:00:00"),
        row("ANALYSIS_DETAILS", duration=77),
        pair("META_DATA_CAPTURE", "PROCESS_0:COMMAND", "./add"),
        pair("META_DATA_CAPTURE", "PROCESS_0:ARGUMENT_0", "-n"),
        pair("META_DATA_CAPTURE", "PROCESS_0:ARGUMENT_10", "last"),
        pair("META_DATA_CAPTURE", "PROCESS_0:ARGUMENT_2", "second"),
    ).info
    assert (info.exporter_version, info.schema_version) == ("2025.3.2.0", "3.20.3")
    assert (info.driver_version, info.cuda_version) == ("580.82.07", "12.8")
    assert info.gpus == ("A", "B")
    assert (info.started_utc, info.duration_ns) == ("2025-11-20T18:00:00", 77)
    assert info.command == ("./add", "-n", "second", "last")


def test_a_command_line_without_secrets_lacks_what_has_no_name_or_value(tmp_path: Path) -> None:
    rows = {"PROCESS_0:COMMAND": "./add", "PROCESS_0:ARGUMENT_0": "--token=ghp_" + "a1B2" * 9}
    others = {None: "x", "PROCESS_0:ARGUMENT_1": None, "PROCESS_0:WORKING_DIR": "/home/ann"}
    of = (*rows.items(), *others.items())
    pairs = [row("META_DATA_CAPTURE", name=name, value=text) for name, text in of]
    capture = opened(tmp_path, kernel("k", 0, 5), *pairs)
    assert capture.viewed(shared=True).info.command == ("./add", "--token=redacted")


def test_exports_of_2022_name_their_metadata_and_driver_otherwise(tmp_path: Path) -> None:
    info = opened(
        tmp_path,
        pair("EXPORT_META_DATA", "EXPORT_PRODUCT_VERSION", "2022.4.2.1"),
        pair("TARGET_INFO_SYSTEM_ENV", "NvDriverVersion", "52510517"),
    ).info
    assert (info.exporter_version, info.driver_version) == ("2022.4.2.1", "525.105.17")


def test_a_gpu_without_a_name_or_an_id_has_none(tmp_path: Path) -> None:
    rows = (row("TARGET_INFO_GPU", id=i, name=name) for i, name in ((0, None), (1, "A"), (None, "B")))
    assert opened(tmp_path, kernel("k", 0, 5), *rows).gpu_names == {1: "A"}


def test_an_export_that_says_nothing_of_itself(tmp_path: Path) -> None:
    info = opened(tmp_path, kernel("k", 0, 5)).info
    assert vars(info) == {
        "command": (),
        "exporter_version": "",
        "schema_version": "",
        "gpus": (),
        "driver_version": "",
        "cuda_version": "",
        "started_utc": "",
        "duration_ns": None,
        "cuda_traced": None,
        "forks_followed": None,
        "kernel": "",
        "trace": (),
        "graphs": "",
        "um_faults": None,
        "delay_ms": None,
    }


@pytest.mark.parametrize(
    ("said", "traced"),
    [
        ({"PROCESS_0:COLLECT_CUDA_TRACE": "false", "PROCESS_1:COLLECT_CUDA_TRACE": "true"}, True),
        ({"PROCESS_0:COLLECT_CUDA_TRACE": "false"}, False),
        ({"PROCESS_0:COLLECT_CUDA_TRACE": "false", "CUDA_TRACE_SCOPE": "ProcessTree"}, None),  # nsys 2026
    ],
)
def test_whether_cuda_was_traced(said: dict[str, str], traced: bool | None, tmp_path: Path) -> None:  # noqa: FBT001
    rows = [pair("META_DATA_CAPTURE", *of) for of in said.items()]
    assert opened(tmp_path, *rows, kernel("k", 0, 5)).info.cuda_traced is traced


@pytest.mark.parametrize("launcher", ["record/exec_program.py", "_launch.py"])  # of now, of version 0.1
def test_the_launcher_is_no_part_of_the_command(launcher: str, tmp_path: Path) -> None:
    said = ["/bin/python", "-I", f"/site/nsyswrap/{launcher}", "3", "./add", "-n"]
    names = ["COMMAND", *(f"ARGUMENT_{i}" for i in range(5))]
    rows = [
        pair("META_DATA_CAPTURE", f"PROCESS_0:{name}", text) for name, text in zip(names, said, strict=True)
    ]
    assert opened(tmp_path, kernel("k", 0, 5), *rows).info.command == ("./add", "-n")


def test_diagnostics_are_warnings_with_losses_first(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        kernel("k", 0, 5),
        diagnostic("CUDA profiling started", severity=1),
        diagnostic("  the clock was adjusted\nat 3:00"),
        diagnostic("No NVTX events collected. Does the process use NVTX?"),
        diagnostic("Dropped 12 events", severity=3),
        diagnostic("Dropped 12 events", severity=3),
    )
    assert [(found.text, found.loss) for found in capture.diagnostics] == [
        ("Dropped 12 events", True),
        ("the clock was adjusted", False),
    ]


@pytest.mark.parametrize(
    ("owner", "message", "lost"),
    [
        ("nsyswrap", schema.STOPPED, False),  # the hook of --steps waits for all work of the GPU before
        ("mine", schema.STOPPED, True),
        ("nsyswrap", "Process 7 was terminated.", True),
    ],
)
def test_no_event_is_missing_where_the_hook_of_steps_ended_the_recording(
    owner: str, message: str, *, lost: bool, tmp_path: Path
) -> None:
    text = "Not all CUDA events might have been collected."
    rows = kernel("k", 0, 5), domain(owner, 1), diagnostic(text), diagnostic(message, severity=1)
    assert [(found.text, found.loss) for found in opened(tmp_path, *rows).diagnostics] == [(text, lost)]


GIVEN = "Number of CUPTI events produced: \t5, CUPTI buffers: 50."


@pytest.mark.parametrize(
    ("messages", "counted", "lost"),
    [
        ((GIVEN,), 1, False),  # as in a recording of a server, which goes on
        ((GIVEN,), 2, True),  # more than the export has
        ((), 1, True),  # as of a process that ended by os._exit
        ((GIVEN, "Number of CUDA events collected: \t1."), 1, True),  # of two processes one gave its events
        ((GIVEN, "Number of incomplete CUPTI events dropped: 842. Incomplete events appear"), 1, True),
        (
            ("Number of CUPTI events produced: 5, buffers: 49 of 50. Some CUPTI events might be missing.",),
            1,
            True,
        ),
    ],
)
def test_no_event_is_missing_if_cupti_gave_all(
    messages: tuple[str, ...], counted: int, *, lost: bool, tmp_path: Path
) -> None:
    text = "Not all CUDA events might have been collected."
    said = (f"Number of CUDA events collected: \t{counted}.", *messages)
    rows = kernel("k", 0, 5), diagnostic(text), *(diagnostic(one, severity=1) for one in said)
    assert [(found.text, found.loss) for found in opened(tmp_path, *rows).diagnostics] == [(text, lost)]


def test_events_of_one_process_can_be_missing_though_another_gave_its_own_twice(tmp_path: Path) -> None:
    text = "Not all CUDA events might have been collected."
    mine = (diagnostic(one, severity=1) for one in (GIVEN, GIVEN, "Number of CUDA events collected: 1."))
    other = changed(diagnostic("Number of CUDA events collected: 0.", severity=1), globalPid=7 << 24)
    found = opened(tmp_path, kernel("k", 0, 5), diagnostic(text), *mine, other).diagnostics
    assert [(one.text, one.loss) for one in found] == [(text, True)]


SAMPLES = "Some events (\t27) were lost. Certain charts may be wrong. Try to decrease sampling rate."


@pytest.mark.parametrize(
    ("text", "counted", "lost"),
    [
        (SAMPLES, "2", False),  # a kernel and a call: all that nsys collected
        (SAMPLES, "1,002", True),
        (SAMPLES, None, False),
        ("Not all OpenGL events might have been collected.", None, False),
        ("Not all OS runtime events might have been collected.", "2", False),
        ("Not all CUDA events might have been collected.", "2", True),  # what was never collected
    ],
)
def test_events_of_other_kinds_than_cuda_are_no_loss(
    text: str, counted: str | None, *, lost: bool, tmp_path: Path
) -> None:
    counts = [diagnostic(f"Number of CUDA events collected: \t{counted}.", severity=1)] if counted else []
    rows = kernel("k", 5, 9, 1), call("cudaLaunchKernel", 0, 5, 1), *counts, diagnostic(text, severity=3)
    assert [found.loss for found in opened(tmp_path, *rows).diagnostics] == [lost]


def test_exports_before_2024_have_no_diagnostics(tmp_path: Path) -> None:
    assert opened(tmp_path, kernel("k", 0, 5)).diagnostics == []


def test_a_kind_that_there_is_not(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 0, 5))
    for ask in (capture.has, capture.events, capture.columns):
        with pytest.raises(UsageError, match="no kind of event named 'kernels'") as caught:
            ask("kernels")
        assert caught.value.hint == "did you mean 'kernel'?"


def test_metadata_that_is_no_number_is_left_unsaid(tmp_path: Path) -> None:
    info = opened(
        tmp_path,
        kernel("k", 0, 5),
        row("TARGET_INFO_SYSTEM_ENV", name="CudaDriverVersion", value="redacted"),
        row("META_DATA_CAPTURE", name="PROCESS_0:COMMAND", value="train"),
        row("META_DATA_CAPTURE", name="PROCESS_0:ARGUMENT_x", value="y"),
    ).info
    assert (info.cuda_version, info.command) == ("", ("train",))


HEAD = ",".join(COLUMNS)
ROW = "1700000000000000000,0,1980,3201,300000,50,4"


def written(folder: Path, *lines: str, end: str = "\n") -> Path:
    (folder / CONDITIONS).write_text("".join(f"{line}\n" for line in lines[:-1]) + lines[-1] + end)
    return folder


def test_rows_are_columns_in_order_of_time(tmp_path: Path) -> None:
    later = "1700000000100000000,1,,,,,"
    samples = read_samples(written(tmp_path, HEAD, later, ROW), gpus=2)
    assert list(samples) == list(COLUMNS)
    assert (samples["time_ns"] - 1_700_000_000_000_000_000).tolist() == pytest.approx([0, 1e8], abs=1000)
    assert samples["gpu"].tolist() == [0, 1]
    assert [values[0] for values in samples.values()][2:] == [1980, 3201, 300_000, 50, 4]
    assert all(np.isnan(values[1]) for values in list(samples.values())[2:])


def test_columns_of_a_newer_version_do_not_matter(tmp_path: Path) -> None:
    samples = read_samples(written(tmp_path, f"fan,{HEAD}", f"9,{ROW}"), gpus=1)
    assert samples["sm_mhz"].tolist() == [1980]


@pytest.mark.parametrize("rest", ["1700000000100000000,0,19", "170", "text"])
def test_a_line_without_an_end_is_left_out(tmp_path: Path, rest: str) -> None:
    assert len(read_samples(written(tmp_path, HEAD, ROW, rest, end=""), gpus=1)["time_ns"]) == 1


def test_lines_that_end_as_on_windows(tmp_path: Path) -> None:
    last = ROW.rpartition(",")[0] + ","
    samples = read_samples(written(tmp_path, f"{HEAD}\r", f"{ROW}\r", f"{last}\r"), gpus=1)
    assert samples["reasons"][0] == 4
    assert np.isnan(samples["reasons"][1])


def test_a_header_is_no_samples(tmp_path: Path) -> None:
    for lines in ((HEAD,), (HEAD, ""), (HEAD, " ", "")):
        assert len(read_samples(written(tmp_path, *lines), gpus=1)["time_ns"]) == 0


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (("",), "no column time_ns"),
        ((HEAD.replace("sm_mhz", "sm"), ROW), "no column sm_mhz"),
        ((HEAD, ROW.replace("1980", "text")), "not a table of numbers"),
        ((HEAD, ROW.replace("1980", "0x7bc")), "not a table of numbers"),
        ((HEAD, ROW.replace("1980", "#")), "not a table of numbers"),
        ((HEAD, ROW.replace("1980", "\x00")), "not a table of numbers"),
        ((HEAD, ROW, "1,0"), "not a table of numbers"),
        ((HEAD, ROW.replace("1980", "-1")), "a value is out of range"),
        ((HEAD, ROW.replace("1980", "inf")), "a value is out of range"),
        ((HEAD, ROW.replace("1980", "1e999")), "a value is out of range"),
        ((HEAD, f"{ROW}{'0' * 30}"), "a value is out of range"),
        ((HEAD, ROW.replace(",0,", ",1,")), "a sample has no time, or no GPU of this run"),
        ((HEAD, ROW.replace(",0,", ",0.5,")), "a sample has no time, or no GPU of this run"),
        ((HEAD, ROW.replace(",0,", ",nan,")), "a sample has no time, or no GPU of this run"),
        ((HEAD, f"nan{ROW[19:]}"), "a sample has no time, or no GPU of this run"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, lines: tuple[str, ...], reason: str) -> None:
    written(tmp_path, *lines)
    with pytest.raises(CaptureError) as refused:
        read_samples(tmp_path, gpus=1)
    assert refused.value.message == f"conditions.csv cannot be read: {reason}"


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / CONDITIONS).write_bytes(f"{HEAD}\n".encode() + bytes(range(128, 256)) + b"\n")
    with pytest.raises(CaptureError, match=r"cannot be read: .*codec can't decode"):
        read_samples(tmp_path, gpus=1)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"cannot be read: No such file"):
        read_samples(tmp_path, gpus=1)
    for make in (os.mkfifo, os.mkdir):  # reading a pipe without a writer would wait
        (tmp_path / make.__name__).mkdir()
        make(tmp_path / make.__name__ / CONDITIONS)
        with pytest.raises(CaptureError, match=r"cannot be read: not a regular file"):
            read_samples(tmp_path / make.__name__, gpus=1)


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / CONDITIONS
    path.touch()
    os.truncate(path, info.MOST_BYTES + 1)  # without using the disk
    with pytest.raises(CaptureError, match=r"cannot be read: larger than 64 MiB"):
        read_samples(tmp_path, gpus=1)
