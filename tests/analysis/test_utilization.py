"""Rates of FLOPs by module and by step, worked out on paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from made_modules import MAIN, STEPS, Training, thread
from report_tables import table_of, values_of
from tiny_export import nvtx, opened, row

from nsyswrap.analysis.answer import answer_of
from nsyswrap.capture.schema import NVTX_START_END
from nsyswrap.reports.answer import answer_lines, as_dict

if TYPE_CHECKING:
    from pathlib import Path

    from nsyswrap import CaptureReader

MM, SMALL = "[[20, 30], [30, 50]]", "[[20, 10], [10, 50]]"  # 60,000 and 20,000 FLOPs; bytes below
TF32 = "ampere_sgemm_tf32_128x64_tn"
BF16 = "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn"
# 2048 bf16 operations in a cycle of each of 10 multiprocessors at 0.2 GHz: 4096 in a ns. 10 bytes in a ns.
GPU = row(
    "TARGET_INFO_GPU",
    id=0,
    name="NVIDIA A100",
    smCount=10,
    computeMajor=8,
    computeMinor=0,
    clockRate=200_000_000,
    memoryBandwidth=10_000_000_000,
)


def program(folder: Path, *, unknown: int = 0, shapes: bool = True) -> CaptureReader:
    """Four steps of 1000 ns. In each, layers.0 takes 100 ns for 60,000 FLOPs, layers.1 50 ns for 20,000."""
    made = Training()
    for number in range(4):
        at = 1000 * number
        marked = {"domainId": STEPS, "eventType": NVTX_START_END[0], "endGlobalTid": thread(MAIN)}
        made.rows.append(nvtx(f"step {number}", at, at + 999, **marked))
        made.module("Net", at + 5, at + 800)
        for i, (sizes, lasting) in enumerate(((MM, 100), (SMALL, 50))):
            made.module(f"layers.{i}", at + 200 * i + 10, at + 200 * i + 100)
            if shapes:
                made.operation("aten::mm", at + 200 * i + 20, at + 200 * i + 90, sizes=sizes)
            made.launch(BF16, at + 200 * i + 30, lasting)
        if unknown:
            made.launch("mystery", at + 600, unknown)
    folder.mkdir(exist_ok=True)
    return opened(folder, GPU, *made.rows)


def test_modules_have_the_rate_of_their_kernels_and_its_share_of_the_peak(tmp_path: Path) -> None:
    capture = program(tmp_path)
    table = table_of(capture, "nvtx_tree")
    assert values_of(table, "range", "flop_per_s", "peak_percent") == [
        ("Net", pytest.approx(80e3 / 150 * 1e9), pytest.approx(100 * 80e3 / 150 / 4096)),
        ("  layers.0", 600e9, pytest.approx(100 * 600 / 4096)),
        ("  layers.1", 400e9, pytest.approx(100 * 400 / 4096)),
        ("(no module or range)", None, None),
    ]
    kernels = table_of(capture, "module_kern_sum")
    assert values_of(kernels, "module", "flop_per_s") == [("layers.0", 600e9), ("layers.1", 400e9)]


def test_a_budget_counts_the_time_in_which_the_gpu_waits_for_a_module(tmp_path: Path) -> None:
    capture = program(tmp_path)
    rows = values_of(table_of(capture, "module_budget"), "module", "total_ns", "flop_per_s")
    assert rows == [
        ("layers.0", 1840, pytest.approx(3 * 60e3 / 1840 * 1e9)),  # in three steps, the first one is warm-up
        ("(no module or range)", 709, None),
        ("layers.1", 450, pytest.approx(3 * 20e3 / 450 * 1e9)),
    ]
    folded = values_of(table_of(capture, "module_budget:fold=1"), "module", "total_ns", "flop_per_s")
    assert folded[0] == ("layers.*", 2290, pytest.approx(3 * 80e3 / 2290 * 1e9))


def test_the_answer_has_the_mfu_of_a_step_and_its_bandwidth(tmp_path: Path) -> None:
    known = answer_of(program(tmp_path)).utilization
    assert known is not None
    assert known.known_percent == 100
    assert known.flop_per_s == pytest.approx(80e9, rel=0.01)
    assert known.mfu_percent == pytest.approx(100 * 80 / 4096, rel=0.01)
    elements = 20 * 30 + 30 * 50 + 20 * 50 + 20 * 10 + 10 * 50 + 20 * 50
    assert known.bytes_per_s == pytest.approx(2 * elements * 1e6, rel=0.01)
    assert known.bandwidth_percent == pytest.approx(100 * 2 * elements / 1000 / 10, rel=0.01)


def test_the_screen_and_the_json_say_it(tmp_path: Path) -> None:
    capture = program(tmp_path)
    (line,) = [line.text for line in answer_lines(capture, answer_of(capture)) if "MFU" in line.text]
    assert line == "MFU 2.0 %: 80.0 GFLOP/s; memory bandwidth at least 96 % of its peak"
    assert as_dict(answer_of(capture))["utilization"]["known_percent"] == 100
    less = program(tmp_path / "less", unknown=100)
    (line,) = [line.text for line in answer_lines(less, answer_of(less)) if "MFU" in line.text]
    assert line == "MFU not known: FLOPs or bytes are known of 60 % of kernel time"


def test_if_less_is_known_there_is_no_rate(tmp_path: Path) -> None:
    capture = program(tmp_path, unknown=50)  # of 200 ns
    known = answer_of(capture).utilization
    assert known is not None
    assert known.known_percent == pytest.approx(75)
    assert known.mfu_percent is known.flop_per_s is None
    rows = values_of(table_of(capture, "nvtx_tree"), "range", "flop_per_s")
    assert rows == [
        ("Net", None),
        ("  layers.0", 600e9),
        ("  layers.1", 400e9),
        ("(no module or range)", None),
    ]


def test_without_shapes_there_is_nothing_to_say(tmp_path: Path) -> None:
    assert answer_of(program(tmp_path, shapes=False)).utilization is None
