"""nsys' reports on unified memory, against numbers worked out on paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from nsys_says import made_by_us
from tiny_export import (
    UM_CPU_FAULT,
    UM_GPU_FAULT,
    memcpy,
    opened,
    row,
    um_cpu_fault,
    um_gpu_fault,
)

from nsyswrap.base.errors import NotInCapture
from nsyswrap.reports import parse

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tiny_export import Row

    from nsyswrap.api import Capture
    from nsyswrap.base.units import Rounding

TO_DEVICE, TO_HOST = 11, 12
FAULTS = (UM_CPU_FAULT, UM_GPU_FAULT)


def capture_of(folder: Path, *rows: Row, empty: Iterable[str] = (), without: Iterable[str] = ()) -> Capture:
    """A capture with these rows, and with a GPU: every export knows the machine it is from."""
    return opened(folder, *rows, row("TARGET_INFO_GPU", id=0, name="GPU"), empty=empty, without=without)


def csv_of(capture: Capture, asked: str, rounding: Rounding = "2025") -> str:
    return made_by_us(capture, asked, rounding)


def rows_of(capture: Capture, asked: str) -> list[str]:
    return csv_of(capture, asked).splitlines()[1:]


def migrated(kind: int, address: int | None, size: int, duration: int, start: int = 0) -> Row:
    return memcpy(kind, start, start + duration, size, virtualAddress=address)


def test_migrations_and_faults_by_address(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        migrated(TO_DEVICE, 0x1000, 3_000_000, 30),
        migrated(TO_DEVICE, 0x1000, 1_000_000, 10),
        migrated(TO_HOST, 0x1000, 500_000, 10),
        migrated(TO_HOST, 0x2000, 4096, 300_000_000),
        migrated(13, 0x5000, 4096, 1),  # between devices: not looked at
        memcpy(1, 0, 9, 4096, virtualAddress=0x6000),  # no migration
        um_cpu_fault(0x2000, 0),
        um_cpu_fault(0x2000, 5),
        um_cpu_fault(0x3000, 5),
        um_gpu_fault(0x1000, 0, 9, faults=4),
        um_gpu_fault(0x1000, 9, 10, faults=3),
    )
    assert csv_of(capture, "um_sum") == (
        "Virtual Address,HtoD Migration size (MB),DtoH Migration size (MB),CPU Page Faults, GPU Page Faults,"
        "Migration Throughput (MB/s)\n"
        "0x1000,4.000,0.500,,7,90000000.000\n"  # 4.5 MB · (10^9 // 50)
        "0x2000,,0.004,2,,0.012\n"  # 4,096 bytes · (10^9 // 300,000,000), which is 3
        "0x3000,,,1,,\n"
    )
    assert csv_of(capture, "um_total_sum") == (
        "Total HtoD Migration Size (MB),Total DtoH Migration Size (MB),Total CPU Page Faults,"
        "Total GPU PageFaults,Minimum Virtual Address,Maximum Virtual Address\n"
        "4.000,0.504,3,7,0x1000,0x3000\n"
    )


def test_addresses_as_fast_as_each_other(tmp_path: Path) -> None:
    """Those with faults on the CPU come first, then on GPUs, then those migrated to the host."""
    pages = [migrated(TO_DEVICE, address, 100, 10) for address in (1, 5, 3, 2)]
    pages += [migrated(TO_HOST, 4, 100, 10), migrated(TO_HOST, 6, 100, 0)]
    capture = capture_of(tmp_path, *pages, um_cpu_fault(5, 0), um_gpu_fault(3, 0, 1))
    assert [line.split(",")[0] for line in rows_of(capture, "um_sum")] == [
        *("0x5", "0x3", "0x4", "0x1", "0x2"),
        "0x6",  # whose migration took no time has no throughput
    ]


def test_as_many_addresses_as_asked_for(tmp_path: Path) -> None:
    pages = [migrated(TO_DEVICE, address, 100, address) for address in range(1, 13)]
    capture = capture_of(tmp_path, *pages, um_cpu_fault(1, 0), um_gpu_fault(1, 0, 1))
    for asked, rows in (("um_sum", 10), ("um_sum:rows=2", 2), ("um_sum:rows=-1", 12), ("um_sum:rows=99", 12)):
        table = parse(asked).make(capture)
        assert [values[0] for values in table.rows()] == list(range(1, rows + 1))
        cut = f"{rows} of 12 addresses are listed (um_sum:rows=-1 lists all)"
        assert table.notes == ((cut,) if rows < 12 else ())


def test_migrations_of_an_export_without_addresses(tmp_path: Path) -> None:
    pages = [memcpy(TO_DEVICE, 0, 10, 100), memcpy(TO_DEVICE, 0, 10, 100), memcpy(TO_HOST, 0, 50, 300)]
    capture = capture_of(tmp_path, *pages, um_cpu_fault(1, 0), um_gpu_fault(1, 0, 1))
    assert rows_of(capture, "um_sum") == [
        ",0.000,,,,10000.000",
        ",,0.000,,,6000.000",
        "0x1,,,1,1,",
    ]
    [note] = capture.report("um_total_sum").notes
    assert "no virtualAddress (nsys writes it from 2022.1 on)" in note


@pytest.mark.parametrize("left_out", range(4))
def test_the_range_of_addresses_is_missing_where_one_of_four_is(left_out: int, tmp_path: Path) -> None:
    parts = [
        um_cpu_fault(1, 0),
        um_gpu_fault(2, 0, 1),
        migrated(TO_DEVICE, 3, 5, 1),
        migrated(TO_HOST, 4, 5, 1),
    ]
    del parts[left_out]
    [line] = rows_of(capture_of(tmp_path, *parts, empty=FAULTS), "um_total_sum")
    cells = line.split(",")
    assert cells[4:] == ["", ""]
    assert cells[:4] == [
        "" if left_out == 2 else "0.000",
        "" if left_out == 3 else "0.000",
        "0" if left_out == 0 else "1",
        "" if left_out == 1 else "1",
    ]


def test_tables_without_rows_may_mean_that_nobody_looked(tmp_path: Path) -> None:
    capture = capture_of(tmp_path, migrated(TO_DEVICE, 4096, 100, 10), empty=FAULTS)
    for name in ("um_sum", "um_total_sum"):
        [note] = capture.report(name).notes
        assert note.startswith("no page faults in this capture: none happened, or they were not traced")
    assert rows_of(capture, "um_total_sum") == ["0.000,,0,,,"]


@pytest.mark.parametrize("name", ["um_sum", "um_total_sum"])
@pytest.mark.parametrize("missing", FAULTS)
def test_a_table_that_is_not_there_is_no_answer(name: str, missing: str, tmp_path: Path) -> None:
    there = [fault for fault in (um_cpu_fault(1, 0), um_gpu_fault(1, 0, 1)) if fault.table != missing]
    capture = capture_of(tmp_path, *there, migrated(TO_DEVICE, 4096, 100, 10))
    with pytest.raises(NotInCapture, match=r"holds no [CG]PU page faults of unified memory") as caught:
        capture.report(name)
    assert "--cuda-um-" in caught.value.hint


def test_faulting_instructions_have_a_source_line_in_one_era_alone(tmp_path: Path) -> None:
    faults = [um_cpu_fault(1, 0, sourceLine=line) for line in (7, 9, 9)]
    faults += [um_cpu_fault(1, 0, CpuInstruction=5, sourceFile=None, sourceLine=0)]
    capture = capture_of(tmp_path, *faults)
    assert csv_of(capture, "um_cpu_page_faults_sum") == (
        "CPU Page Faults,CPU Instruction Address,Source File,Source Line\n"
        "2,main,add.cu,9\n"
        "1,,,0\n"
        "1,main,add.cu,7\n"
    )
    assert csv_of(capture, "um_cpu_page_faults_sum", "legacy") == (
        "CPU Page Faults,CPU Instruction Address\n3,main\n1,\n"
    )


def test_faulting_instructions_of_an_export_without_source_lines(tmp_path: Path) -> None:
    capture = capture_of(tmp_path, um_cpu_fault(1, 0), without=["sourceFile", "sourceLine"])
    table = capture.report("um_cpu_page_faults_sum")
    assert rows_of(capture, "um_cpu_page_faults_sum") == ["1,main,,"]
    assert [note.split(" (")[0] for note in table.notes] == [
        f"{UM_CPU_FAULT} has no sourceFile",
        f"{UM_CPU_FAULT} has no sourceLine",
    ]
    assert capture.report("um_cpu_page_faults_sum", rounding="legacy").notes == ()


def test_faults_of_the_cpu_stand_in_every_window_unless_rows_are_cut(tmp_path: Path) -> None:
    faults = [um_cpu_fault(4096, 5), um_cpu_fault(4096, 50), um_gpu_fault(4096, 50, 60)]
    capture = capture_of(tmp_path, *faults, migrated(TO_DEVICE, 4096, 100, 10))
    whole, cut = capture.select(time="/20"), capture.select(time="/20", clip=True)
    note = "CPU page faults have no end: those outside the window are counted too (not with --clip yes)"
    for name, column, all_rows, part in (
        ("um_sum", 3, "2", "1"),
        ("um_total_sum", 2, "2", "1"),
        ("um_cpu_page_faults_sum", 0, "2", "1"),
    ):
        for seen, number, notes in ((capture, all_rows, ()), (whole, all_rows, (note,)), (cut, part, ())):
            assert rows_of(seen, name)[0].split(",")[column] == number
            assert seen.report(name).notes == notes
