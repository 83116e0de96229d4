from pathlib import Path

from report_tables import csv_of
from tiny_export import PID, graph, kernel, nvtx, opened

from nsyswrap.api import CaptureReader

REPORT = "kernel_class_sum"
HEADER = "class,kernels,instances,time_percent,total_ns,avg_ns,med_ns,p95_ns,p99_ns,largest_name,"
HEADER += "input_types,tensor_core_percent,no_tensor_core_percent\n"
GEMM = "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNN"
GEMM_2 = "ampere_sgemm_128x64_nn"
SUM = "void at::native::reduce_kernel<(int)512, (int)1, at::native::ReduceOp<float, X>>(T3)"


def classes(capture: CaptureReader) -> dict[object, tuple[object, ...]]:
    """Class: kernels, instances, percent, then the total, mean, median, p95, p99 in ns, and the largest."""
    return {found[0]: found[1:-3] for found in capture.report(REPORT).rows()}


def test_three_classes(tmp_path: Path) -> None:
    rows = [kernel(GEMM, 0, 10), kernel(GEMM, 10, 40), kernel(SUM, 40, 70), kernel("mine(int)", 70, 80)]
    # 40, 30 and 10 of 80 ns; of 10 and 30 ns the 95th percentile is the larger
    assert csv_of(opened(tmp_path, *rows), REPORT) == (
        f"{HEADER}"
        "gemm,1,2,50.0,40,20.0,20.0,30.0,30.0,nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNN,bf16,100.0,0.0\n"
        "reduce,1,1,37.5,30,30.0,30.0,30.0,30.0,"
        '"void at::native::reduce_kernel<(int)512, (int)1, at::native::ReduceOp<float, X>>(T3)"'
        ",f32,0.0,100.0\n"
        "other,1,1,12.5,10,10.0,10.0,10.0,10.0,mine(int),,,\n"
    )


def test_types_and_tensor_cores_by_time(tmp_path: Path) -> None:
    rows = [kernel(GEMM, 0, 30), kernel(GEMM_2, 30, 70), kernel("my_gemm(int)", 70, 80)]
    (row,) = opened(tmp_path, *rows).report(REPORT).rows()
    assert row[-3:] == ("f32, bf16, unknown", 37.5, 50.0)


def test_types_of_less_than_a_hundredth_are_left_out(tmp_path: Path) -> None:
    rows = [kernel(GEMM, 0, 1000), kernel(GEMM_2, 1000, 1010)]
    assert next(iter(opened(tmp_path, *rows).report(REPORT).rows()))[-3] == "bf16"


def test_the_mean_of_two_long_kernels_is_exact(tmp_path: Path) -> None:
    length = 2**31 - 1  # two of them are more than 32 bits hold; p95 of 20 is the mean of two
    rows = [kernel(GEMM, i * length, (i + 1) * length) for i in range(20)]
    assert classes(opened(tmp_path, *rows))["gemm"][5:8] == (length,) * 3


def test_by_class(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(kernel(GEMM, 100 * i, 100 * i + 10 + i) for i in range(4)),  # 10, 11, 12, 13 ns: 46
        kernel(GEMM_2, 1000, 1050, pid=PID + 1, deviceId=1),  # 50 ns: of most time
        kernel(SUM, 2000, 2003),
        kernel("mine(int)", 3000, 3001),
    )
    assert classes(capture) == {
        "gemm": (2, 5, 96.0, 96, 19.2, 12.0, 50.0, 50.0, GEMM_2),
        "reduce": (1, 1, 3.0, 3, 3.0, 3.0, 3.0, 3.0, SUM),
        "other": (1, 1, 1.0, 1, 1.0, 1.0, 1.0, 1.0, "mine(int)"),
    }
    assert list(classes(capture)) == ["gemm", "reduce", "other"]  # the most time first


def test_quantiles_are_nsys_own(tmp_path: Path) -> None:
    """Of 1 to 100 ns 95 % take up to 95 ns: the value is between that one and the next."""
    capture = opened(tmp_path, *(kernel(GEMM, 1000 * i, 1000 * i + i) for i in range(1, 101)))
    assert classes(capture)["gemm"][5:8] == (50.5, 95.5, 99.5)


def test_of_equal_kernels_the_first_by_name_is_the_largest(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel(GEMM, 0, 10), kernel(GEMM_2, 10, 20))
    assert classes(capture)["gemm"][-1] == GEMM_2  # a before n


def test_names_are_as_asked_for_and_the_class_is_of_the_full_one(tmp_path: Path) -> None:
    copy = (
        "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda("
        "at::TensorIteratorBase &)::[lambda(float) (instance 1)], (int)4>(int, T1)"
    )
    add = "void at::native::unrolled_elementwise_kernel<at::native::CUDAFunctor_add<float>, (int)4>(int, T1)"
    base = "unrolled_elementwise_kernel"
    rows = (kernel(copy, 0, 10, shortName=base), kernel(add, 10, 15, shortName=base))
    capture = opened(tmp_path, *rows, names="base")
    assert {kind: found[-1] for kind, found in classes(capture).items()} == {
        "copy": base,
        "elementwise": base,
    }


def test_kernels_count_by_the_names_they_are_called_by(tmp_path: Path) -> None:
    names = ("f<int>", "f<long>", "g<int>")
    rows = (kernel(name, 2 * i, 2 * i + 1, shortName=name[0]) for i, name in enumerate(names))
    capture = opened(tmp_path, *rows)
    assert classes(capture)["other"][0] == 3
    assert classes(capture.viewed(names="base"))["other"][0] == 2


def test_a_kernel_without_a_name(tmp_path: Path) -> None:
    assert classes(opened(tmp_path, kernel(7, 0, 10))) == {
        "other": (1, 1, 100.0, 10, 10.0, 10.0, 10.0, 10.0, None)
    }


def test_kernels_that_take_no_time_have_no_share(tmp_path: Path) -> None:
    assert classes(opened(tmp_path, kernel(GEMM, 5, 5)))["gemm"][:4] == (1, 1, None, 0)


def test_a_window_cuts_kernels_off(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel(GEMM, 0, 100), kernel(SUM, 100, 200), nvtx("step", 50, 120))
    part = capture.select(time="50ns/120ns")
    assert {kind: found[3] for kind, found in classes(part).items()} == {"gemm": 50, "reduce": 20}


def test_whole_graphs_are_said_to_be_left_out(tmp_path: Path) -> None:
    table = opened(tmp_path, kernel(GEMM, 0, 10), graph(20, 90, 1)).report(REPORT)
    assert len(table) == 1
    assert any(note.startswith("whole-graph executions (1)") for note in table.notes)


def test_own_rules(tmp_path: Path) -> None:
    rules = (("stencil", r"^diffuse"), ("mine", "nvjet|diffuse"))
    capture = opened(tmp_path, kernel("diffuse(double *)", 0, 5), kernel(GEMM, 5, 15), kernel(SUM, 15, 16))
    seen = capture.viewed(classes=rules)
    assert {kind: found[3] for kind, found in classes(seen).items()} == {
        "mine": 10,
        "stencil": 5,
        "reduce": 1,
    }
    assert set(classes(capture)) == {"gemm", "other", "reduce"}


def test_a_rule_takes_a_class_that_is_there(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("diffuse(double *)", 0, 5), kernel(GEMM, 5, 15))
    assert set(classes(capture.viewed(classes=(("gemm", "diffuse"),)))) == {"gemm"}
