from pathlib import Path

from made_modules import ENGINE, Training, training
from report_tables import csv_of, table_of, values_of
from tiny_export import opened

from nsyswrap import open_capture
from nsyswrap.base.run_folder import EXPORT, RUN, RunFolder

REPORT = "module_kern_sum"


# Per step: embed 3; layers 10 and 20 forward, 20 and 40 backward and 5 for each bias; adam 7.
def test_a_backward_has_the_operation_and_the_shapes_of_its_forward(tmp_path: Path) -> None:
    linear = 'aten::addmm,"[[8, 4]]"'
    assert csv_of(opened(tmp_path, *training(steps=2)), REPORT) == (
        "module,phase,operation,shapes,instances,time_percent,total_ns,avg_ns,name,flop_per_s,peak_percent\n"
        f"layers.1,backward,{linear},2,36.36363636363637,80,40.0,gemm,,\n"
        f"layers.0,backward,{linear},2,18.181818181818183,40,20.0,gemm,,\n"
        f"layers.1,forward,{linear},2,18.181818181818183,40,20.0,gemm,,\n"
        f"layers.0,forward,{linear},2,9.090909090909092,20,10.0,gemm,,\n"
        "optimizer,,,,2,6.363636363636363,14,7.0,adam,,\n"
        f"layers.0,backward,{linear},2,4.545454545454546,10,5.0,bias,,\n"
        f"layers.1,backward,{linear},2,4.545454545454546,10,5.0,bias,,\n"
        'GPT,forward,aten::embedding,"[[8, 4]]",2,2.727272727272727,6,3.0,embed,,\n'
    )


def test_shapes_that_differ_are_rows_of_their_own(tmp_path: Path) -> None:
    made = Training()
    for at, sizes in ((0, "[[1, 2]]"), (100, "[[3, 4], []]")):
        made.module("GPT", at, at + 90)
        made.operation("aten::linear", at + 5, at + 80, seq=at, sizes=sizes)
        made.operation("aten::copy_", at + 10, at + 70, sizes="[[9]]")  # below autograd, so without a number
        made.launch("k", at + 20, 1 + at)
        made.backward("LinearBackward0", 1000 + at, 1080 + at, seq=at)
        made.launch("k", 1005 + at, 7, ENGINE)
    table = table_of(opened(tmp_path, *made.rows), REPORT)
    assert values_of(table, "phase", "operation", "shapes", "total_ns") == [
        ("forward", "aten::linear", "[[3, 4], []]", 101),
        ("backward", "aten::linear", "[[1, 2]]", 7),
        ("backward", "aten::linear", "[[3, 4], []]", 7),
        ("forward", "aten::linear", "[[1, 2]]", 1),
    ]


def test_without_modules_it_is_the_path_of_ranges(tmp_path: Path) -> None:
    made = Training()
    made.range("outer", 0, 300)
    made.range("inner", 10, 200)
    made.launch("k", 20, 3)
    made.launch("k", 400, 4)
    table = table_of(opened(tmp_path, *made.rows), REPORT)
    assert values_of(table, "module", "phase", "total_ns") == [
        ("(no range)", None, 4),
        ("outer/inner", None, 3),
    ]


def test_one_module_called_in_two_places_is_one_row(tmp_path: Path) -> None:
    made = Training()
    for at, around in ((0, "GPT"), (1000, "Evaluator")):
        made.module(around, at, at + 500)
        made.module("head", at + 10, at + 100)
        made.launch("k", at + 20, 5)
    table = table_of(opened(tmp_path, *made.rows), REPORT)
    assert values_of(table, "module", "instances", "total_ns") == [("head", 2, 10)]


def test_a_fused_kernel_has_the_list_of_its_operations(tmp_path: Path) -> None:
    made = Training()
    made.module("GPT", 0, 500)
    for at, (name, seq) in enumerate((("triton_poi_fused_0", 1), ("triton_poi_fused_0", 2), ("gemm", 3))):
        made.operation("CompiledFunction", 100 * at, 100 * at + 90, seq=seq, sizes=f"[[{seq}]]")
        made.launch(name, 100 * at + 20, 5)
    opened(tmp_path, *made.rows).path.rename(tmp_path / EXPORT)
    RunFolder(tmp_path).write(RUN, {"fused_kernels": {"triton_poi_fused_0": ["aten.add", "aten.gelu"]}})
    assert values_of(table_of(open_capture(tmp_path), REPORT), "operation", "instances", "name") == [
        ("aten::add, aten::gelu", 2, "triton_poi_fused_0"),
        ("CompiledFunction", 1, "gemm"),
    ]
