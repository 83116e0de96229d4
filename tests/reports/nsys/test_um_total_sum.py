from pathlib import Path

import pytest
from report_tables import capture_of, csv_of, rows_of
from tiny_export import MEMCPY, UM_CPU_FAULT, UM_GPU_FAULT, Row, memcpy, opened, um_cpu_fault, um_gpu_fault

REPORT = "um_total_sum"
HEADER = (
    "Total HtoD Migration Size (MB),Total DtoH Migration Size (MB),Total CPU Page Faults,"
    "Total GPU PageFaults,Minimum Virtual Address,Maximum Virtual Address\n"
)
TO_DEVICE, TO_HOST, BETWEEN = 11, 12, 13
FAULTS = (UM_CPU_FAULT, UM_GPU_FAULT)


def migrated(kind: int, address: int, size: int) -> Row:
    return memcpy(kind, 0, 1, size, virtualAddress=address)


def test_the_totals(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        migrated(TO_DEVICE, 0x1000, 3_000_000),
        migrated(TO_DEVICE, 0x1000, 1_000_000),
        migrated(TO_HOST, 0x1000, 500_000),
        migrated(TO_HOST, 0x2000, 4096),
        migrated(BETWEEN, 0x5000, 4096),  # between devices: not looked at
        memcpy(1, 0, 9, 4096, virtualAddress=0x6000),  # no migration
        *(um_cpu_fault(0x2000, 0), um_cpu_fault(0x2000, 5), um_cpu_fault(0x3000, 5)),
        *(um_gpu_fault(0x1000, 0, 9, faults=4), um_gpu_fault(0x1000, 9, 10, faults=3)),
    )
    # 3 + 1 MB; 500,000 + 4,096 bytes; three rows of faults on the CPU; 4 + 3 faults on GPUs
    assert csv_of(capture, REPORT) == f"{HEADER}4.000,0.504,3,7,0x1000,0x3000\n"


@pytest.mark.parametrize("left_out", range(4))
def test_the_range_of_addresses_is_missing_where_one_of_four_is(left_out: int, tmp_path: Path) -> None:
    parts = [um_cpu_fault(1, 0), um_gpu_fault(2, 0, 1), migrated(TO_DEVICE, 3, 5), migrated(TO_HOST, 4, 5)]
    del parts[left_out]
    [line] = rows_of(capture_of(tmp_path, *parts, empty=FAULTS), REPORT)
    cells = line.split(",")
    assert cells[4:] == ["", ""]
    assert cells[:4] == [
        "" if left_out == 2 else "0.000",
        "" if left_out == 3 else "0.000",
        "0" if left_out == 0 else "1",
        "" if left_out == 1 else "1",
    ]


def test_tables_without_rows_are_one_row_without_sizes(tmp_path: Path) -> None:
    capture = capture_of(tmp_path, empty=[MEMCPY, *FAULTS])
    assert csv_of(capture, REPORT) == f"{HEADER},,0,,,\n"
