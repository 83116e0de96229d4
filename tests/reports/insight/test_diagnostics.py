"""diagnostics: what it says of captures, sound and not."""

from pathlib import Path

import pytest
from diagnostics_found import ELSEWHERE, LAUNCH, found, launch
from report_tables import csv_of
from tiny_export import (
    API,
    DIAGNOSTIC,
    PID,
    call,
    diagnostic,
    domain,
    global_id,
    graph,
    kernel,
    nvtx,
    opened,
    row,
)

from nsyswrap import reports

SOUND = [
    diagnostic("Profiling has started.", severity=1),
    row("META_DATA_EXPORT", name="EXPORT_PRODUCT_VERSION", value="2025.3.2.0"),
    row("META_DATA_EXPORT", name="EXPORT_SCHEMA_VERSION", value="3.20.3"),
]


def test_a_warning_and_all_that_was_checked(tmp_path: Path) -> None:
    # a call from 10 to 20, its kernel from 30 to 40; one range
    capture = opened(
        tmp_path, *launch(1, 10), diagnostic("the clock was adjusted"), nvtx("step", 5, 50), *SOUND[1:]
    )
    assert csv_of(capture, "diagnostics") == (
        "level,subject,count,time_ns,meaning\n"
        "warning,nsys messages,1,,nsys: the clock was adjusted\n"
        "info,profiler overhead,,,no overhead recorded; the effect of profiling on API calls is unknown\n"
        'info,GPU clocks,,,"clocks, throttling and other processes not recorded; '
        'record with `nsyswrap profile`"\n'
        "ok,CPU and GPU clocks,0,,"
        "no operation began before its launch call; shortest delay 20 ns\n"
        'ok,times,0,,"every operation and API call has a start and an end, in this order"\n'
        "ok,launches without work,0,,the work of every launch call is recorded\n"
        "ok,work without launch,0,,every launch call is recorded\n"
        "ok,correlation ids,0,,no correlation id is shared by two calls of one process\n"
        "ok,API results,0,,no API call failed; 1 API call returned success\n"
        "ok,CUDA graphs,0,,no CUDA graph is recorded as a whole\n"
        "ok,NVTX ranges,0,,the only range has an end\n"
        "ok,export format,0,,written by nsys 2025.3.2.0 (schema 3.20.3); "
        "not newer than the versions that nsyswrap was tested with\n"
    )


def test_a_sound_capture_says_what_was_checked(tmp_path: Path) -> None:
    table = opened(tmp_path, *launch(1, 10), *SOUND, nvtx("step", 5, 50)).report("diagnostics")
    assert [(level, what) for level, what, *_ in table.rows()] == [
        ("info", "profiler overhead"),
        ("info", "GPU clocks"),
        ("info", "nsys messages"),
        ("ok", "nsys messages"),
        ("ok", "CPU and GPU clocks"),
        ("ok", "times"),
        ("ok", "launches without work"),
        ("ok", "work without launch"),
        ("ok", "correlation ids"),
        ("ok", "API results"),
        ("ok", "CUDA graphs"),
        ("ok", "NVTX ranges"),
        ("ok", "export format"),
    ]
    assert {count for level, _, count, *_ in table.rows() if level == "ok"} == {0}
    assert table.verdict == "No check found a problem; 2 checks not possible."


def test_it_answers_where_there_is_nothing(tmp_path: Path) -> None:
    table = opened(tmp_path, ELSEWHERE).report("diagnostics")
    assert {level for level, *_ in table.rows()} == {"info", "ok"}
    cannot_tell = [what for _, what, count, *_ in table.rows() if count is None]
    assert cannot_tell == [
        *("CPU and GPU clocks", "launches without work", "work without launch", "API results"),
        *("export format", "profiler overhead", "GPU clocks", "nsys messages"),
    ]
    assert table.verdict.endswith("8 checks not possible.")


def test_the_worst_comes_first_and_the_verdict_names_it(tmp_path: Path) -> None:
    rows = [diagnostic("the clock jumped"), diagnostic("Dropped 9 events"), graph(5, 9, 0), ELSEWHERE]
    table = opened(tmp_path, *rows).report("diagnostics")
    levels = [str(level) for level, *_ in table.rows()]
    assert levels == sorted(levels, key=["loss", "warning", "info", "ok"].index)
    assert levels[:3] == ["loss", "warning", "warning"]
    assert table.verdict.startswith("Events may be missing; warnings: nsys messages, CUDA graphs; ")


def test_messages_are_grouped_by_text_and_all_of_each_is_there(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        diagnostic("Dropped 12 events.", severity=3),
        *(diagnostic("the clock\n was adjusted") for _ in range(3)),
        diagnostic("No NVTX events collected. Does the process use NVTX?"),
        ELSEWHERE,
        diagnostic("Profiling has started.", severity=1),
    )
    lost = "Counts and totals may be too low; record less at once."
    assert found(capture, "nsys messages") == [
        ("loss", 1, None, f"nsys: Dropped 12 events. {lost}"),
        ("warning", 3, None, "nsys: the clock was adjusted"),
        ("info", 1, None, "nsys: No NVTX events collected. Does the process use NVTX?"),
        ("info", 1, None, "nsys: Profiling has started."),
    ]


def test_events_lost_with_the_ranges_of_xla_have_a_cure_of_their_own(tmp_path: Path) -> None:
    failed = diagnostic("Error when processing events: Source ID=")
    capture = opened(tmp_path, diagnostic("Dropped 12 events."), failed, domain("TSL", 3))
    (_, _, _, meaning), *_ = found(capture, "nsys messages")
    assert str(meaning).endswith("lost events with them; record with --trace cuda.")


@pytest.mark.parametrize("empty", [[], [DIAGNOSTIC]])
def test_no_diagnostics_are_not_no_warnings(tmp_path: Path, empty: list[str]) -> None:
    [(level, count, _, meaning)] = found(opened(tmp_path, kernel("k", 1, 5), empty=empty), "nsys messages")
    assert (level, count) == ("info", None)
    assert "nsys writes them since 2024.2" in str(meaning)


def test_graphs_hide_kernels_and_ranges_may_be_open(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(graph(10, 14, 1), graph(20, 27, 2)),
        *(nvtx("step", 1, 5), nvtx("open", 1, None), nvtx("mark", 1, None, eventType=34)),
    )
    said = "2 whole-graph executions: the kernels inside are in no kernel report"
    advice = "profile with --graphs node to record them"
    assert found(capture, "CUDA graphs") == [("warning", 2, 11, f"{said}; {advice}")]
    said = "1 of 2 ranges have no end; nsys' own reports end them at the last NVTX event"
    assert found(capture, "NVTX ranges") == [("warning", 1, None, said)]


def test_an_export_newer_than_known(tmp_path: Path) -> None:
    version = [
        row("META_DATA_EXPORT", name="EXPORT_PRODUCT_VERSION", value="2031.1.1"),
        row("META_DATA_EXPORT", name="EXPORT_SCHEMA_VERSION", value="9.1.0"),
    ]
    [(level, count, _, meaning)] = found(opened(tmp_path, kernel("k", 1, 5), *version), "export format")
    assert (level, count) == ("warning", 1)
    assert "written by nsys 2031.1.1 (schema 9.1.0), newer than the last tested release" in str(meaning)


def test_what_is_not_selected_is_no_trouble(tmp_path: Path) -> None:
    # call 10-20, kernel 30-40; call 110-120, kernel 130-140
    capture = opened(tmp_path, *launch(1, 10), *launch(2, 110), diagnostic("the clock jumped"))
    for time in ("0/25", "25/125", "15/35", "115/135"):  # cut between calls and kernels, and through them
        part = capture.select(time=f"{time}")
        warned = {what for level, what, *_ in part.report("diagnostics").rows() if level == "warning"}
        assert warned == {"nsys messages"}, time


def test_calls_that_failed_elsewhere_are_not_selected(tmp_path: Path) -> None:
    capture = opened(tmp_path, call("cudaMalloc", 10, 20, returnValue=2), *launch(1, 100))
    assert [level for level, *_ in found(capture, "API results")] == ["warning"]
    assert [level for level, *_ in found(capture.select(time="50/"), "API results")] == ["ok"]


def test_messages_are_about_all_of_the_capture(tmp_path: Path) -> None:
    capture = opened(tmp_path, *launch(1, 10, pid=7), diagnostic("Dropped 9 events"))  # said of another
    assert [level for level, *_ in found(capture.select(process=7), "nsys messages")] == ["loss"]


def test_nothing_selected_is_said(tmp_path: Path) -> None:
    capture = opened(tmp_path, *launch(1, 10), nvtx("step", 100, 110), diagnostic("Dropped 9 events"))
    table = capture.select(time="1h/").report("diagnostics")
    assert (table.rows(), table.verdict, table.notes) == ([], "", ("no events in the selection",))
    assert len(capture.select(time="90/").report("diagnostics"))  # a range is something


def test_what_is_odd_in_what_is_selected(tmp_path: Path) -> None:
    # The window cuts kernel and call off at 100: compared as they are, not as they are cut.
    capture = opened(tmp_path, call(LAUNCH, 90, 130, 1), kernel("k", 70, 120, 1), *launch(2, 400))
    part = capture.select(time="100/200")
    [(level, count, time, _)] = found(part, "CPU and GPU clocks")
    assert (level, count, time) == ("warning", 1, 20)
    assert [level for level, *_ in found(capture.select(time="300/"), "CPU and GPU clocks")] == ["ok"]


def test_when_a_launch_was_called_is_never_cut_off(tmp_path: Path) -> None:
    # 90 ---- 130: begins before the capture of a graph does, which would explain why it started nothing
    begin = call("cudaStreamBeginCapture_v10000", 95, 96, 2, tid=101)
    part = opened(tmp_path, call(LAUNCH, 90, 130, 1), begin, *launch(3, 200)).select(time="100/")
    assert [level for level, *_ in found(part, "launches without work")] == ["warning"]


def test_times_are_those_inside_the_window(tmp_path: Path) -> None:
    flush = row("PROFILER_OVERHEAD", start=50, end=130, globalTid=global_id(PID, PID), nameId="flush")
    part = opened(tmp_path, call(LAUNCH, 90, 120, 1), flush, graph(80, 115, 1)).select(time="100/200")
    assert [(count, time) for _, count, time, _ in found(part, "CUDA graphs")] == [(1, 15)]
    [in_all, by_label] = found(part, "profiler overhead")
    assert in_all[1:3] == by_label[1:3] == (1, 30)
    assert by_label[3] == "flush: 20 ns in API calls"


def test_a_column_that_was_trimmed_away_costs_only_what_needs_it(tmp_path: Path) -> None:
    capture = opened(tmp_path, *launch(1, 10), *SOUND, without=["streamId"])
    [(level, count, _, meaning)] = found(capture, "times")
    assert (level, count) == ("info", None)
    assert "not checked" in str(meaning)
    assert "has no column streamId" in str(meaning)
    assert [level for level, *_ in found(capture, "API results")] == ["ok"]


def test_an_empty_table_of_calls_is_none(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 5, 9, 1), empty=[API])
    assert found(capture, "launches without work") == [
        ("info", None, None, "no API calls recorded; collect with nsyswrap profile --trace cuda,nvtx")
    ]
    assert reports.find_report("diagnostics").lacks(capture) == []
