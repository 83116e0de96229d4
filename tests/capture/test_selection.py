"""What part of a capture is looked at: times, NVTX ranges, devices, processes; whole rows or cut ones."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny_export import (
    MPI_OTHER,
    OSRT,
    PID,
    Row,
    call,
    diagnostic,
    domain,
    global_id,
    kernel,
    memcpy,
    nvtx,
    on_cpu,
    opened,
    um_cpu_fault,
    um_gpu_fault,
)

from nsyswrap.api import CaptureReader
from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import NotInCapture, UsageError
from nsyswrap.capture.capture import check_owners
from nsyswrap.capture.intervals import LEAST, MOST, whole_time
from nsyswrap.capture.selection import Selection, parse_selection, parse_time, resolve

WORKER = 101  # a thread that is not its process' first


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("5/7", 5, 7),
        ("5/5", 5, 5),
        ("1s/2.5s", 1_000_000_000, 2_500_000_000),
        ("10ms/", 10_000_000, None),
        ("/300us", None, 300_000),
        (" 1s/2s ", 1_000_000_000, 2_000_000_000),
        ("1s2ms3us4ns/", 1_002_003_004, None),
        ("2ns5us2/", 5_004, None),  # a number without a unit, as the last
        ("1nsec/1usec", 1, 1_000),
        ("1msec/1sec", 1_000_000, 1_000_000_000),
        ("1m/1h", 60_000_000_000, 3_600_000_000_000),
        ("1min/1hour", 60_000_000_000, 3_600_000_000_000),
        ("1e3/1E4us", 1_000, 10_000_000),
        ("1e-3s/", 1_000_000, None),
        (".5us/1.us", 500, 1_000),
        ("-1s-1ms/+1s", -1_001_000_000, 1_000_000_000),
        ("-1s1ms/", -999_000_000, None),
        ("-1.9/1.9", -1, 1),  # towards zero
        ("0.5ns0.5ns/", 0, None),
        ("9007199254740993/", 2**53 + 1, None),  # an integer stays exact
        ("9223372036854775807/", MOST, None),
        ("-9223372036854775808/", LEAST, None),
    ],
)
def test_times_in_the_grammar_of_nsys(text: str, start: int | None, end: int | None) -> None:
    assert parse_time(text) == (start, end)


@pytest.mark.parametrize("text", ["", "/", "5", "1s", " "])
def test_what_is_no_range_of_times(text: str) -> None:
    with pytest.raises(UsageError, match=r"expected \[START\]/\[END\], for example 1s/2.5s"):
        parse_time(text)


@pytest.mark.parametrize(
    "text",
    [
        *("s/", "e3/", "1x/", "1S/", "1 s/", "1s /2s", "1s/2s/3s", "//", "1//2", "1,000/", "1_000/", "0x10/"),
        *("inf/", "nan/", "--1/", "1+1/", "1-1/", "1..5/", "1.5.5s/", "-/", "./", "1e/", "1secs/", "1µs/"),
        *("\u0661/", "9" * 5000 + "/"),
    ],
)
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(
        UsageError, match=r"^invalid time .*: expected numbers with units .*, for example 1s2.5ms"
    ):
        parse_time(text)


@pytest.mark.parametrize(
    "text",
    ["9223372036854775808/", "-9223372036854775809/", "1e19/", "1e400s/", "300000000000h/", "1e400s-1e400s/"],
)
def test_times_that_64_bits_do_not_hold(text: str) -> None:
    with pytest.raises(UsageError, match="the nanoseconds do not fit into 64 bits"):
        parse_time(text)


def test_a_range_that_ends_before_it_starts() -> None:
    with pytest.raises(UsageError, match="invalid --time '2s/1s': the end is before the start"):
        parse_time("2s/1s")


def test_a_time_and_a_range_do_not_go_together() -> None:
    with pytest.raises(UsageError, match="--time cannot be used with --nvtx"):
        parse_selection("1/2", "step")


def spans(*times: tuple[int, int]) -> list[Row]:
    return [kernel(f"{start}-{end}", start, end, 1) for start, end in times]


def names(capture: CaptureReader, kind: str = "kernel") -> list[str | None]:
    return [capture.text(i) for i in capture.name_ids(kind).tolist()]


BOUNDS = [(0, 10), (0, 11), (10, 20), (15, 15), (19, 30), (20, 30), (5, 20), (5, 25), (10, 10), (20, 20)]


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        # An end at the window's start counts, one at its end does not; what spans the window does.
        ("10/20", ["0-10", "0-11", "10-20", "15-15", "19-30", "5-20", "5-25", "10-10"]),
        ("20/", ["10-20", "19-30", "20-30", "5-20", "5-25", "20-20"]),
        ("/10", ["0-10", "0-11", "5-20", "5-25"]),
        ("10/10", ["0-10", "0-11", "5-20", "5-25"]),
        ("40/50", []),
        ("-1h/1h", [f"{start}-{end}" for start, end in BOUNDS]),
    ],
)
def test_rows_that_overlap_a_window_stay_whole(tmp_path: Path, time: str, expected: list[str]) -> None:
    capture = opened(tmp_path, *spans(*BOUNDS)).select(time=time, clip=False)
    assert names(capture) == expected
    assert capture.count("kernel") == len(expected)
    assert capture.has("kernel") == bool(expected)
    columns = capture.columns("kernel", "start_ns", "end_ns")
    assert [f"{s}-{e}" for s, e in zip(*(c.tolist() for c in columns.values()), strict=True)] == expected


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("10/20", [(10, 11), (10, 20), (15, 15), (19, 20), (10, 20), (10, 20), (10, 10)]),
        ("20/", [(20, 30), (20, 30), (20, 25), (20, 20)]),
        ("/10", [(0, 10), (0, 10), (5, 10), (5, 10)]),
        ("40/50", []),
    ],
)
def test_rows_cut_off_at_a_window_have_a_part_in_it(
    tmp_path: Path, time: str, expected: list[tuple[int, int]]
) -> None:
    capture = opened(tmp_path, *spans(*BOUNDS)).select(time=time, clip=True)
    columns = capture.columns("kernel", "start_ns", "end_ns")
    assert list(zip(*(c.tolist() for c in columns.values()), strict=True)) == expected


def test_left_to_the_reports_nsys_own_are_whole_and_the_others_are_cut(tmp_path: Path) -> None:
    capture = opened(tmp_path, memcpy(1, 0, 100, 8)).select(time="40/60")
    assert capture.report("cuda_gpu_mem_time_sum").data["total_ns"] == [100]
    assert capture.report("memcpy_bandwidth").data["total_ns"] == [20]
    rule = "reports of nsys and events: whole rows; other reports: rows cut at the ends"
    assert capture.selected.endswith(f"; {rule}")
    assert "whole rows (--clip no)" in capture.report("cuda_gpu_mem_time_sum").selection
    assert "cut at its ends (--clip yes)" in capture.report("memcpy_bandwidth").selection


@pytest.mark.parametrize(("clip", "total"), [(False, 100), (True, 20)])
def test_the_user_says_whether_rows_are_cut(tmp_path: Path, clip: bool, total: int) -> None:  # noqa: FBT001
    capture = opened(tmp_path, memcpy(1, 0, 100, 8)).select(time="40/60", clip=clip)
    for name in ("cuda_gpu_mem_time_sum", "memcpy_bandwidth"):
        assert capture.report(name).data["total_ns"] == [total]


def test_devices_and_processes(tmp_path: Path) -> None:
    rows = [kernel(f"{pid}.{gpu}", 0, 5, 1, pid=pid, deviceId=gpu) for pid in (100, 200) for gpu in (0, 1)]
    capture = opened(tmp_path, *rows, call("cudaFree", 0, 5), call("cuFree", 0, 5, pid=200, tid=7))
    assert names(capture.select(device=1)) == ["100.1", "200.1"]
    assert names(capture.select(process=200)) == ["200.0", "200.1"]
    assert names(capture.select(process=200, device=0)) == ["200.0"]
    assert names(capture.select(process=200, device=0), "api") == ["cuFree"]
    assert names(capture.select(process=200, time="5/")) == ["200.0", "200.1"]
    several = capture.viewed(selection=Selection(devices=(0, 1), processes=(100, 200)))
    assert several.count("kernel") == 4


def test_a_process_id_is_taken_out_of_an_id_of_64_bits(tmp_path: Path) -> None:
    high = global_id(300, 0, hardware=255)
    capture = opened(tmp_path, kernel("k", 0, 5, globalPid=high), kernel("l", 0, 5))
    assert high < 0
    assert names(capture.select(process=300)) == ["k"]


def test_the_whole_capture_is_still_there(tmp_path: Path) -> None:
    part = opened(tmp_path, *spans((0, 5), (10, 15))).select(time="10/")
    assert (part.count("kernel"), part.whole.count("kernel")) == (1, 2)
    assert part.whole.view.selection == Selection()
    assert part.select(time="0/").count("kernel") == 2  # a part of the whole, not of the part
    assert part.whole is part.whole


def test_a_part_is_read_only_and_keeps_its_row_numbers(tmp_path: Path) -> None:
    part = opened(tmp_path, *spans((0, 5), (10, 15), (20, 25))).select(time="10/")
    assert part.columns("kernel", "row")["row"].tolist() == [2, 3]
    assert not part.columns("kernel", "start_ns")["start_ns"].flags.writeable
    assert part.events("kernel")["start_ns"].tolist() == [10, 20]


def test_events_without_an_end_are_in_every_window_unless_rows_are_cut(tmp_path: Path) -> None:
    faults = (um_cpu_fault(4096, 5), um_cpu_fault(8192, 50), um_gpu_fault(4096, 5, 6))
    capture = opened(tmp_path, *faults, kernel("k", 0, 5))
    assert capture.select(time="40/60", clip=False).count("um_cpu_fault") == 2
    assert capture.select(time="40/60", clip=False).count("um_gpu_fault") == 0
    assert capture.select(time="40/60", clip=True).columns("um_cpu_fault", "address") == {"address": [8192]}
    assert capture.select(process=5).count("um_cpu_fault") == 0


def test_what_has_no_time_is_in_every_window(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 0, 5), diagnostic("odd"))
    for clip in (False, True):
        assert capture.select(time="1h/", clip=clip).count("diagnostic") == 1


@pytest.mark.parametrize("clip", [False, True])
def test_an_open_range_is_in_the_window_it_began_in(tmp_path: Path, clip: bool) -> None:  # noqa: FBT001
    capture = opened(tmp_path, nvtx("open", 10, None), kernel("k", 0, 5))
    assert capture.select(time="5/15", clip=clip).count("nvtx") == 1
    assert capture.select(time="/10", clip=clip).count("nvtx") == 0
    # Later it goes on, but nsys' rule does not know that.
    assert capture.select(time="20/30", clip=clip).count("nvtx") == clip
    assert capture.select(time="5/15", clip=clip).columns("nvtx", "end_ns")["end_ns"].tolist() == [MISSING]


def test_domains_are_kept_where_rows_are_cut(tmp_path: Path) -> None:
    capture = opened(tmp_path, domain("lib", 1), nvtx("a", 10, 20, domainId=1))
    assert capture.select(time="10/20", clip=True).count("nvtx") == 2
    assert capture.select(time="10/20", clip=False).count("nvtx") == 1


def test_missing_times_are_in_no_window(tmp_path: Path) -> None:
    endless = Row(MPI_OTHER, {**on_cpu(MPI_OTHER, "MPI_Init", 10, 0).cells, "end": None})
    capture = opened(tmp_path, kernel("k", 0, 5), endless)
    for time, found in (("20/24", 0), ("/5", 0), ("/20", 1), ("20/30", 0)):
        assert capture.select(time=time, clip=False).count("mpi_other") == found


def said(selection: Selection) -> str:
    return selection.text(whole_time())


def test_a_missing_gpu_or_process_is_named_alone(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("a", 0, 1), kernel("b", 2, 3, deviceId=1, pid=7))
    for chosen, message, hint in (
        (Selection(devices=(1, 5, 6)), "no GPU 5, 6", "GPUs: 0, 1"),
        (Selection(processes=(7, 8)), "no process 8", f"processes: 7, {PID}"),
    ):
        with pytest.raises(NotInCapture) as error:
            check_owners(capture.viewed(selection=chosen))
        assert (error.value.message.rpartition(": ")[2], error.value.hint) == (message, hint)


def test_a_selection_says_what_it_is() -> None:
    assert said(Selection()) == ""
    assert said(parse_selection("1us/", clip=True)) == "time 0.000001s/; rows cut at its ends (--clip yes)"
    assert said(parse_selection("/5", clip=False)) == "time /0.000000005s; whole rows (--clip no)"
    assert said(parse_selection("0/100s", clip=True)).startswith("time 0s/100s; ")
    assert said(parse_selection("250150962/", clip=True)).startswith("time 250150962ns/; ")  # as s a ns less
    assert said(parse_selection(devices=(0, 1), processes=(7,))) == "device 0, 1; process 7"


def test_selections_and_arrays_are_shared(tmp_path: Path) -> None:
    capture = opened(tmp_path, *spans((0, 5)))
    assert capture.select(time="0/1us") is capture.select(time="0/1000")
    part = capture.select(time="0/")
    assert part.columns("kernel", "start_ns")["start_ns"] is part.columns("kernel", "start_ns")["start_ns"]
    assert part.columns("kernel", "start_ns")["start_ns"].dtype == np.int64


RANGES = (
    nvtx("step", 100, 110, tid=WORKER),
    nvtx("step", 10, 20, tid=WORKER),
    nvtx("step", 50, 60, domainId=1),
    nvtx("step", 30, 40, eventType=60, domainId=2),
    nvtx("step", 5, None, eventType=34),  # a mark
    nvtx(None, 70, 80, textId="step"),
    nvtx("a/b", 1, 2, WORKER),
    nvtx("a/1", 3, 4, WORKER),
    nvtx("2", 6, 7, WORKER),
    nvtx("open", 90, None, WORKER),
    nvtx("", 91, 92),
    nvtx(None, 93, 94),
    nvtx("own", 95, 96, textId="registered"),
    nvtx("nowhere", 97, 98, domainId=None),
    domain("lib", 1),
    domain(None, 2),
    domain("other", 1, pid=5),
    domain("none", None),
)


@pytest.mark.parametrize(
    ("asked", "times"),
    [
        ("step", [(10, 20), (30, 40), (70, 80), (100, 110)]),
        ("step/0", [(10, 20)]),
        ("step/1", [(30, 40)]),  # in a domain without a name
        ("step/2", [(70, 80)]),
        ("step/3", [(100, 110)]),
        ("step/1-2", [(30, 40), (70, 80)]),
        ("step/0-3", [(10, 20), (30, 40), (70, 80), (100, 110)]),
        ("step@lib", [(50, 60)]),
        ("step@lib/0", [(50, 60)]),
        ("a/b", [(1, 2)]),
        ("a/1/0", [(3, 4)]),  # what follows the last slash is the number
        ("a/1/0-0", [(3, 4)]),
        ("2", [(6, 7)]),
        ("open", [(90, MOST)]),
        ("/0", [(91, 92)]),  # a range without a name
        ("own", [(95, 96)]),  # rather than the string registered
        ("nowhere", [(97, 98)]),
    ],
)
def test_the_ranges_of_a_name_a_domain_and_numbers(
    tmp_path: Path, asked: str, times: list[tuple[int, int]]
) -> None:
    window = resolve(parse_selection(nvtx=asked), opened(tmp_path, *RANGES))
    assert list(zip(window.starts.tolist(), window.ends.tolist(), strict=True)) == times
    assert (window.start_ns, window.end_ns) == (times[0][0], times[-1][1])


@pytest.mark.parametrize(("asked", "start"), [("step", 10), ("step/1", 30), ("step/2-3", 70)])
def test_nsys_takes_the_first_of_the_ranges_asked_for(tmp_path: Path, asked: str, start: int) -> None:
    selection = parse_selection(nvtx=asked).decided(as_nsys=True)
    assert resolve(selection, opened(tmp_path, *RANGES)).starts.tolist() == [start]


@pytest.mark.parametrize(
    ("asked", "ours", "as_nsys"),
    [
        ("step", "all 4 instances", "instance 0 of 4, as nsys"),
        ("step/2", "instance 2 of 4", "instance 2 of 4"),
        ("step/1-2", "instances 1 to 2 of 4", "instance 1 of 4, as nsys"),
        ("step/1-1", "instance 1 of 4", "instance 1 of 4"),
        ("step@lib", "its only instance", "its only instance"),
    ],
)
def test_a_selection_says_how_many_ranges_it_takes(
    tmp_path: Path, asked: str, ours: str, as_nsys: str
) -> None:
    capture = opened(tmp_path, *RANGES, kernel("k", 0, 200)).select(nvtx=asked)
    name = asked.partition("/")[0]
    ends = "their ends" if "instances" in ours else "its ends"
    said = f"NVTX range '{name}': {ours}; rows cut at {ends} (--clip yes)"
    assert capture.report("gpu_time").selection == said
    said = f"NVTX range '{name}': {as_nsys}; whole rows (--clip no)"
    assert capture.report("cuda_gpu_kern_sum").selection == said


@pytest.mark.parametrize(
    ("asked", "problem", "hint"),
    [
        (
            "step/4",
            "no NVTX range 'step/4'; instances named 'step': 4",
            "numbers start at 0; the last is step/3",
        ),
        (
            "step/2-4",
            "no NVTX range 'step/2-4'; instances named 'step': 4",
            "numbers start at 0; the last is step/3",
        ),
        (
            "step@lib/1",
            "no NVTX range 'step@lib/1'; instances named 'step@lib': 1",
            "numbers start at 0; the last is step@lib/0",
        ),
        ("step@other", "no NVTX range named 'step@other'", "names: a/b, a/1, 2, step, step@lib, "),
        ("Step", "no NVTX range named 'Step'", "did you mean 'step'? names: a/b, a/1, 2, step, step@lib, "),
        ("step@", "no NVTX range named 'step@'", "did you mean 'step'? names: a/b, a/1, 2, step, step@lib, "),
        (
            "step/-1",
            "no NVTX range named 'step/-1'",
            "did you mean 'step'? names: a/b, a/1, 2, step, step@lib, ",
        ),
        (
            "step/1-",
            "no NVTX range named 'step/1-'",
            "did you mean 'step'? names: a/b, a/1, 2, step, step@lib, ",
        ),
        (
            "step/²",
            "no NVTX range named 'step/²'",
            "did you mean 'step'? names: a/b, a/1, 2, step, step@lib, ",
        ),
        ("a/1", "no NVTX range named 'a'", "use a/1/0-0 for all ranges named 'a/1'; names: a/b, "),
    ],
)
def test_a_range_that_there_is_not(tmp_path: Path, asked: str, problem: str, hint: str) -> None:
    capture = opened(tmp_path, *RANGES, kernel("k", 0, 5)).select(nvtx=asked)
    with pytest.raises(NotInCapture, match=problem) as caught:
        capture.report("cuda_gpu_kern_sum")
    assert hint in caught.value.hint
    assert str(caught.value).endswith(caught.value.hint)


def test_numbers_in_the_wrong_order() -> None:
    with pytest.raises(UsageError, match="'step/5-2': instance 2 is before 5") as caught:
        parse_selection(nvtx="step/5-2")
    assert caught.value.hint == "use step/2-5"


def test_the_names_of_many_ranges_are_cut_short(tmp_path: Path) -> None:
    capture = opened(tmp_path, *(nvtx(f"range {i:04}", i, i + 1) for i in range(1000)))
    with pytest.raises(NotInCapture) as caught:
        resolve(parse_selection(nvtx="none"), capture)
    assert len(caught.value.hint) < 600
    assert caught.value.hint.endswith(" …")


def test_a_capture_without_ranges(tmp_path: Path) -> None:
    bare = opened(tmp_path, kernel("k", 0, 5))
    with pytest.raises(NotInCapture, match="no NVTX events in this capture") as caught:
        resolve(parse_selection(nvtx="step"), bare)
    assert "--trace cuda,nvtx" in caught.value.hint


def test_a_domain_that_was_created_twice_counts_each_of_its_ranges_twice(tmp_path: Path) -> None:
    # As nsys does: /1 is the first range again, /2 the second.
    ranges = [nvtx("a", start, start + 1, domainId=1) for start in (10, 20)]
    capture = opened(tmp_path, *ranges, domain("lib", 1), domain("lib", 1, tid=WORKER))
    starts = [resolve(parse_selection(nvtx=f"a@lib/{number}"), capture).start_ns for number in range(4)]
    assert starts == [10, 10, 20, 20]
    every = resolve(parse_selection(nvtx="a@lib"), capture)
    assert (every.starts.tolist(), every.total) == ([10, 20], 2)  # and all of them are two


def test_a_range_of_a_worker_selects_what_its_thread_did_and_what_its_process_did_on_the_gpu(
    tmp_path: Path,
) -> None:
    capture = opened(
        tmp_path,
        nvtx("step", 10, 20, WORKER),
        *(call(f"{pid}.{tid}", 12, 15, pid=pid, tid=tid) for pid in (PID, 200) for tid in (WORKER, 300)),
        call("later", 20, 25, tid=WORKER),
        *(kernel(f"{pid}", 12, 15, pid=pid) for pid in (PID, 200)),
        on_cpu(OSRT, "poll", 0, 100, WORKER),
        on_cpu(OSRT, "read", 0, 100, 300),
    ).select(nvtx="step")
    assert names(capture, "api") == [f"{PID}.{WORKER}"]
    assert names(capture) == [f"{PID}"]
    assert names(capture, "osrt") == ["poll"]


def test_a_range_of_the_first_thread_selects_its_whole_process(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        nvtx("step", 10, 20, PID),
        *(call(f"{pid}.{tid}", 12, 15, pid=pid, tid=tid) for pid in (PID, 200) for tid in (WORKER, 300)),
    ).select(nvtx="step")
    assert names(capture, "api") == [f"{PID}.{WORKER}", f"{PID}.300"]


def test_a_trimmed_export_does_not_say_whose_its_kernels_are(tmp_path: Path) -> None:
    rows = (nvtx("step", 10, 20), kernel("k", 12, 15), kernel("l", 30, 40))
    assert names(opened(tmp_path, *rows, without=["globalPid"]).select(nvtx="step")) == ["k"]


def test_what_has_a_start_alone_is_cut_as_what_lasts(tmp_path: Path) -> None:
    rows = (kernel("k", 0, 20), um_cpu_fault(4096, 7), um_cpu_fault(8192, 70), nvtx("a", 5, 50))
    selection = replace(parse_selection(nvtx="a"), clip=True)
    capture = opened(tmp_path, *rows, call("cudaLaunchKernel", 6, 9)).viewed(selection=selection)
    assert capture.columns("um_cpu_fault", "start_ns")["start_ns"].tolist() == [7]
    assert capture.columns("kernel", "start_ns")["start_ns"].tolist() == [5]
