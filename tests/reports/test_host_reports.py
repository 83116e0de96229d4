"""nsys' reports on what the CPU did, against numbers worked out on paper."""

from pathlib import Path

import pytest
from report_tables import capture_of, rows_of
from tiny_export import (
    MPI_COLLECTIVE,
    MPI_OTHER,
    MPI_P2P,
    OPENMP,
    OSRT,
    PID,
    Row,
    global_id,
    kernel,
    on_cpu,
    row,
)

from nsyswrap.base.errors import NotInCapture

RANK = row("MPI_RANKS", globalTid=global_id(PID, PID), rank=3)


def never_ended(call: Row) -> Row:
    return call._replace(cells={**call.cells, "end": None})


def test_mpi_calls_that_never_ended_are_counted_and_have_no_time(tmp_path: Path) -> None:
    calls = [on_cpu(MPI_P2P, "MPI_Recv", 0, 30), on_cpu(MPI_P2P, "MPI_Recv", 40, 50), RANK]
    waits = never_ended(on_cpu(MPI_COLLECTIVE, "MPI_Barrier", 60, 0))
    capture = capture_of(tmp_path, *calls[:1], never_ended(calls[1]), waits, RANK)
    assert rows_of(capture, "mpi_event_sum") == [
        "100.0,30,2,30.0,30.0,30,30,0.0,p2p,MPI_Recv",
        ",,1,,,,,0.0,collectives,MPI_Barrier",
    ]
    assert rows_of(capture, "mpi_event_trace") == [
        "0,30,30,MPI_Recv,100,100,,3,,,,,",
        "40,,,MPI_Recv,100,100,,3,,,,,",
        "60,,,MPI_Barrier,100,100,,3,,,,,",
    ]


def test_one_process_of_several(tmp_path: Path) -> None:
    calls = [
        on_cpu(MPI_OTHER, name, 0, 10, globalTid=global_id(pid, pid)) for name, pid in [("a", 1), ("b", 2)]
    ]
    ranks = [row("MPI_RANKS", globalTid=global_id(pid, pid), rank=pid * 10) for pid in (1, 2)]
    chosen = capture_of(tmp_path, *calls, *ranks).select(process=2)
    assert rows_of(chosen, "mpi_event_trace") == ["0,10,10,b,2,2,,20,,,,,"]
    assert rows_of(chosen, "mpi_event_sum") == ["100.0,10,1,10.0,10.0,10,10,0.0,other,b"]


def test_events_of_several_tables_are_one_kind(tmp_path: Path) -> None:
    calls = [on_cpu("OPENMP_EVENT_KIND_TASK", "task", 5, 8), on_cpu(OPENMP, "region", 0, 10)]
    frame = capture_of(tmp_path, *calls).events("openmp")
    assert frame[["name", "start_ns", "duration_ns", "thread_id"]].to_numpy().tolist() == [
        ["region", 0, 10, PID],
        ["task", 5, 3, PID],
    ]


@pytest.mark.parametrize(
    "name", ["osrt_sum", "openmp_sum", "openacc_sum", "mpi_event_sum", "mpi_event_trace"]
)
def test_nothing_recorded_is_said(name: str, tmp_path: Path) -> None:
    with pytest.raises(NotInCapture) as caught:
        capture_of(tmp_path, kernel("k", 0, 1), empty=[OSRT, OPENMP, MPI_P2P]).report(name)
    assert f"--trace cuda,nvtx,{name[:3]}" in caught.value.hint
