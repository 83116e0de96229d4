"""What the recorded captures have to show, for the tests that lean on them."""

from pathlib import Path

import pytest
from recorded import (
    BESIDE,
    CROSS_CHECKS,
    DOZEN,
    GOLDEN,
    KEPT,
    ROOT,
    SHIPPED,
    capture_names,
    golden_names,
    goldens,
    run_folder,
    run_names,
)
from sampled import sampled
from scenario_page import PAGE, page

from nsyswrap import open_capture
from nsyswrap.api import CaptureReader
from nsyswrap.record import scenarios as scenario
from nsyswrap.render.formats import csv
from nsyswrap.reports import NSYS

FIXTURES = (SHIPPED, KEPT, CROSS_CHECKS, GOLDEN)
NVTX_TYPES = {"push_pop": 59, "start_end": 60, "marks": 34}


def opened(name: str, scratch: Path) -> CaptureReader:
    return open_capture(run_folder(name, scratch))


def test_every_variant_of_every_scenario_is_recorded() -> None:
    there = {f"{found.name}/{variant}" for found in scenario.scenarios() for variant in found.variants}
    alone = {f"{found.name}/{variant}" for found in scenario.scenarios() for variant in found.alone}
    beside = {f"{name}/{variant}" for name, (_, variants, _) in BESIDE.items() for variant in variants}
    assert set(run_names()) == there | beside
    assert set(capture_names()) == there - alone | beside


def test_the_fixtures_stay_small() -> None:
    sizes = {path: path.stat().st_size for folder in FIXTURES for path in folder.rglob("*") if path.is_file()}
    assert max(sizes.values()) < 400_000
    assert sum(sizes.values()) < 8_000_000


def test_the_recordings_of_a_scenario_stay_small() -> None:
    sizes = {
        folder.name: sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        for folder in KEPT.iterdir()
    }
    assert max(sizes.values()) <= 300_000, sizes
    assert sum(sizes.values()) < 3_000_000


@pytest.mark.slow
def test_the_page_shows_what_was_recorded() -> None:
    assert (ROOT / PAGE).read_text(encoding="utf-8") == page()


@sampled("name", capture_names(), fast=DOZEN)
def test_nothing_secret_was_recorded(name: str, scratch: Path) -> None:
    content = (run_folder(name, scratch) / "report.sqlite").read_bytes()
    for secret in (b"/root/", b"/home/", b"PATH=", b"HOSTNAME"):
        assert secret not in content, secret


def test_graphs_are_recorded_whole_and_node_by_node(scratch: Path) -> None:
    whole, nodes = opened("graphs/graph", scratch), opened("graphs/nodes", scratch)
    replays = whole.count("graph")
    assert replays == 11  # one to check, two to warm up, eight timed
    assert nodes.count("graph") == 0
    assert (nodes.columns("kernel", "graph_node_id")["graph_node_id"] > 0).sum() == 40 * replays


def test_two_processes_share_correlation_ids(scratch: Path) -> None:
    kernel = opened("ddp/even", scratch).columns("kernel", "global_pid", "correlation_id")
    one, other = (
        set(kernel["correlation_id"][kernel["global_pid"] == process].tolist())
        for process in sorted(set(kernel["global_pid"].tolist()))
    )
    assert one & other


@pytest.mark.slow
def test_the_rounding_eras_differ_in_some_cell(scratch: Path) -> None:
    def differs(name: str, report: str) -> bool:
        capture = opened(name, scratch)
        one, other = (csv.render([capture.report(report, rounding=era)]) for era in ("2025", "legacy"))
        return one != other

    assert any(differs(name, report) for name in golden_names() for report in NSYS if report in goldens(name))


def test_unified_memory_page_faults(scratch: Path) -> None:
    assert "um_total_sum" in goldens("copies/faults")
    assert "um_total_sum" not in goldens("copies/managed")
    assert opened("copies/faults", scratch).has("memcpy")


def test_kernels_that_python_generated(scratch: Path) -> None:
    for variant in ("triton", "compile"):
        names = opened(f"gelu/{variant}", scratch).report("cuda_gpu_kern_sum").data["name"]
        assert any(variant == "triton" or str(name).startswith("triton_") for name in names), names


def test_two_gpus(scratch: Path) -> None:
    assert set(opened("ddp/straggler", scratch).columns("kernel", "device_id")["device_id"].tolist()) == {
        0,
        1,
    }


@pytest.mark.parametrize("variant", ["host", "kernels"])
def test_every_nvtx_event_that_was_made_is_there(variant: str, scratch: Path) -> None:
    name = f"nvtx/{variant}"
    expected = scenario.measured(run_folder(name, scratch))["expected"]
    kinds = opened(name, scratch).columns("nvtx", "event_type")["event_type"].tolist()
    assert {kind: kinds.count(number) for kind, number in NVTX_TYPES.items()} == {
        kind: expected[kind] for kind in NVTX_TYPES
    }
