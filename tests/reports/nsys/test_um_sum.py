from pathlib import Path

from report_tables import capture_of, csv_of, rows_of
from tiny_export import MEMCPY, UM_CPU_FAULT, UM_GPU_FAULT, Row, memcpy, opened, um_cpu_fault, um_gpu_fault

from nsyswrap.reports import parse

REPORT = "um_sum"
HEADER = (
    "Virtual Address,HtoD Migration size (MB),DtoH Migration size (MB),CPU Page Faults, GPU Page Faults,"
    "Migration Throughput (MB/s)\n"
)
TO_DEVICE, TO_HOST, BETWEEN = 11, 12, 13


def migrated(kind: int, address: int | None, size: int, duration: int) -> Row:
    return memcpy(kind, 0, duration, size, virtualAddress=address)


def test_migrations_and_faults_by_address(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        migrated(TO_DEVICE, 0x1000, 3_000_000, 30),
        migrated(TO_DEVICE, 0x1000, 1_000_000, 10),
        migrated(TO_HOST, 0x1000, 500_000, 10),
        migrated(TO_HOST, 0x2000, 4096, 300_000_000),
        migrated(BETWEEN, 0x5000, 4096, 1),  # between devices: not looked at
        memcpy(1, 0, 9, 4096, virtualAddress=0x6000),  # no migration
        um_cpu_fault(0x2000, 0),
        um_cpu_fault(0x2000, 5),
        um_cpu_fault(0x3000, 5),
        um_gpu_fault(0x1000, 0, 9, faults=4),
        um_gpu_fault(0x1000, 9, 10, faults=3),
    )
    assert csv_of(capture, REPORT) == (
        f"{HEADER}"
        "0x1000,4.000,0.500,,7,90000000.000\n"  # 4.5 MB · (10^9 // 50)
        "0x2000,,0.004,2,,0.012\n"  # 4,096 bytes · (10^9 // 300,000,000), which is 3
        "0x3000,,,1,,\n"
    )


def test_addresses_as_fast_as_each_other(tmp_path: Path) -> None:
    """Those with faults on the CPU come first, then on GPUs, then those migrated to the host."""
    pages = [migrated(TO_DEVICE, address, 100, 10) for address in (1, 5, 3, 2)]
    pages += [migrated(TO_HOST, 4, 100, 10), migrated(TO_HOST, 6, 100, 0)]
    capture = capture_of(tmp_path, *pages, um_cpu_fault(5, 0), um_gpu_fault(3, 0, 1))
    assert [line.split(",")[0] for line in rows_of(capture, REPORT)] == [
        *("0x5", "0x3", "0x4", "0x1", "0x2"),
        "0x6",  # whose migration took no time has no throughput
    ]


def test_as_many_addresses_as_asked_for(tmp_path: Path) -> None:
    pages = [migrated(TO_DEVICE, address, 100, address) for address in range(1, 13)]
    capture = capture_of(tmp_path, *pages, um_cpu_fault(1, 0), um_gpu_fault(1, 0, 1))
    for asked, rows in ((REPORT, 10), ("um_sum:rows=2", 2), ("um_sum:rows=-1", 12), ("um_sum:rows=99", 12)):
        table = parse(asked).make(capture)
        assert [values[0] for values in table.rows()] == list(range(1, rows + 1))
        cut = f"{rows} of 12 addresses are listed (um_sum:rows=-1 lists all)"
        assert table.notes == ((cut,) if rows < 12 else ())


def test_tables_without_rows_are_an_answer(tmp_path: Path) -> None:
    capture = capture_of(tmp_path, empty=[MEMCPY, UM_CPU_FAULT, UM_GPU_FAULT])
    assert csv_of(capture, REPORT) == HEADER
