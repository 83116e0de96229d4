from pathlib import Path

from report_tables import capture_of, csv_of, rows_of
from tiny_export import MPI_COLLECTIVE, MPI_OTHER, MPI_P2P, MPI_START_WAIT, PID, global_id, on_cpu, row

REPORT = "mpi_event_trace"
HEADER = (
    "Start (ns),End (ns),Duration (ns),Event,Pid,Tid,Tag,Rank,PeerRank,RootRank,"
    "Size (MB),CollSendSize (MB),CollRecvSize (MB)\n"
)
RANK = row("MPI_RANKS", globalTid=global_id(PID, PID), rank=3)


def test_the_trace_of_mpi_calls(tmp_path: Path) -> None:
    calls = [
        on_cpu(MPI_COLLECTIVE, "MPI_Bcast", 20, 60, rootRank=0, size=4_000_000, recvSize=None),
        on_cpu(MPI_OTHER, "MPI_Init", 0, 10),
        on_cpu(MPI_START_WAIT, "MPI_Wait", 20, 21, tid=101),
        on_cpu(MPI_P2P, "MPI_Isend", 20, 25, tag=7, remoteRank=1, size=1500),
    ]
    assert csv_of(capture_of(tmp_path, *calls, RANK), REPORT) == (
        f"{HEADER}"
        "0,10,10,MPI_Init,100,100,,3,,,,,\n"
        "20,25,5,MPI_Isend,100,100,7,3,1,,0.002,,\n"
        "20,21,1,MPI_Wait,100,101,,,,,,,\n"  # of a thread without a rank
        "20,60,40,MPI_Bcast,100,100,,3,,0,,4.000,\n"
    )


def test_the_trace_of_mpi_calls_where_nobody_knows_the_ranks(tmp_path: Path) -> None:
    capture = capture_of(tmp_path, on_cpu(MPI_OTHER, "MPI_Init", 0, 10))
    assert rows_of(capture, REPORT) == ["0,10,10,MPI_Init,100,100,,,,,,,"]
    assert capture.report(REPORT).notes == ("this export has no MPI_RANKS: ranks are left empty",)
