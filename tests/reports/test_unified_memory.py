"""nsys' reports on unified memory, against numbers worked out on paper."""

from pathlib import Path

import pytest
from report_tables import capture_of, rows_of
from tiny_export import MEMCPY, UM_CPU_FAULT, UM_GPU_FAULT, Row, memcpy, um_cpu_fault, um_gpu_fault

from nsyswrap.base.errors import NotInCapture

TO_DEVICE, TO_HOST = 11, 12
FAULTS = (UM_CPU_FAULT, UM_GPU_FAULT)


def migrated(kind: int, address: int | None, size: int, duration: int) -> Row:
    return memcpy(kind, 0, duration, size, virtualAddress=address)


def test_migrations_of_an_export_without_addresses(tmp_path: Path) -> None:
    pages = [memcpy(TO_DEVICE, 0, 10, 100), memcpy(TO_DEVICE, 0, 10, 100), memcpy(TO_HOST, 0, 50, 300)]
    capture = capture_of(tmp_path, *pages, um_cpu_fault(1, 0), um_gpu_fault(1, 0, 1))
    assert rows_of(capture, "um_sum") == [",0.000,,,,10000.000", ",,0.000,,,6000.000", "0x1,,,1,1,"]
    [note] = capture.report("um_total_sum").notes
    assert "no virtualAddress (nsys 2022.1 or newer writes it)" in note


def test_tables_without_rows_may_mean_that_nobody_looked(tmp_path: Path) -> None:
    capture = capture_of(tmp_path, migrated(TO_DEVICE, 4096, 100, 10), empty=FAULTS)
    for name in ("um_sum", "um_total_sum"):
        [note] = capture.report(name).notes
        assert note.startswith("no page faults in this capture: none occurred, or they were not traced")
    assert rows_of(capture, "um_total_sum") == ["0.000,,0,,,"]


@pytest.mark.parametrize("name", ["um_sum", "um_total_sum"])
@pytest.mark.parametrize("missing", FAULTS)
def test_a_table_that_is_not_there_is_no_answer(name: str, missing: str, tmp_path: Path) -> None:
    there = [fault for fault in (um_cpu_fault(1, 0), um_gpu_fault(1, 0, 1)) if fault.table != missing]
    capture = capture_of(tmp_path, *there, migrated(TO_DEVICE, 4096, 100, 10))
    with pytest.raises(NotInCapture, match=r"holds no [CG]PU page faults of unified memory") as caught:
        capture.report(name)
    assert "--um-faults" in caught.value.hint


def test_faults_of_the_cpu_stand_in_every_window_unless_rows_are_cut(tmp_path: Path) -> None:
    faults = [um_cpu_fault(4096, 5), um_cpu_fault(4096, 50), um_gpu_fault(4096, 50, 60)]
    capture = capture_of(tmp_path, *faults, migrated(TO_DEVICE, 4096, 100, 10))
    whole, cut = capture.select(time="/20"), capture.select(time="/20", clip=True)
    note = "CPU page faults have no end time, so those outside the window also count (not with --clip yes)"
    for name, column, all_rows, part in (
        ("um_sum", 3, "2", "1"),
        ("um_total_sum", 2, "2", "1"),
        ("um_cpu_page_faults_sum", 0, "2", "1"),
    ):
        for seen, number, notes in ((capture, all_rows, ()), (whole, all_rows, (note,)), (cut, part, ())):
            assert rows_of(seen, name)[0].split(",")[column] == number
            assert seen.report(name).notes == notes


@pytest.mark.parametrize("report", ["um_sum", "um_total_sum"])
@pytest.mark.parametrize(
    ("missing", "title", "options"),
    [
        (MEMCPY, "copies", "--trace cuda,nvtx"),
        (UM_CPU_FAULT, "CPU page faults", "--trace cuda,nvtx --um-faults"),
        (UM_GPU_FAULT, "GPU page faults", "--trace cuda,nvtx --um-faults"),
    ],
)
def test_each_table_has_to_be_there(
    report: str, missing: str, title: str, options: str, tmp_path: Path
) -> None:
    tables = {MEMCPY, UM_CPU_FAULT, UM_GPU_FAULT} - {missing}
    with pytest.raises(NotInCapture, match=f"holds no {title}") as caught:
        capture_of(tmp_path, empty=sorted(tables)).report(report)
    assert f"(collect with nsyswrap profile {options})" in caught.value.hint
