"""timing_audit: rows, what it says of them, and the recorded captures."""

import json
from pathlib import Path

import numpy as np
import pytest
import recorded
from report_tables import csv_of, records_of, values_of
from sampled import sampled
from tiny_export import PID, Row, call, domain, global_id, kernel, memcpy, nvtx, opened

from nsyswrap.analysis.timing_audit import (
    COMPLETE,
    EARLIER,
    LAUNCH_ONLY,
    MIXED,
    TOLERANCE_NS,
    VERDICTS,
    audit,
)
from nsyswrap.api import CaptureReader, open_capture
from nsyswrap.reports.scenario_tables import audit_by_variant
from nsyswrap.reports.table import Table

REPORT = "timing_audit"
HEADER = (
    "range,phase,verdict,instances,launches,host_med_ns,host_p95_ns,should_med_ns,error_med_percent,"
    "reported_med_ns,events_med_ns,api_med_ns,sync_med_ns,own_gpu_med_ns,own_busy_med_ns,"
    "own_end_after_med_ns,earlier_med_ns,other_gpu_med_ns\n"
)
US = 1000


def audited(capture: CaptureReader) -> Table:
    return capture.report(REPORT)


def picked(capture: CaptureReader, *columns: str) -> list[tuple[object, ...]]:
    return values_of(audited(capture), *columns)


def step(name: str, nth: int, lasting: int, ends: int, **more: object) -> list[Row]:
    """A range of the nth ms that launches a kernel after 2 µs; times in µs from its start."""
    start = nth * 1000 * US
    made = call("cudaLaunchKernel", start + 2 * US, start + 4 * US, nth + 1)
    ran = kernel("k", start + 6 * US, start + ends * US, nth + 1)
    return [nvtx(name, start, start + lasting * US, PID, **more), made, ran]


# The kernel was launched before, in a range that is no part of what is looked at.
FIRST = step("first", 0, 30, 8)


def mark(time: int, said: object, tid: int = PID) -> Row:
    text = said if isinstance(said, str) else "nsyswrap.measure " + json.dumps(said)
    return nvtx(text, time, None, tid=tid, eventType=34)


def test_a_range_that_ends_before_its_work(tmp_path: Path) -> None:
    # late lasts 10 µs, and its kernel from the 6th to the 40th: it, expected 40; the first launch of
    # the kernel is warm-up, and its range of 30 µs is complete: the kernel ran from the 6th to the 8th
    assert csv_of(opened(tmp_path, *FIRST, *step("late", 1, 10, 40)), REPORT) == (
        f"{HEADER}"
        "first,warm-up,complete,1,1.0,30000.0,30000.0,30000.0,0.0,,,2000.0,0.0,2000.0,2000.0,"
        "-22000.0,0.0,0.0\n"
        "late,steady,launch only,1,1.0,10000.0,10000.0,40000.0,-75.0,,,2000.0,0.0,34000.0,34000.0,"
        "30000.0,0.0,0.0\n"
    )


def test_a_row_per_name_phase_and_verdict_in_order_of_appearance(tmp_path: Path) -> None:
    rows = [
        *step("late", 1, 10, 40),
        *FIRST,
        *step("good", 2, 30, 10),
        *step("late", 3, 30, 10),
        *step("late", 4, 10, 20),
        *step("first", 5, 30, 10),
        nvtx("idle", 0, 5),
    ]
    assert picked(opened(tmp_path, *rows), "range", "phase", "verdict", "instances") == [
        ("first", "steady", "complete", 1),
        ("first", "warm-up", "complete", 1),
        ("idle", "steady", "no GPU work", 1),
        ("late", "steady", "launch only", 2),
        ("late", "steady", "complete", 1),
        ("good", "steady", "complete", 1),
    ]


def test_the_columns_are_medians_over_instances(tmp_path: Path) -> None:
    # late: 10, 20 and 12 µs long, should be 40, 50 and 24
    late = (*step("late", 1, 10, 40), *step("late", 2, 20, 50), *step("late", 3, 12, 24))
    row = records_of(audited(opened(tmp_path, *FIRST, *late)))[1]
    times = {name: value / US for name, value in row.items() if name.endswith("_ns") and value is not None}
    host = {"host_med_ns": 12, "host_p95_ns": 20, "should_med_ns": 40, "api_med_ns": 2, "sync_med_ns": 0}
    own = {"own_gpu_med_ns": 34, "own_busy_med_ns": 34, "own_end_after_med_ns": 30}
    assert times == host | own | {"earlier_med_ns": 0, "other_gpu_med_ns": 0}
    assert (row["launches"], row["error_med_percent"]) == (1.0, pytest.approx(-60))  # of -75, -60 and -50
    assert (row["reported_med_ns"], row["events_med_ns"]) == (None, None)


def test_an_empty_range_has_no_error_and_one_without_work_no_end_of_it(tmp_path: Path) -> None:
    capture = opened(tmp_path, nvtx("r", 5, 5), call("cudaFree", 0, 1))
    columns = ("verdict", "should_med_ns", "error_med_percent", "own_end_after_med_ns", "own_gpu_med_ns")
    assert picked(capture, *columns) == [("no GPU work", 0.0, None, None, 0.0)]


def test_names_are_those_that_nvtx_takes(tmp_path: Path) -> None:
    rows = [
        *(domain("library", 1), domain("again", 1), domain("elsewhere", 1, pid=200)),
        *(nvtx("a", 1, 2), nvtx("a", 3, 4, domainId=1), nvtx(None, 5, 6, textId="registered")),
        *(nvtx("a", 7, 8, domainId=1, globalTid=global_id(200, 200)), nvtx(None, 9, 10)),
    ]
    capture = opened(tmp_path, *rows, call("cudaFree", 0, 1))
    names = [row[0] for row in picked(capture, "range")]
    assert names == ["a", "a@library", "registered", "a@elsewhere", None]
    for name in filter(None, names):
        chosen = audited(capture.select(nvtx=str(name)))
        assert chosen.rows()[0][0] == name


def test_what_the_program_measured_stands_beside_its_range(tmp_path: Path) -> None:
    rows = [
        *(nvtx("s", 0, 100), mark(105, {"name": "s", "host_ns": 90})),
        *(nvtx("s", 200, 320), mark(325, {"name": "s", "host_ns": 110, "more": 1})),
        *(nvtx("other", 330, 340), mark(341, {"name": "s", "host_ns": 5}, tid=101)),  # nobody's
        *(nvtx("s", 400, 500), nvtx("unsaid", 600, 700)),
        *(mark(710, {"name": "none", "host_ns": 1}), mark(711, "a mark"), mark(712, "nsyswrap.measure {")),
        *(mark(713, "nsyswrap.measure 5"), mark(714, {"name": "unsaid", "host_ns": None})),
        call("cudaFree", 0, 1),
    ]
    found = picked(opened(tmp_path, *rows), "range", "instances", "reported_med_ns", "events_med_ns")
    assert found == [("s", 3, 100.0, None), ("other", 1, None, None), ("unsaid", 1, None, None)]


def test_marks_follow_the_innermost_of_equal_ranges(tmp_path: Path) -> None:
    rows = [
        *(nvtx("s", 0, 100), nvtx("s", 10, 20), mark(21, {"name": "s", "host_ns": 8})),
        *(mark(101, {"name": "s", "host_ns": 98}), mark(102, {"name": "s", "host_ns": 1})),
        *(call("cudaLaunchKernel", 50, 60, 1), kernel("k", 70, 90, 1)),  # makes the outer one warm-up
    ]
    assert picked(opened(tmp_path, *rows), "phase", "reported_med_ns") == [("steady", 8.0), ("warm-up", 98.0)]


def test_marks_that_waited_for_cuda_events_go_to_the_range_of_that_length(tmp_path: Path) -> None:
    lengths = {0: 500, 1000: 300, 2000: 100, 3000: 301}
    late = [(298, 7), (99, 5), (490, 9)]  # read out of order, at the end and on another thread
    rows = [nvtx("s" if length != 301 else "t", start, start + length) for start, length in lengths.items()]
    marks = [mark(9000, {"name": "s", "host_ns": host, "cuda_ns": cuda}, tid=101) for host, cuda in late]
    one = opened(tmp_path, *rows, *marks, nvtx("s", 9500, 9800), call("cudaFree", 0, 1))
    found = audited(one.select(time="1000ns/1200ns"))
    assert [records_of(found)[0][name] for name in ("reported_med_ns", "events_med_ns")] == [298.0, 7.0]
    assert picked(one, "instances", "reported_med_ns", "events_med_ns") == [(4, 298.0, 7.0), (1, None, None)]


def test_what_a_reader_has_to_know(tmp_path: Path) -> None:
    rows = [
        *(nvtx("r", 0, 90 * US), nvtx("open", 5, None)),
        *(call("cudaLaunchKernel", 2, 4, 1, tid=101), kernel("k", 6, 9, 1), kernel("k", 6, 9, 7)),
        *(
            memcpy(11, 5, 9, 8),
            kernel("k", 5, 50, None, pid=200),
            kernel("k", 5, 9, None, pid=300, deviceId=1),
        ),
    ]
    notes = audited(opened(tmp_path, *rows).select(device=0)).notes
    begins = (
        "selected ranges count whole, with calls",
        "excluded NVTX ranges, without an end or on another thread: 1",
        "ranges with launches by other threads, as in PyTorch's backward: 1;",
        "migrations of unified memory: 1;",
        "GPU operations without a recorded API call: 3;",
        "other GPU work includes processes with a device of the same id: 100, 200",
    )
    assert len(notes) == len(begins)
    for note, beginning in zip(notes, begins, strict=True):
        assert note.startswith(beginning)


def test_a_process_alone_on_its_device_shares_none(tmp_path: Path) -> None:
    rows = [nvtx("r", 0, 90 * US), call("cudaLaunchKernel", 2, 4, 1), kernel("k", 6, 9, 1)]
    others = [kernel("k", 5, 50, None, pid=200), kernel("k", 5, 9, None, pid=300, deviceId=1)]
    notes = audited(opened(tmp_path, *rows, *others)).notes
    assert "other GPU work includes processes with a device of the same id: 100, 200" in notes


def test_a_capture_without_gpu_work_says_so(tmp_path: Path) -> None:
    table = audited(opened(tmp_path, nvtx("r", 0, 9), call("cudaLaunchKernel", 2, 4, 1)))
    assert table.notes == (
        "no GPU work recorded: the launches of the ranges are unknown (nsyswrap profile --trace cuda,nvtx)",
    )
    assert table.verdict == "no NVTX range launches GPU work or waits for it"


def test_the_verdict_tells_what_is_off_by_most(tmp_path: Path) -> None:
    once, repeated = step("once", 1, 10, 900), [*step("loop", 2, 10, 20), *step("loop", 3, 10, 30)]
    library = [domain("library", 1), *step("x", 4, 10, 800, domainId=1), *step("x", 5, 10, 800, domainId=1)]

    def verdict(name: str, *rows: Row) -> str:
        (tmp_path / name).mkdir()
        return audited(opened(tmp_path / name, *FIRST, *rows)).verdict

    right = step("right", 6, 50, 20)
    assert verdict("right", *right) == "1 of 1 range names time their GPU work correctly"
    assert verdict("first") == "1 of 1 range names time their GPU work correctly"  # nothing but warm-up
    assert verdict("once", *right, *once) == (
        "1 of 2 range names time their GPU work correctly; 'once' (1 instance) ends before its GPU work: "
        "10.0 µs, expected 900 µs"
    )
    assert verdict("loop", *once, *repeated, *library).endswith(
        "'loop' (2 of 2 instances) ends before its GPU work: 10.0 µs, expected 25.0 µs"
    )
    said = mark(5_020_000, {"name": "x", "host_ns": 9000})
    assert "; 'x@library' (2 of 2 " in verdict("said", *once, *repeated, *library, said)


def test_only_names_that_are_complete_every_time_count(tmp_path: Path) -> None:
    rows = [*FIRST, *step("r", 1, 30, 10), *step("r", 2, 30, 10), *step("r", 3, 20, 30)]
    assert audited(opened(tmp_path, *rows)).verdict == (
        "0 of 1 range names time their GPU work correctly; 'r' (1 of 3 instances) ends before its GPU work: "
        "20.0 µs, expected 30.0 µs"
    )


def test_verdicts_beside_what_the_program_measured(tmp_path: Path) -> None:
    rows = [*step("x/a", 0, 30, 10), *step("x/a", 1, 10, 40), *step("x/a", 2, 10, 20), *step("x/a", 3, 30, 9)]
    timings = [
        {"range": "x/a", "operator": "a", "median_us": 9.5},
        {"range": "x/b", "operator": "b", "median_us": 2.0},
    ]
    measured = {
        "x": {"timings": timings},
        "alone": {"timings": timings[1:]},
        "bare": {"timings": timings[1:]},
    }
    (tmp_path / "bare").mkdir()
    bare = opened(tmp_path / "bare", kernel("k", 0, 5, 1))  # neither ranges nor calls
    table = audit_by_variant({"x": opened(tmp_path, *rows), "bare": bare}, measured)
    # the program's median; verdict, instances, median of host time and of what it should be, error
    assert table.rows() == [
        ("x", "a", 9500.0, "launch only", 2, 10.0 * US, 30.0 * US, pytest.approx(-62.5)),
        ("x", "a", 9500.0, "complete", 1, 30.0 * US, 30.0 * US, 0.0),
        *((variant, "b", 2000.0, None, None, None, None, None) for variant in measured),
    ]


# Which verdicts the steady ranges of a recorded run get: what follows from how it is timed.
RECORDED = {
    ("events/sync", "sync/a * b"): {"complete"},
    ("events/nosync", "nosync/a * b"): {"mixed", "launch only"},
    ("events/event", "event/a * b"): {"mixed", "launch only"},
    ("gelu/triton", "triton/gelu"): {"complete"},
    ("cdist/mm", "mm/cdist"): {"complete"},
    ("overlap/four_streams", "four_streams/pipeline"): {"complete"},
    ("graphs/graph", "graph/chain"): {"complete"},
    ("storm/busy", "busy/launches"): {"launch only"},
    ("nvtx/kernels", "wait@io"): {"no GPU work"},
}


@pytest.mark.parametrize(("run", "name"), RECORDED, ids=lambda text: text.replace(" ", ""))
def test_recorded_runs_get_the_verdicts_they_deserve(run: str, name: str, tmp_path: Path) -> None:
    rows = records_of(audited(open_capture(recorded.run_folder(run, tmp_path))))
    found = {row["verdict"] for row in rows if (row["range"], row["phase"]) == (name, "steady")}
    assert found == RECORDED[run, name]


@sampled("run", recorded.capture_names(), fast=recorded.DOZEN)
def test_what_holds_in_every_recorded_range(run: str, tmp_path: Path) -> None:
    capture = open_capture(recorded.run_folder(run, tmp_path))
    if not (capture.has("nvtx") and capture.has("api")):
        return
    found = audit(capture)
    verdict = np.array(VERDICTS)[found.verdict]
    late = np.isin(verdict, (LAUNCH_ONLY, MIXED))
    assert (found.should_ns >= 0).all()
    assert (found.should_ns[verdict == COMPLETE] == found.host_ns[verdict == COMPLETE]).all()
    assert (
        found.should_ns[verdict == LAUNCH_ONLY] > found.host_ns[verdict == LAUNCH_ONLY] + TOLERANCE_NS
    ).all()
    assert (found.should_ns[verdict == EARLIER] <= found.host_ns[verdict == EARLIER]).all()
    assert (found.own_end_after_ns[late] > TOLERANCE_NS).all()
    assert (found.own_busy_ns <= found.own_gpu_ns).all()
    assert (found.sync_ns <= found.api_ns).all()
    assert (found.api_ns <= found.host_ns).all()
    assert (found.other_ns <= found.host_ns).all()
    assert (found.reported_ns <= found.host_ns).all()  # missing is less
