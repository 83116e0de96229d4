from pathlib import Path

from rank_exports import ALL_REDUCE, FAST, member, steps, straggler, table_over
from report_tables import csv_text, records_of
from tiny_export import call, kernel, nvtx

REPORT = "rank_skew"
HEADER = (
    "judged,slowest_rank,slowest_ns,fastest_rank,fastest_ns,skew_ns,skew_percent,instances,slowest_in,"
    "waiting_ns,name\n"
)


def test_the_slowest_rank_of_ranges_and_kernels(tmp_path: Path) -> None:
    table = table_over(straggler(tmp_path), REPORT)
    # of 6 steps: 300 and 100 ns each, a difference of 1200 ns, as much as the median of 1800 and 600
    assert csv_text(table) == (
        f"{HEADER}"
        "range (GPU),1,1800,0,600,1200,100.0,6,6,1200,step\n"
        "kernel,1,1800,0,600,1200,100.0,6,6,,gemm\n"
    )
    assert table.verdict.startswith("rank 1 was last in 6 of 6 collectives")


def test_ranges_without_gpu_work_are_judged_by_their_duration(tmp_path: Path) -> None:
    members = [member(tmp_path, number, nvtx("load", 0, 100 * (number + 1))) for number in range(3)]
    assert table_over(members, REPORT).rows() == [
        ("range (CPU)", 2, 300, 0, 100, 200, 100.0, 1, 1, 0, "load")
    ]


def test_operations_of_pytorch_are_no_steps(tmp_path: Path) -> None:
    texts = ("load", "aten::add, op_id = 7", "aten::mm", "MulBackward0, seq = 3", "detach, op_id = 8")
    ranges = [nvtx(text, 100 * i, 100 * i + 50) for i, text in enumerate(texts)]
    members = [member(tmp_path, number, *ranges) for number in range(2)]
    assert [row["name"] for row in records_of(table_over(members, REPORT))] == ["load"]


def test_what_other_threads_launch_meanwhile_belongs_to_a_step(tmp_path: Path) -> None:
    backward = [call("cudaLaunchKernel", 50, 51, 77, tid=101), kernel("backward", 60, 90, 77)]
    members = [member(tmp_path, 0, *steps(FAST), *backward), member(tmp_path, 1, *steps(FAST))]
    [step, *_] = records_of(table_over(members, REPORT))
    assert (step["slowest_rank"], step["slowest_ns"], step["fastest_ns"]) == (0, 130, 100)


def test_a_kernel_that_one_rank_alone_has(tmp_path: Path) -> None:
    members = [
        member(tmp_path, 0, *steps(FAST), kernel("extra", 700, 750)),
        member(tmp_path, 1, *steps(FAST)),
    ]
    [extra] = [row for row in records_of(table_over(members, REPORT)) if row["name"] == "extra"]
    assert (extra["slowest_rank"], extra["slowest_ns"]) == (0, 50)
    assert (extra["fastest_rank"], extra["fastest_ns"]) == (1, 0)
    assert (extra["instances"], extra["slowest_in"]) == (1, None)


def test_ranks_that_only_communicate_have_no_row(tmp_path: Path) -> None:
    members = [member(tmp_path, number, kernel(ALL_REDUCE, 10, 110)) for number in range(2)]
    assert csv_text(table_over(members, REPORT)) == HEADER
