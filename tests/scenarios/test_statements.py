"""What scenarios say of their figures, checked on what was recorded of them on an H200."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import course_page
import pytest
from recorded import ROOT, run_folder

from nsyswrap import open_capture
from nsyswrap.cli.scenario_runs import closing_tables
from nsyswrap.record.scenarios import find_scenario, measured, scenarios
from nsyswrap.render.readable_names import readable_name

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recorded")


def rows(scenario: str, scratch: Path) -> dict[tuple[str, str], dict[Any, Any]]:
    """Return the closing table: variant and operator -> the figures by column."""
    found = find_scenario(scenario)
    folders = {variant: run_folder(f"{scenario}/{variant}", scratch) for variant in found.variants}
    table = closing_tables(folders)[0].frame
    return {(row["variant"], row["operator"]): row for row in table.to_dict("records")}


def kernels(name: str, scratch: Path) -> list[str]:
    """Return the names of the kernels that the variant runs, those of most time first."""
    frame = open_capture(run_folder(name, scratch)).report("cuda_gpu_kern_sum").frame
    return [str(kernel) for kernel in frame["name"]]


def test_matmul_chooses_another_kernel_for_each_type_and_size(scratch: Path) -> None:
    table = rows("matmul", scratch)
    kernel_ns = {variant: row["kernel_med_ns"] for (variant, _), row in table.items()}
    assert kernel_ns["tf32"] < kernel_ns["float32"] / 5
    assert kernel_ns["bf16"] < kernel_ns["float32"] / 10
    assert kernel_ns["odd"] / kernel_ns["bf16"] == pytest.approx(5.6, abs=0.05)
    assert kernel_ns["vector"] > 100 * kernel_ns["bf16"] / 4096
    assert {variant: row["launches"] for (variant, _), row in table.items()} == {
        **dict.fromkeys(("float32", "tf32", "bf16", "odd"), 1),
        **dict.fromkeys(("deep", "vector"), 2),
    }
    names = {variant: kernels(f"matmul/{variant}", scratch) for variant, _ in table}
    assert len({found[0] for found in names.values()}) == len(names)
    assert names["bf16"] == ["nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT"]
    assert re.search("tensorop.*s1688gemm.*align1", names["odd"][0])
    assert "ffma" in names["float32"][0]
    assert any("splitK" in name for name in names["deep"])
    assert any("splitKreduce" in name for name in names["deep"])
    assert readable_name(names["tf32"][0]) == "gemm tf32 128x256x32 nn"


def test_matmul_is_below_the_peak_of_its_unit(scratch: Path) -> None:
    for variant in find_scenario("matmul").variants:
        [timing] = measured(run_folder(f"matmul/{variant}", scratch))["timings"]
        assert 0 < timing["tflops"] < timing["peak_tflops"]
        assert timing["tflops"] == round(timing["flop"] / timing["median_us"] / 1e6, 1)


def test_softmax_takes_the_time_of_its_bytes(scratch: Path) -> None:
    table = {variant: row for (variant, _), row in rows("softmax", scratch).items()}
    assert {variant: row["launches"] for variant, row in table.items()} == {
        **dict.fromkeys(("torch", "cuda", "triton", "compile"), 1),
        "naive": 5,
    }
    others = [row["kernel_med_ns"] for variant, row in table.items() if variant != "naive"]
    assert table["naive"]["kernel_med_ns"] > 2 * max(others)
    assert table["cuda"]["kernel_med_ns"] > 2 * table["triton"]["kernel_med_ns"]
    assert kernels("softmax/compile", scratch)[0].startswith("triton_red_fused_")


def test_decode_waits_for_launches_and_a_graph_does_not(scratch: Path) -> None:
    table = {variant: row for (variant, _), row in rows("inference", scratch).items()}
    tokens = measured(run_folder("inference/decode", scratch))["tokens"]
    assert table["prefill"]["launches"] == pytest.approx(table["decode"]["launches"] / tokens, rel=0.2)
    assert table["decode"]["api_med_ns"] > table["decode"]["kernel_med_ns"]
    assert table["graph"]["launches"] == tokens + 1  # one fills the first position
    assert table["graph"]["api_med_ns"] < table["graph"]["kernel_med_ns"]
    assert table["graph"]["program_med_ns"] < table["decode"]["program_med_ns"] / 4
    [first, *_] = open_capture(run_folder("inference/decode", scratch)).report("advice").frame["finding"]
    assert str(first).lower().startswith("launch")


def test_a_custom_backward_is_one_kernel(scratch: Path) -> None:
    table = rows("autograd_op", scratch)
    launches = {key: row["launches"] for key, row in table.items()}
    assert launches == {
        ("torch", "forward"): 2,
        ("torch", "backward"): 4,
        ("cuda", "forward"): 1,
        ("cuda", "backward"): 1,
    }
    for operator in ("forward", "backward"):
        by_cuda, by_torch = (table[variant, operator]["kernel_med_ns"] for variant in ("cuda", "torch"))
        assert by_cuda < by_torch
    names = kernels("autograd_op/cuda", scratch)
    assert any(name.startswith("void swish_backward_kernel<float>") for name in names)


@pytest.mark.slow
def test_the_course_has_every_scenario_and_says_what_was_recorded() -> None:
    assert {item.scenario for item in course_page.LESSONS} == {found.name for found in scenarios()}
    assert (ROOT / course_page.PAGE).read_text(encoding="utf-8") == course_page.page()
