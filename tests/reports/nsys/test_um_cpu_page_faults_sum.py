from pathlib import Path

from report_tables import capture_of, csv_of, rows_of
from tiny_export import UM_CPU_FAULT, um_cpu_fault

REPORT = "um_cpu_page_faults_sum"
HEADER = "CPU Page Faults,CPU Instruction Address,Source File,Source Line\n"


def test_faulting_instructions_have_a_source_line_in_one_era_alone(tmp_path: Path) -> None:
    faults = [um_cpu_fault(1, 0, sourceLine=line) for line in (7, 9, 9)]
    faults += [um_cpu_fault(1, 0, CpuInstruction=5, sourceFile=None, sourceLine=0)]
    capture = capture_of(tmp_path, *faults)
    assert csv_of(capture, REPORT) == f"{HEADER}2,main,add.cu,9\n1,,,0\n1,main,add.cu,7\n"
    assert csv_of(capture, REPORT, "legacy") == "CPU Page Faults,CPU Instruction Address\n3,main\n1,\n"


def test_faulting_instructions_of_an_export_without_source_lines(tmp_path: Path) -> None:
    capture = capture_of(tmp_path, um_cpu_fault(1, 0), without=["sourceFile", "sourceLine"])
    table = capture.report(REPORT)
    assert rows_of(capture, REPORT) == ["1,main,,"]
    assert [note.split(" (")[0] for note in table.notes] == [
        f"{UM_CPU_FAULT} has no sourceFile",
        f"{UM_CPU_FAULT} has no sourceLine",
    ]
    assert capture.report(REPORT, rounding="legacy").notes == ()
