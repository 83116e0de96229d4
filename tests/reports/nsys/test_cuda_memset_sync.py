from pathlib import Path

import pytest
from report_tables import csv_of, rows_of
from tiny_export import call, enums, memset, opened

REPORT = "cuda_memset_sync"
HEADER = (
    "Duration (ns),Start (ns),Memory Kind,Bytes (MB),PID,Device ID,Context ID,Green Context ID,Stream ID,"
    "API Name\n"
)


def test_blocking_memsets_the_longest_first(tmp_path: Path) -> None:
    done = [
        memset(20, 30, 512_000, memKind=1, correlationId=1, greenContextId=3),
        memset(40, 70, 1_000_000, memKind=4, correlationId=2, greenContextId=3),
        memset(80, 99, 8, memKind=2, correlationId=2, greenContextId=3),  # device memory: does not block
    ]
    calls = [call("cudaMemset_v3020", 0, 5, 1), call("cudaMemset2D", 35, 38, 2)]
    assert csv_of(opened(tmp_path, *calls, *done, *enums()), REPORT) == (
        f"{HEADER}"
        "30,40,Managed,1.000,100,0,1,3,7,cudaMemset2D\n"
        "10,20,Pinned,0.512,100,0,1,3,7,cudaMemset_v3020\n"
    )


@pytest.mark.parametrize(
    ("name", "kind", "found"),
    [
        ("cudaMemset_v3020", 1, ["10,20,Pinned,0.512,100,0,1,3,7,cudaMemset_v3020"]),
        ("cudaMemset2D", 4, ["10,20,Managed,0.512,100,0,1,3,7,cudaMemset2D"]),
        ("cudaMemset", 2, []),
        ("cudaMemsetAsync", 1, []),
    ],
)
def test_memsets_that_block(name: str, kind: int, found: list[str], tmp_path: Path) -> None:
    done = memset(20, 30, 512_000, memKind=kind, correlationId=1, greenContextId=3)
    capture = opened(tmp_path, call(name, 0, 5, 1), done, *enums())
    assert rows_of(capture, REPORT) == found
