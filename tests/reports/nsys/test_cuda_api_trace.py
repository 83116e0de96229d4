from pathlib import Path

from report_tables import csv_of, notes_of, rows_of
from tiny_export import call, opened, row

REPORT = "cuda_api_trace"
HEADER = "Start (ns),Duration (ns),Name,Result,CorrID,Pid,Tid,T-Pri,Thread Name\n"


def test_calls_with_their_results_and_threads(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        call("cudaMalloc_v3020", 20, 25, 2, returnValue=2),
        call("cudaFree", 0, 10, None, tid=7),
        call(9, 20, 21, 1, tid=8),
        row("ThreadNames", nameId="python3", priority=20, globalTid=call("", 0, 0).cells["globalTid"]),
        row("ThreadNames", nameId=9, priority=None, globalTid=call("", 0, 0, tid=7).cells["globalTid"]),
    )
    assert csv_of(capture, REPORT) == (
        f"{HEADER}0,10,cudaFree,0,,100,7,,\n20,5,cudaMalloc,2,2,100,100,20,python3\n20,1,,0,1,100,8,,\n"
    )
    assert notes_of(capture, REPORT) == ()


def test_calls_of_a_trimmed_export_have_no_thread_names(tmp_path: Path) -> None:
    capture = opened(tmp_path, call("cudaFree", 0, 10, 1))
    assert rows_of(capture, REPORT) == ["0,10,cudaFree,0,1,100,100,,"]
    [note] = notes_of(capture, REPORT)
    assert "ThreadNames" in note
