"""What scenarios say of their figures, checked on what was recorded of them on an H200."""

import re
from pathlib import Path
from typing import Any

import course_page
import pytest
from recorded import run_folder
from sampled import sampled

from nsyswrap import api, open_capture
from nsyswrap.analysis.kernel_names import readable_name
from nsyswrap.analysis.peaks import peak_of
from nsyswrap.base.run_folder import EXPORT
from nsyswrap.cli.scenarios import closing_tables
from nsyswrap.record.scenarios import find_scenario, measured, printed, scenarios


def rows(scenario: str, scratch: Path) -> dict[tuple[str, str], dict[Any, Any]]:
    """Return the closing table: variant and operator -> the figures by column."""
    found = find_scenario(scenario)
    folders = {variant: run_folder(f"{scenario}/{variant}", scratch) for variant in found.variants}
    table = closing_tables(found, folders)[0].frame
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
    recorded = " ".join(name for found in names.values() for name in found)
    recorded += " ".join(kernels("inference/prefill", scratch))  # simt and sgemm
    pieces = re.search(r"(?s)the pieces on an H200:\n\n(.*?)\n\n", find_scenario("matmul").explanation)
    assert pieces
    explained = [re.split(r"\s{2,}", line.strip())[0] for line in pieces[1].splitlines() if line[4] != " "]
    assert len(explained) == 11
    assert [name for line in explained for name in line.split(", ") if name not in recorded] == []


def test_matmul_is_below_the_peak_of_its_unit(scratch: Path) -> None:
    for variant in find_scenario("matmul").variants:
        [timing] = measured(run_folder(f"matmul/{variant}", scratch))["timings"]
        capture = open_capture(run_folder(f"matmul/{variant}", scratch))
        peak = peak_of(capture, kernels(f"matmul/{variant}", scratch)[0])
        assert peak
        assert 0 < timing["tflops"] < peak / 1e12
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
    moved = {
        variant: measured(run_folder(f"softmax/{variant}", scratch))["timings"][0]["moved"]
        for variant in table
    }
    assert moved == {"torch": 1, "naive": 4, "cuda": 1.5, "triton": 1, "compile": None}
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
    [cure, *_] = open_capture(run_folder("inference/decode", scratch)).report("advice").frame["advice"]
    assert "CUDA graphs" in cure


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
    launches_of = open_capture(run_folder("autograd_op/cuda", scratch)).report("cuda_kern_exec_trace").frame
    threads = {
        way: set(launches_of[launches_of["kernel_name"].str.contains(f"swish_{way}")]["thread_id"])
        for way in ("forward", "backward")
    }
    assert [len(of_way) for of_way in threads.values()] == [1, 1]
    assert threads["forward"] != threads["backward"]


def test_a_schedule_records_its_active_steps_and_leaves_a_trace_of_each_cycle(scratch: Path) -> None:
    folder = run_folder("vector_add/schedule", scratch)
    [timing] = measured(folder)["timings"]
    seen = timing["profiler"]
    assert (seen["launches"], seen["kernels"], seen["cpu_ops"], timing["traces"]) == (10, 6, 6, 2)
    names = ["vector_add_kernel(float const*, float...", "ProfilerStep*", "aten::empty", "cudaLaunchKernel"]
    of_last_cycle = {name: row for row in printed(folder).splitlines() for name in names if name in row}
    assert [of_last_cycle[name].split("[")[0].split()[-1] for name in names] == ["3"] * 4
    bare = rows("vector_add", scratch)["bare", "vector_add"]
    assert 1e3 * seen["kernel_median_us"] == pytest.approx(bare["kernel_med_ns"], rel=0.05)


def test_the_table_of_key_averages_agrees_with_nsys(scratch: Path) -> None:
    [_, operator, kernel, *_] = printed(run_folder("events/profiler", scratch)).splitlines()
    assert operator.startswith("aten::mul ")
    assert operator.endswith(" 20  [[16777216], [16777216]]")
    average_us = float(re.findall(r"([\d.]+)us +20 ", kernel)[0])
    event = rows("events", scratch)["event", "a * b"]
    assert 1e3 * average_us == pytest.approx(event["kernel_med_ns"], rel=0.05)


def test_a_wrong_mask_costs_nothing_and_the_interpreter_finds_it(scratch: Path) -> None:
    found = measured(run_folder("triton_debug/interpreter", scratch))
    facts = ("wrong_sums", "wrong_program", "inside", "outside")
    assert [found[fact] for fact in facts] == [8, 0, 1024, 24]
    assert found["total"] > found["expected"] + 5
    table = rows("triton_debug", scratch)
    assert table["triton", "wrong"]["kernel_med_ns"] == pytest.approx(
        table["triton", "right"]["kernel_med_ns"], rel=0.1
    )
    for variant in ("triton", "compile"):
        made = measured(run_folder(f"triton_debug/{variant}", scratch))["kernels"]
        assert {kernel["entry"] for kernel in made} <= set(kernels(f"triton_debug/{variant}", scratch))
        assert {kernel["target"] for kernel in made} == {"sm_90a"}
        assert all(kernel["entry"].startswith("triton_") == (variant == "compile") for kernel in made)


@sampled("scenario", ["ladder", "ladder_cuda"], fast=1)
def test_each_rung_gains_by_repairing_what_the_screen_of_the_one_before_names(
    scenario: str, scratch: Path
) -> None:
    found = find_scenario(scenario)
    folders = {variant: run_folder(f"{scenario}/{variant}", scratch) for variant in found.variants}
    table = closing_tables(found, folders)[0].frame.set_index("variant")
    assert (table["repairs"].dropna().to_dict()) == found.repairs
    captures = {variant: open_capture(folder) for variant, folder in folders.items()}
    steps = []
    for variant, capture in captures.items():
        budget = capture.report("step_budget").frame.set_index("row")
        steps.append(budget["duration_ns"]["median step"])
        steady = budget.loc["steady part"]
        assert table["busy_percent"][variant] == pytest.approx(
            100 * steady["busy_ns"] / steady["duration_ns"]
        )
    assert steps == sorted(steps, reverse=True)
    for above, rung in zip(found.variants, found.repairs, strict=False):
        made = api.compare(folders[above] / EXPORT, folders[rung] / EXPORT, anyway=True)
        [step] = made.table.frame.query("group == 'step'").to_dict("records")
        assert table["change_percent"][rung] == pytest.approx(step["change_percent"])
        assert table["change_percent"][rung] < -5
        findings = captures[above].report("advice").frame.set_index("finding")["at_stake_percent"]
        assert found.repairs[rung] in (*findings.index, "kernels")
        if found.repairs[rung] in findings:
            assert table["stake_percent"][rung] == pytest.approx(findings[found.repairs[rung]])


def test_every_rung_of_the_ladder_has_the_same_losses(scratch: Path) -> None:
    losses = [
        measured(run_folder(f"ladder/{variant}", scratch))["timings"][0]["losses"]
        for variant in find_scenario("ladder").variants
    ]
    assert losses[0][-1] < 0.8 * losses[0][0]
    for others in losses[1:]:
        assert others == pytest.approx(losses[0], rel=2e-3)


def test_the_course_has_every_scenario() -> None:
    assert {item.scenario for item in course_page.LESSONS} == {found.name for found in scenarios()}
