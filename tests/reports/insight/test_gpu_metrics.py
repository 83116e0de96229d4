"""gpu_metrics: the samples that lie wholly inside, and their means, worked out on paper."""

import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from advised import STEP_NS, looped, new
from test_kernel_efficiency import H200, work
from tiny_export import METRICS, Row, call, global_id, kernel, memcpy, metric, nvtx, opened, row

from nsyswrap.analysis.gpu_counters import COUNTERS, LEAST_SAMPLES
from nsyswrap.api import CaptureReader, open_capture
from nsyswrap.base.errors import NotInCapture

REPORT = "gpu_metrics"
RECORDED = Path(__file__).parents[2] / "data" / "counters" / "report.sqlite.xz"
PERCENTS = tuple(f"{name}_percent" for name in COUNTERS)
OTHERS = "another program uses this GPU: "
NOT_SAMPLED = "the GPU that worked was not sampled, or nsys did not record which one it is"


def sampled(*values: list[int], gpu: int = 0, every: int = 10) -> list[Row]:
    """The samples of METRICS from time 0 on: of the first of them these values, of the others 0."""
    number = len(values[0])
    every_one = [*values, *([0] * number for _ in METRICS[len(values) :])]
    lines = (metric(METRICS[i], i, *one, gpu=gpu, every=every) for i, one in enumerate(every_one))
    return [line for lines_of_one in lines for line in lines_of_one]


def rows_of(capture: CaptureReader, scope: str) -> dict[str, dict[str, Any]]:
    records = capture.report(REPORT).records()
    return {record["name"]: record for record in records if record["scope"] == scope}


def samples(capture: CaptureReader, scope: str = "operation") -> dict[str, int]:
    return {name: record["samples"] for name, record in rows_of(capture, scope).items()}


def test_means_of_the_samples_inside(tmp_path: Path) -> None:
    # a 5 to 405, b 410 to 500: samples 1 to 39 and 41 to 49 lie wholly inside.
    values = [
        [80] * 20 + [90] * 20 + [7] * 10,
        [10] * 50,
        [60] * 50,
        [20] * 50,
        [10] * 50,
        [1] * 50,
        [2] * 50,
    ]
    gpu = row("TARGET_INFO_GPU", id=0, name="GPU", memoryBandwidth=2 * 10**12)
    capture = opened(tmp_path, kernel("a", 5, 405), kernel("b", 410, 500), gpu, *sampled(*values))
    first, second = rows_of(capture, "operation").values()
    assert (first["name"], first["instances"], first["total_ns"], first["samples"]) == ("a", 1, 400, 39)
    assert first["sm_active_percent"] == pytest.approx((19 * 80 + 20 * 90) / 39)
    assert [first[name] for name in PERCENTS[1:]] == [10, 60, 20, 10, 1, 2]
    assert (first["dram_percent"], first["dram_bytes_per_s"]) == (30, pytest.approx(6e11))
    assert (first["near"], first["roof"]) == ("compute", None)
    assert (second["name"], second["samples"], second["near"]) == ("b", 9, "unsampled")
    assert [second[name] for name in (*PERCENTS, "dram_percent", "dram_bytes_per_s")] == [None] * 9
    # From 5 to 500: samples 1 to 49.
    [part] = rows_of(capture, "part").values()
    assert (part["name"], part["samples"], part["total_ns"]) == ("whole capture", 49, 495)
    assert part["sm_active_percent"] == pytest.approx((19 * 80 + 20 * 90 + 10 * 7) / 49)
    assert capture.report(REPORT).notes == ("1 of 2 operations (81.6 % of the time) are sampled enough",)


@pytest.mark.parametrize(("inside", "near"), [(LEAST_SAMPLES, "neither"), (LEAST_SAMPLES - 1, "unsampled")])
def test_thirty_samples_are_enough(inside: int, near: str, tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("a", 10, 10 + 10 * inside), *sampled([50] * 99))
    assert rows_of(capture, "operation")["a"]["near"] == near


def test_instances_add_up(tmp_path: Path) -> None:
    # Each of 15 instances holds two samples of 10 ns: 3 to 27 of each 50 ns.
    kernels = [kernel("a", 50 * i + 3, 50 * i + 37) for i in range(15)]
    capture = opened(tmp_path, *kernels, *sampled([40] * 80))
    assert samples(capture) == {"a": 30}
    assert rows_of(capture, "operation")["a"]["sm_active_percent"] == 40


@pytest.mark.parametrize(("gap", "counts"), [(0, 2), (5, 2), (6, 0)])
def test_a_short_gap_between_launches_is_inside(gap: int, counts: int, tmp_path: Path) -> None:
    kernels = [kernel("a", 0, 50), kernel("a", 50 + gap, 150), kernel("a", 150 + gap, 200)]
    capture = opened(tmp_path, *kernels, *sampled([40] * 2, every=100))
    assert samples(capture) == {"a": counts}


def test_what_runs_beside_another_kernel_counts_for_what_both_are_in(tmp_path: Path) -> None:
    add, mul = "vectorized_elementwise_kernel<add>", "vectorized_elementwise_kernel<mul>"
    beside = kernel(mul, 205, 295, streamId=8)
    capture = opened(tmp_path, kernel(add, 0, 400), beside, *sampled([50] * 40))
    assert samples(capture) == {add: 30, mul: 0}
    assert samples(capture, "class") == {"elementwise": 40}


def test_a_copy_beside_a_kernel_is_another_group(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 0, 400), memcpy(1, 100, 110, 8), *sampled([50] * 40))
    assert samples(capture) == {"k": 39, "[CUDA memcpy Host-to-Device]": 0}
    assert samples(capture, "class") == {"other": 39, "memcpy": 0}


def test_work_of_other_processes_on_the_gpu_is_no_part_of_a_selection(tmp_path: Path) -> None:
    rows = [kernel("k", 0, 400), kernel("other", 100, 200, pid=200)]
    capture = opened(tmp_path, *rows, *sampled([50] * 40))
    assert samples(capture.select(process=100)) == {"k": 30}
    assert samples(capture) == {"k": 30, "other": 0}
    assert samples(capture.select(process=100), "part") == {"whole capture": 40}
    whole = {"whole capture, process 100": 40, "whole capture, process 200": 10}
    assert samples(capture, "part") == whole


def test_processes_that_share_a_gpu_share_its_samples(tmp_path: Path) -> None:
    # Each of four steps has 38 samples in which both processes run their kernel; the first is warm-up.
    rows = []
    for pid in (100, 200):
        for start in range(0, 1600, 400):
            number = start + pid + 1
            rows += [nvtx("step", start, start + 400, globalTid=global_id(pid, pid))]
            rows += [call("cudaLaunchKernel", start + 1, start + 3, number, pid=pid)]
            rows += [kernel("k", start + 5, start + 395, number, pid=pid)]
    capture = opened(tmp_path, *rows, *sampled([50] * 200))
    assert samples(capture) == {"k": 4 * 38}
    assert samples(capture.select(steps="step")) == {"k": 3 * 38}


def test_the_process_whose_steps_have_too_few_samples_is_named(tmp_path: Path) -> None:
    rows = []
    for pid, length in ((100, 400), (200, 200)):
        for start in range(0, 1600, length):
            number = start + pid + 1
            rows += [nvtx("step", start, start + length, globalTid=global_id(pid, pid))]
            rows += [call("cudaLaunchKernel", start + 1, start + 3, number, pid=pid)]
            rows += [kernel("k", start + 5, start + length - 5, number, pid=pid)]
    capture = opened(tmp_path, *rows, *sampled([50] * 200))
    assert len(rows_of(capture, "step")) == 3
    assert "no rows of steps, process 200: none has 30 samples" in capture.report(REPORT).notes


def test_samples_lie_in_the_selected_time(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 0, 400), *sampled([50] * 40)).select(time="95ns/305ns")
    assert samples(capture) == {"k": 20}  # 100 to 300
    [part] = rows_of(capture, "part").values()
    assert (part["name"], part["samples"]) == ("selected part", 20)


def test_the_gpu_of_a_device(tmp_path: Path) -> None:
    gpus = [row("TARGET_INFO_GPU", id=i, name="GPU", uuid=f"u{i}") for i in range(2)]
    used = row("TARGET_INFO_CUDA_DEVICE", pid=100, cudaId=0, gpuId=1)
    rows = [kernel("k", 0, 400), *gpus, *sampled([50] * 40), *sampled([80] * 40, gpu=1)]
    capture = opened(tmp_path, *rows, used)
    assert rows_of(capture, "operation")["k"]["sm_active_percent"] == 80
    (tmp_path / "unknown").mkdir()
    capture = opened(tmp_path / "unknown", *rows)  # nsys before 2025.1 does not tell
    assert samples(capture) == {"k": 0}
    assert capture.report(REPORT).notes[0] == NOT_SAMPLED


def test_modules_hold_what_is_inside_of_them(tmp_path: Path) -> None:
    rows = [nvtx("model", 0, 1000, tid=100), nvtx("mlp", 10, 30), nvtx("head", 40, 60)]
    rows += [call("cudaLaunchKernel", 12 + i, 13 + i, i) for i in (1, 2)]
    rows += [call("cudaLaunchKernel", 45, 46, 3)]
    kernels = [kernel("a", 100, 305, 1), kernel("b", 305, 500, 2), kernel("c", 500, 900, 3)]
    capture = opened(tmp_path, *rows, *kernels, *sampled([50] * 100))
    assert samples(capture, "module") == {"model": 80, "model/head": 40, "model/mlp": 40}
    assert samples(capture) == {"c": 40, "a": 20, "b": 19}


def test_the_layers_of_a_model_are_one_row(tmp_path: Path) -> None:
    rows = [nvtx(f"layers.{i}.mlp", 100 * i, 100 * i + 90) for i in range(2)]
    rows += [call("cudaLaunchKernel", 100 * i + 10, 100 * i + 20, i + 1) for i in range(2)]
    kernels = [kernel("k", 100 * i + 200, 100 * i + 300, i + 1) for i in range(2)]
    assert samples(opened(tmp_path, *rows, *kernels, *sampled([9] * 50)), "module") == {"layers.*.mlp": 20}


def test_steps_have_all_samples_inside_of_them(tmp_path: Path) -> None:
    # Steps of 1000 ns, of which a kernel takes 100 to 600.
    launches = [call("cudaLaunchKernel", 0, 10, 1), kernel("k", 100, 600, 1)]
    capture = new(tmp_path, *looped(*launches), *sampled([50] * 600))
    steps = rows_of(capture, "step")
    assert len(steps) >= 3
    for record in steps.values():
        assert (record["samples"], record["total_ns"]) == (STEP_NS // 10, STEP_NS)
        assert (record["sm_active_percent"], record["instances"]) == (50, None)
    [part] = rows_of(capture, "part").values()
    assert (part["name"], part["samples"]) == ("steady part", sum(one["samples"] for one in steps.values()))


@pytest.mark.parametrize(("every", "steps"), [(33, 3), (35, 0)])  # ns: 30 and 28 samples in each step
def test_steps_have_rows_if_one_is_sampled_enough(tmp_path: Path, every: int, steps: int) -> None:
    launches = [call("cudaLaunchKernel", 0, 10, 1), kernel("k", 100, 600, 1)]
    capture = new(tmp_path, *looped(*launches), *sampled([50] * 200, every=every))
    assert len(rows_of(capture, "step")) == steps
    assert ("no rows of steps: none has 30 samples" in capture.report(REPORT).notes) is (not steps)


def test_where_counters_and_known_work_differ(tmp_path: Path) -> None:
    values = [[100] * 200, [0] * 200, [90] * 200, [10] * 200]
    capture = opened(tmp_path, *work(), H200, *sampled(*values, every=4))
    [add, product] = rows_of(capture, "operation").values()
    assert (product["near"], product["roof"]) == ("compute", "memory")
    assert (add["near"], add["roof"]) == ("compute", "memory")
    [note] = [one for one in capture.report(REPORT).notes if "differ" in one]
    assert note.startswith("counters differ from the roof by known work: void at::native::vec")
    assert note.endswith("(compute, not memory)")


@pytest.mark.parametrize(("elsewhere", "noted"), [(5, True), (4, False)])
def test_another_program_on_the_gpu(elsewhere: int, noted: bool, tmp_path: Path) -> None:  # noqa: FBT001
    kernels = [kernel("k", 0, 400), kernel("k", 800, 1200)]
    capture = opened(tmp_path, *kernels, *sampled([90] * 40 + [elsewhere] * 40 + [90] * 40))
    assert any(note.startswith(OTHERS) for note in capture.report(REPORT).notes) is noted


def test_a_counter_that_a_gpu_lacks_is_empty(tmp_path: Path) -> None:
    rows = [one for i in range(3) for one in metric(METRICS[i], i, *[50] * 40)]
    capture = opened(tmp_path, kernel("k", 0, 400), *rows)
    [record] = rows_of(capture, "operation").values()
    assert (record["sm_active_percent"], record["dram_percent"], record["near"]) == (50, None, "unsampled")
    assert (
        capture.report(REPORT).notes[0] == "not sampled on this GPU: dram_read, dram_write, pcie_rx, pcie_tx"
    )


def test_samples_that_are_missing(tmp_path: Path) -> None:
    every = [one for one in sampled([50] * 80) if not 200 <= one.cells.get("timestamp", 0) < 400]  # type: ignore[operator]
    assert samples(opened(tmp_path, kernel("k", 0, 800), *every)) == {"k": 60}


def test_impossible_values_are_not_known(tmp_path: Path) -> None:
    values = [[50] * 38 + [-1000, 101], [101] * 40, [0] * 20 + [100] * 20]
    capture = opened(tmp_path, kernel("k", 0, 400), *sampled(*values))
    [record] = rows_of(capture, "operation").values()
    assert [record[name] for name in PERCENTS[:3]] == [50, None, 50]
    assert "values below 0 % or above 100 % are left out: 42" in capture.report(REPORT).notes


def test_other_units_and_names_are_not_used(tmp_path: Path) -> None:
    rows = [
        *metric("SMs Active [Avg]", 0, *[5] * 40),
        *metric("Tensor Active / FP16 Active [Throughput %]", 1, *[7] * 40),
    ]
    [record] = rows_of(opened(tmp_path, kernel("k", 0, 400), *rows), "operation").values()
    assert (record["sm_active_percent"], record["tensor_active_percent"]) == (None, 7)


def test_kernels_that_all_run_at_the_same_time_are_refused(tmp_path: Path) -> None:
    kernels = [kernel("k", 0, 30_000, streamId=i) for i in range(3_000)]
    capture = opened(tmp_path, *kernels, *metric(METRICS[0], 0, *[50] * 3_000))
    with pytest.raises(NotInCapture, match="9,000,000 pairs"):
        capture.report(REPORT)


# Percent by Nsight Compute, as in the README there: SMs active, SM issue, tensor cores, DRAM read and write.
BY_NSIGHT_COMPUTE: dict[str, tuple[float | None, ...]] = {
    "triad": (99.76, 4.68, 0, 60.78, 30.14),
    "elementwise": (99.71, 5.84, 0, 44.49, 43.99),
    "sum": (98.32, 12.49, 0.08, 91.59, 0.1),
    "softmax": (99.93, 73.9, 2.45, 27.18, 27.05),
    "layernorm": (99.87, 39.66, 0.59, 46.7, 32.55),
    "gemm_bf16": (98.91, 12.87, 97.54, None, 0.99),  # what it reads differs between executions
    "gemm_bf16_thin": (91.78, 5.68, None, 93.65, 0.15),  # tensor cores at another clock
    "gemm_fp32": (96.89, 86.59, 0, 4.48, 0.25),
    "gemm_fp64": (99.07, 19.48, 97.51, None, 0.61),
    "conv_bf16": (98.14, 19.8, 89.12, 7.06, 6.39),
}
# Bytes by the median time of a kernel, in TB/s: of the operations that move each of their bytes once.
MOVED = {"triad": 4.377, "elementwise": 4.27, "sum": 4.41, "softmax": 2.556, "gemm_bf16_thin": 4.519}


def test_as_nsight_compute_measures(tmp_path: Path) -> None:
    with lzma.open(RECORDED) as packed:
        (tmp_path / "report.sqlite").write_bytes(packed.read())
    capture = open_capture(tmp_path / "report.sqlite")
    modules = rows_of(capture, "module")
    for name, expected in BY_NSIGHT_COMPUTE.items():
        for column, value in zip(PERCENTS, expected, strict=False):
            assert value is None or modules[name][column] == pytest.approx(value, abs=2.6), (name, column)
    for name, rate in MOVED.items():
        assert modules[name]["dram_bytes_per_s"] == pytest.approx(rate * 1e12, rel=0.035), name
    near = {name: record["near"] for name, record in modules.items() if name != "All"}
    compute = {"gemm_bf16", "gemm_fp32", "gemm_fp64", "conv_bf16", "softmax"}
    assert {name for name, one in near.items() if one == "compute"} == compute
    assert {name for name, one in near.items() if one == "unsampled"} == {"gemm_bf16_small"}  # 7 us each
    [differs] = [note for note in capture.report(REPORT).notes if "differ" in note]
    assert differs.endswith("(compute, not memory)")  # softmax: 74 % of its cycles issue instructions


@pytest.mark.parametrize("seed", range(5))
def test_against_one_sample_at_a_time(seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    start = np.sort(random.integers(0, 3_000, 60))
    end = start + random.integers(1, 120, 60)
    name, stream = random.integers(0, 3, 60), random.integers(0, 2, 60)
    kernels = [
        kernel(f"k{n}", a, b, streamId=s)
        for a, b, n, s in zip(start.tolist(), end.tolist(), name.tolist(), stream.tolist(), strict=True)
    ]
    values = random.integers(0, 101, 300).tolist()
    capture = opened(tmp_path, *kernels, *sampled(values))
    expected: dict[str, list[int]] = {f"k{n}": [] for n in set(name.tolist())}
    for number, value in enumerate(values):
        first, last = 10 * number, 10 * number + 10
        during = [i for i in range(60) if start[i] < last and end[i] > first]
        covered = {t for i in during for t in range(max(start[i], first), min(end[i], last))}
        inside = int(start.min()) <= first and last <= int(end.max())
        if inside and len(covered) >= 10 * 0.95 and len({int(name[i]) for i in during}) == 1:
            expected[f"k{name[during[0]]}"].append(value)
    assert samples(capture) == {one: len(of) for one, of in expected.items()}
    for one, record in rows_of(capture, "operation").items():
        enough = len(expected[one]) >= LEAST_SAMPLES
        assert record["sm_active_percent"] == (pytest.approx(np.mean(expected[one])) if enough else None)
