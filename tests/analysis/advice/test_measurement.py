"""Doubts about figures: lost events, and ranges that the program measures with. Drawings are in us."""

from pathlib import Path
from typing import Any

import pytest
from advised import findings_of, launched, looped, moved, new
from tiny_export import Row, call, diagnostic, domain, kernel, nvtx

from nsyswrap.analysis.advice import advise_processes
from nsyswrap.analysis.judged_process import judged_processes
from nsyswrap.api import CaptureReader
from nsyswrap.reports.wording.advice import words

LOST = "Not all CUDA events might have been collected."
SYNC = "cudaDeviceSynchronize"
US = 1000  # ns


def notes_of(capture: CaptureReader) -> dict[str, Any]:
    return {note.kind: note.numbers for note in advise_processes(capture, judged_processes(capture)).notes}


def test_lost_events_stand_first(tmp_path: Path) -> None:
    found = findings_of(new(tmp_path, *looped(*launched(400, host=390)), diagnostic(LOST)))
    assert list(found) == ["lost_events", "host_bound"]
    one = found["lost_events"]
    assert (one.ceiling_ns, one.ceiling_percent, one.status) == (None, None, "measured")
    assert one.numbers == {
        "losses": (LOST,),
        "first_step": None,
        "last_step": None,
        "xla_broke_import": False,
    }


@pytest.mark.parametrize("name", ["TSL", "other"])
def test_ranges_of_xla_that_nsys_could_not_import(name: str, tmp_path: Path) -> None:
    messages = diagnostic("Error when processing events: Source ID="), diagnostic(LOST)
    rows = (*looped(*launched(400, host=390)), *messages, domain(name, 3))
    one = findings_of(new(tmp_path, *rows))["lost_events"]
    assert one.numbers["xla_broke_import"] == (name == "TSL")
    assert words(one).example.startswith("nsyswrap profile --trace cuda -- ") == (name == "TSL")


def test_other_warnings_are_no_doubt(tmp_path: Path) -> None:
    found = findings_of(
        new(tmp_path, *looped(*launched(400, host=390)), diagnostic("the clock was adjusted"))
    )
    assert list(found) == ["host_bound"]


def repeated(*rows: Row, times: int = 4) -> list[Row]:
    """Repeat rows every ms, with a kernel of the same name in each; the first time is warm-up."""
    return [moved(one, 1000 * US * i, 10 * i) for i in range(times) for one in rows]


# S 0-5 | a 10 [ L 12-20 ] end | S 925-960
# GPU               k[30 ......... 950)
def timed(end: int, *, waits: bool = True) -> list[Row]:
    launch = [call("cudaLaunchKernel", 12 * US, 20 * US, 1), kernel("k", 30 * US, 950 * US, 1)]
    syncs = [call(SYNC, 0, 5 * US), call(SYNC, 925 * US, 960 * US)]
    return [nvtx("a", 10 * US, end * US), *launch, *(syncs if waits else [])]


def test_a_range_that_ends_before_its_work_is_a_finding_where_the_program_measures(tmp_path: Path) -> None:
    capture = new(tmp_path, *repeated(*timed(200)))
    found = findings_of(capture)
    assert list(found)[-1] == "timed_launch_only"
    one = found["timed_launch_only"]
    assert (one.ceiling_ns, one.source) == (None, "timing_audit")
    # after the warm-up; from the begin of the range to the end of its work it should be 940 us
    assert one.numbers == {"tolerance_percent": 10.0, "ranges": (("a", 3, 3, 190000.0, 940000.0),)}
    assert notes_of(capture) == {}


def test_it_stands_below_what_costs_time(tmp_path: Path) -> None:
    # 50 us, from the end of the kernel to that of the next launch: 5.x % of 2.95 ms
    found = findings_of(new(tmp_path, *repeated(*timed(200))))
    assert list(found) == ["synchronizing", "timed_launch_only"]


def test_a_range_that_organizes_is_a_note(tmp_path: Path) -> None:
    capture = new(tmp_path, *repeated(*timed(200, waits=False)))
    assert "timed_launch_only" not in findings_of(capture)
    assert notes_of(capture) == {"ranges_differ": {"names": ("a",)}}


def test_a_range_of_a_library_is_not_mentioned(tmp_path: Path) -> None:
    ranges = [nvtx("a", 10 * US, 200 * US, domainId=1), *timed(200, waits=False)[1:]]
    capture = new(tmp_path, domain("library", 1), *repeated(*ranges))
    assert "timed_launch_only" not in findings_of(capture)
    assert notes_of(capture) == {}


@pytest.mark.parametrize(("end", "wrong"), [(864, True), (865, False)])
def test_a_tenth_of_the_right_time_is_accepted(end: int, wrong: bool, tmp_path: Path) -> None:  # noqa: FBT001
    # 940 us are right: more than 1.1 x 854 = 939.4, but not more than 1.1 x 855 = 940.5
    found = findings_of(new(tmp_path, *repeated(*timed(end))))
    assert ("timed_launch_only" in found) is wrong


# L 2-6 | b 10 [ L 12-20, S 30-960 ] 970
# GPU     e[10 ... 600) k[600 ... 950)
def test_a_range_that_waits_for_earlier_work(tmp_path: Path) -> None:
    rows = [
        *(call("cudaLaunchKernel", 2 * US, 6 * US, 2), kernel("e", 10 * US, 600 * US, 2)),
        *(nvtx("b", 10 * US, 970 * US), call("cudaLaunchKernel", 12 * US, 20 * US, 1)),
        *(kernel("k", 600 * US, 950 * US, 1), call(SYNC, 30 * US, 960 * US)),
    ]
    found = findings_of(new(tmp_path, *repeated(*rows)))
    assert list(found)[-1] == "timed_earlier_work"
    # without the 580 us from the return of its launch to the end of the earlier work
    assert found["timed_earlier_work"].numbers == {
        "tolerance_percent": 10.0,
        "ranges": (("b", 3, 3, 960000.0, 380000.0),),
    }


@pytest.mark.parametrize(("until", "wrong"), [(120, True), (100, False)])
def test_a_tenth_more_than_the_right_time_is_accepted(until: int, wrong: bool, tmp_path: Path) -> None:  # noqa: FBT001
    # 960 us without those from 20 us to the end of the earlier work: 1.1 x 860 = 946, but 1.1 x 880 = 968
    rows = [
        *(call("cudaLaunchKernel", 2 * US, 6 * US, 2), kernel("e", 10 * US, until * US, 2)),
        *(nvtx("b", 10 * US, 970 * US), call("cudaLaunchKernel", 12 * US, 20 * US, 1)),
        *(kernel("k", until * US, 950 * US, 1), call(SYNC, 30 * US, 960 * US)),
    ]
    assert ("timed_earlier_work" in findings_of(new(tmp_path, *repeated(*rows)))) is wrong


def test_without_gpu_work_no_range_is_wrong(tmp_path: Path) -> None:
    capture = new(tmp_path, nvtx("a", 0, 100), call(SYNC, 0, 50))
    assert findings_of(capture) == {}
    assert notes_of(capture) == {}
