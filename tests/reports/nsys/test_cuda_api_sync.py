from pathlib import Path

from report_tables import csv_of, notes_text, rows_of, starts_of
from tiny_export import call, opened

REPORT = "cuda_api_sync"
HEADER = "Duration (ns),Start (ns),PID,TID,API Name\n"


def test_calls_that_synchronise(tmp_path: Path) -> None:
    calls = [
        call("cudaDeviceSynchronize_v3020", 0, 30),
        call("CUDASTREAMSYNCHRONIZE", 40, 90, tid=102),
        call("cudaEventSynchronize", 0, 999),
        call("cuStreamSynchronize", 0, 999),
        call("cudaDeviceSynchronize_v3020", 100, 130, pid=200),
    ]
    capture = opened(tmp_path, *calls)
    assert csv_of(capture, REPORT) == (
        f"{HEADER}"
        "50,40,100,102,CUDASTREAMSYNCHRONIZE\n"
        "30,0,100,100,cudaDeviceSynchronize_v3020\n"
        "30,100,200,200,cudaDeviceSynchronize_v3020\n"
    )
    assert starts_of(capture, "cuda_api_sync:process=100") == [40, 0]
    assert starts_of(capture, "cuda_api_sync:process=100:thread=100") == [0]
    assert starts_of(capture, "cuda_api_sync:thread=200:process=-1") == [100]


def test_the_longest_are_listed_and_how_many_there_are_is_said(tmp_path: Path) -> None:
    capture = opened(tmp_path, *(call("cudaDeviceSynchronize", 0, end) for end in range(60)))
    assert len(rows_of(capture, REPORT)) == 50
    assert notes_text(capture, REPORT) == "50 of 60 rows (the longest); rows=-1 lists all"
    assert [line.partition(",")[0] for line in rows_of(capture, "cuda_api_sync:rows=2")] == ["59", "58"]
    assert rows_of(capture, "cuda_api_sync:rows=0") == []
    assert notes_text(capture, "cuda_api_sync:rows=0") == "0 of 60 rows (the longest); rows=-1 lists all"
    assert (
        len(rows_of(capture, "cuda_api_sync:rows=-1")) == len(rows_of(capture, "cuda_api_sync:rows=60")) == 60
    )
    assert notes_text(capture, "cuda_api_sync:rows=60") == ""


def test_other_calls_have_no_row(tmp_path: Path) -> None:
    assert csv_of(opened(tmp_path, call("cudaEventSynchronize", 0, 5)), REPORT) == HEADER
