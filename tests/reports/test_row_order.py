"""Rows of an export in any order: nsys promises none since 2025.6, and all reports say the same."""

from pathlib import Path

from all_reports import RULES, Rows, all_reports, screen
from recorded import run_folder
from sampled import sampled
from shuffled import shuffled

from nsyswrap.base.run_folder import EXPORT

# Unified memory with page faults; two ranks with NCCL; graphs.
CAPTURES = ("copies/faults", "ddp/straggler", "graphs/nodes")
# nsys numbers NVTX ranges by their rows, and so do these reports.
ROW_NUMBERS = ("range_id", "parent_id", "range_stack")
# nsys lists rows that start at the same time (or take equally long) in the order of the table.
TIES = (
    *("cuda_api_trace", "cuda_kern_exec_trace", "cuda_gpu_trace", "nvtx_pushpop_trace"),
    *("nvtx_gpu_proj_trace", *RULES),
)


def _comparable(name: str, rows: Rows) -> Rows:
    rows = [{column: cell for column, cell in row.items() if column not in ROW_NUMBERS} for row in rows]
    return sorted(rows, key=repr) if name in TIES else rows


@sampled("name", CAPTURES, fast=1)
def test_reports_and_the_answer_do_not_depend_on_the_order_of_rows(name: str, tmp_path: Path) -> None:
    original = run_folder(name, tmp_path / "unpacked") / EXPORT
    changed = shuffled(original, tmp_path / EXPORT)
    expected, made = all_reports(original), all_reports(changed)
    for report, (rows, notes) in expected.items():
        assert _comparable(report, made[report][0]) == _comparable(report, rows), report
        assert made[report][1] == notes, report
    assert screen(changed) == screen(original)


def test_nor_do_those_of_an_nvtx_range(tmp_path: Path) -> None:
    original = run_folder("graphs/nodes", tmp_path / "unpacked") / EXPORT
    changed = shuffled(original, tmp_path / EXPORT)
    made = all_reports(changed, nvtx="nodes/chain")
    for report, (rows, notes) in all_reports(original, nvtx="nodes/chain").items():
        assert _comparable(report, made[report][0]) == _comparable(report, rows), report
        assert made[report][1] == notes, report
