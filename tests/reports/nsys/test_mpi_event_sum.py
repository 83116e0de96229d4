from pathlib import Path

from report_tables import STATISTICS, capture_of, csv_of
from tiny_export import MPI_COLLECTIVE, MPI_OTHER, MPI_P2P, MPI_START_WAIT, on_cpu

REPORT = "mpi_event_sum"
HEADER = f"Time (%),Total Time (ns),Instances,{STATISTICS},Source,Name\n"


def test_mpi_calls_by_class_and_name(tmp_path: Path) -> None:
    calls = [
        on_cpu(MPI_P2P, "MPI_Send", 0, 10, size=8),
        on_cpu(MPI_P2P, "MPI_Send", 20, 50, size=None),
        on_cpu(MPI_P2P, "MPI_Recv", 60, 100),
        on_cpu(MPI_START_WAIT, "MPI_Wait", 0, 40),
        on_cpu(MPI_OTHER, "MPI_Init", 0, 240),
        on_cpu(MPI_COLLECTIVE, "MPI_Reduce", 0, 40),
    ]
    assert csv_of(capture_of(tmp_path, *calls), REPORT) == (
        f"{HEADER}"
        "60.0,240,1,240.0,240.0,240,240,0.0,other,MPI_Init\n"
        "10.0,40,1,40.0,40.0,40,40,0.0,collectives,MPI_Reduce\n"
        "10.0,40,2,20.0,20.0,10,30,14.1,p2p,MPI_Send\n"  # in the order of the ids of their names
        "10.0,40,1,40.0,40.0,40,40,0.0,p2p,MPI_Recv\n"
        "10.0,40,1,40.0,40.0,40,40,0.0,start-wait,MPI_Wait\n"
    )
