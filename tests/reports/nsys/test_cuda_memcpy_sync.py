from pathlib import Path
from typing import Any

import pytest
from report_tables import csv_of, rows_of
from tiny_export import MEMCPY, Row, call, enums, memcpy, opened

REPORT = "cuda_memcpy_sync"
HEADER = (
    "Duration (ns),Start (ns),Src Kind,Dst Kind,Bytes (MB),PID,Device ID,Context ID,Green Context ID,"
    "Stream ID,API Name\n"
)
SYNC = call("cudaMemcpy_v3020", 0, 5, 1)
TO_DEVICE: dict[str, Any] = {"correlationId": 1, "greenContextId": 3, "srcKind": 0, "dstKind": 2}
TO_HOST: dict[str, Any] = {"correlationId": 1, "greenContextId": 3, "srcKind": 2, "dstKind": 1}


def test_blocking_copies_the_longest_first(tmp_path: Path) -> None:
    copies = [memcpy(1, 10, 20, 2_500_000, **TO_DEVICE), memcpy(2, 30, 70, 8, **TO_HOST)]
    small = memcpy(1, 80, 99, 64_000, **TO_DEVICE)  # to the device a copy up to this size does not block
    capture = opened(tmp_path, SYNC, *copies, small, *enums())
    assert csv_of(capture, REPORT) == (
        f"{HEADER}"
        "40,30,Device,Pinned,0.000,100,0,1,3,7,cudaMemcpy_v3020\n"
        "10,10,Pageable,Device,2.500,100,0,1,3,7,cudaMemcpy_v3020\n"
    )


@pytest.mark.parametrize(
    ("copy", "blocks"),
    [
        (memcpy(1, 10, 20, 64_001), True),
        (memcpy(1, 10, 20, 64_000), False),
        (memcpy(2, 10, 20, 64_000), True),
        (memcpy(8, 10, 20, 10**6, srcDeviceId=1, dstDeviceId=1), False),
        (memcpy(10, 10, 20, 10**6, srcDeviceId=1, dstDeviceId=0), True),
        (memcpy(10, 10, 20, 10**6, srcDeviceId=None, dstDeviceId=0), True),
        (memcpy(10, 10, 20, 10**6, srcDeviceId=0, dstDeviceId=None), False),
    ],
)
def test_which_copies_block(copy: Row, blocks: bool, tmp_path: Path) -> None:  # noqa: FBT001
    capture = opened(tmp_path, SYNC, Row(MEMCPY, {**copy.cells, "correlationId": 1}), *enums())
    assert len(rows_of(capture, REPORT)) == blocks


def test_copies_by_other_calls_have_no_row(tmp_path: Path) -> None:
    other = call("cuMemcpyDtoH_v2", 0, 5, 1)
    assert csv_of(opened(tmp_path, other, memcpy(2, 30, 70, 8, **TO_HOST), *enums()), REPORT) == HEADER
