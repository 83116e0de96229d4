"""nsys' reports on what the CPU did, against numbers worked out on paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from nsys_says import made_by_us
from tiny_export import (
    MPI_COLLECTIVE,
    MPI_OTHER,
    MPI_P2P,
    MPI_START_WAIT,
    OPENACC,
    OPENMP,
    OSRT,
    PID,
    global_id,
    kernel,
    on_cpu,
    opened,
    row,
)

from nsyswrap.base.errors import NotInCapture

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tiny_export import Row

    from nsyswrap.api import Capture

STATISTICS = "Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns)"
RANK = row("MPI_RANKS", globalTid=global_id(PID, PID), rank=3)


def capture_of(folder: Path, *rows: Row, empty: Iterable[str] = (), without: Iterable[str] = ()) -> Capture:
    """A capture with these rows, and with a GPU: every export knows the machine it is from."""
    return opened(folder, *rows, row("TARGET_INFO_GPU", id=0, name="GPU"), empty=empty, without=without)


def csv_of(capture: Capture, asked: str) -> str:
    return made_by_us(capture, asked, "2025")


def rows_of(capture: Capture, asked: str) -> list[str]:
    return csv_of(capture, asked).splitlines()[1:]


def never_ended(call: Row) -> Row:
    return call._replace(cells={**call.cells, "end": None})


def test_os_runtime_calls(tmp_path: Path) -> None:
    calls = [on_cpu(OSRT, "poll", 0, 30), on_cpu(OSRT, "poll", 0, 10), on_cpu(OSRT, "open", 5, 65)]
    other_class = on_cpu(OSRT, "poll", 0, 999, eventClass=3)
    assert csv_of(capture_of(tmp_path, *calls, other_class), "osrt_sum") == (
        f"Time (%),Total Time (ns),Num Calls,{STATISTICS},Name\n"
        "60.0,60,1,60.0,60.0,60,60,0.0,open\n"
        "40.0,40,2,20.0,20.0,10,30,14.1,poll\n"
    )


def test_os_runtime_events_that_are_no_calls_are_no_rows(tmp_path: Path) -> None:
    capture = capture_of(tmp_path, on_cpu(OSRT, "poll", 0, 9, eventClass=3))
    assert capture.report("osrt_sum").rows() == []


def test_an_openmp_name_in_two_tables_is_two_rows(tmp_path: Path) -> None:
    other = "OPENMP_EVENT_KIND_TASK"
    events = [on_cpu(OPENMP, "wait", 0, 10), on_cpu(other, "wait", 0, 30), on_cpu(OPENMP, "wait", 0, 50)]
    assert csv_of(capture_of(tmp_path, *events), "openmp_sum") == (
        f"Time (%),Total Time (ns),Count,{STATISTICS},Name\n"
        "66.7,60,2,30.0,30.0,10,50,28.3,wait\n"
        "33.3,30,1,30.0,30.0,30,30,0.0,wait\n"
    )


def test_openacc_events_are_told_apart_by_the_line_they_come_from(tmp_path: Path) -> None:
    launch = "CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH"
    events = [
        on_cpu(OPENACC, "Wait", 0, 10, srcFile="a.c", lineNo=3),
        on_cpu(launch, "Wait", 0, 30, srcFile="a.c", lineNo=3),
        on_cpu(launch, "Wait", 0, 20, srcFile="a.c", lineNo=4),
        on_cpu(launch, "Wait", 0, 8, srcFile=None, lineNo=4),
        on_cpu(launch, "Wait", 0, 2, srcFile=7, lineNo=4),  # a file that StringIds lacks
    ]
    assert csv_of(capture_of(tmp_path, *events), "openacc_sum") == (
        f"Time (%),Total Time (ns),Num Calls,{STATISTICS},Name\n"
        "57.1,40,2,20.0,20.0,10,30,14.1,Wait@a.c:3\n"
        "28.6,20,1,20.0,20.0,20,20,0.0,Wait@a.c:4\n"
        "11.4,8,1,8.0,8.0,8,8,0.0,Wait\n"
        "2.9,2,1,2.0,2.0,2,2,0.0,\n"
    )


def test_mpi_calls_by_class_and_name(tmp_path: Path) -> None:
    calls = [
        on_cpu(MPI_P2P, "MPI_Send", 0, 10, size=8),
        on_cpu(MPI_P2P, "MPI_Send", 20, 50, size=None),
        on_cpu(MPI_P2P, "MPI_Recv", 60, 100),
        on_cpu(MPI_START_WAIT, "MPI_Wait", 0, 40),
        on_cpu(MPI_OTHER, "MPI_Init", 0, 240),
        on_cpu(MPI_COLLECTIVE, "MPI_Reduce", 0, 40),
    ]
    assert csv_of(capture_of(tmp_path, *calls), "mpi_event_sum") == (
        f"Time (%),Total Time (ns),Instances,{STATISTICS},Source,Name\n"
        "60.0,240,1,240.0,240.0,240,240,0.0,other,MPI_Init\n"
        "10.0,40,1,40.0,40.0,40,40,0.0,collectives,MPI_Reduce\n"
        "10.0,40,2,20.0,20.0,10,30,14.1,p2p,MPI_Send\n"  # in the order of the ids of their names
        "10.0,40,1,40.0,40.0,40,40,0.0,p2p,MPI_Recv\n"
        "10.0,40,1,40.0,40.0,40,40,0.0,start-wait,MPI_Wait\n"
    )


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


def test_the_trace_of_mpi_calls(tmp_path: Path) -> None:
    calls = [
        on_cpu(MPI_COLLECTIVE, "MPI_Bcast", 20, 60, rootRank=0, size=4_000_000, recvSize=None),
        on_cpu(MPI_OTHER, "MPI_Init", 0, 10),
        on_cpu(MPI_START_WAIT, "MPI_Wait", 20, 21, tid=101),
        on_cpu(MPI_P2P, "MPI_Isend", 20, 25, tag=7, remoteRank=1, size=1500),
    ]
    assert csv_of(capture_of(tmp_path, *calls, RANK), "mpi_event_trace") == (
        "Start (ns),End (ns),Duration (ns),Event,Pid,Tid,Tag,Rank,PeerRank,RootRank,"
        "Size (MB),CollSendSize (MB),CollRecvSize (MB)\n"
        "0,10,10,MPI_Init,100,100,,3,,,,,\n"
        "20,25,5,MPI_Isend,100,100,7,3,1,,0.002,,\n"
        "20,21,1,MPI_Wait,100,101,,,,,,,\n"  # of a thread without a rank
        "20,60,40,MPI_Bcast,100,100,,3,,0,,4.000,\n"
    )


def test_the_trace_of_mpi_calls_where_nobody_knows_the_ranks(tmp_path: Path) -> None:
    capture = capture_of(tmp_path, on_cpu(MPI_OTHER, "MPI_Init", 0, 10))
    assert rows_of(capture, "mpi_event_trace") == ["0,10,10,MPI_Init,100,100,,,,,,,"]
    assert capture.report("mpi_event_trace").notes == ("this export has no MPI_RANKS: ranks are left empty",)


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
    assert f"--trace={name[:3]}" in caught.value.hint
