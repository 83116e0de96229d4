"""What run.json and the capture say of GPU, driver, options, command and conditions."""

import json
import lzma
import shutil
from pathlib import Path
from typing import Any

import pytest
from conditioned import POWER, around, recorded, sample
from recorded import KEPT, PICTURED, ROOT
from tiny_export import Row, diagnostic, kernel, row, write

from nsyswrap.analysis.compare.model import Setup
from nsyswrap.analysis.compare.run_figures import run_figures
from nsyswrap.api import open_capture
from nsyswrap.base.run_folder import EXPORT, RUN

MS = 1_000_000
WORK = kernel("k", 0, 10)


def setup_of_run(folder: Path, *rows: Row, **run: Any) -> Setup:
    write(folder / EXPORT, WORK, *rows)
    if run:
        (folder / RUN).write_text(json.dumps(run), encoding="utf-8")
    return run_figures(open_capture(folder / EXPORT)).setup


def metadata(**values: str) -> list[Row]:
    return [
        row("META_DATA_CAPTURE", name=name.replace("__", ":"), value=text) for name, text in values.items()
    ]


def test_an_export_alone() -> None:
    made = run_figures(open_capture(PICTURED)).setup
    assert made.gpus == ("NVIDIA H200",)
    assert (made.driver, made.nsys) == ("580.159.04", "2025.3.2.0")
    assert (made.options, made.graphs) == ("--trace=cuda,nvtx", "graph")
    assert made.command[:2] == ("python3", "add2.py")
    assert (made.other_processes, made.throttled_percent, made.sm_clock_mhz) == (None, None, None)
    assert (made.node, made.commit, made.lost_events) == ("", "", 0)


def test_a_throttled_run(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "tests" / "data" / "throttled", tmp_path, dirs_exist_ok=True)
    packed = tmp_path / f"{EXPORT}.xz"
    (tmp_path / EXPORT).write_bytes(lzma.decompress(packed.read_bytes()))
    made = run_figures(open_capture(tmp_path)).setup
    assert (made.throttled_percent, made.throttle_reason) == (100.0, "power limit")
    assert made.sm_clock_mhz == pytest.approx(1492.5)
    assert (made.other_processes, made.node, made.versions["torch"]) == (0, "vm", "2.11.0")
    assert made.started.startswith("2026-11-22T22:17:50")


def test_a_gpu_at_its_full_clock_is_not_throttled(tmp_path: Path) -> None:
    work = [sample(ms, reasons=POWER) for ms in range(1000, 2000, 100)]
    made = run_figures(recorded(tmp_path, [kernel("k", 950 * MS, 1950 * MS)], around(work))).setup
    assert (made.throttled_percent, made.throttle_reason, made.sm_clock_mhz) == (0.0, "", 1980)


def test_the_options_of_run_json(tmp_path: Path) -> None:
    nsys = {"version": "2025.3.1.0", "trace": "nvtx,cuda", "um_faults": True, "graphs": "node"}
    nsys |= {"capture_range": "cudaProfilerApi", "delay": 2.0, "duration": None, "follow_forks": False}
    made = setup_of_run(
        tmp_path, command=["./a", "-n", "8"], nsys={**nsys, "extra": ["--gpu-metrics-devices=0"]}
    )
    assert made.options == (
        "--trace=cuda,nvtx --cuda-um-page-faults=true --capture-range=cudaProfilerApi --delay=2 "
        "--gpu-metrics-devices=0"
    )
    assert (made.nsys, made.graphs, made.command) == ("2025.3.1.0", "node", ("./a", "-n", "8"))


def test_an_export_tells_the_same_options_as_run_json(tmp_path: Path) -> None:
    kinds = [
        row("META_DATA_CAPTURE", name="CAPTURE_EVENT_TYPE", value=kind) for kind in ("NvtxEvents", "Cuda")
    ]
    faults = metadata(
        PROCESS_0__COLLECT_UVM_CPU_PAGE_FAULTS="true", PROCESS_0__COLLECT_UVM_GPU_PAGE_FAULTS="true"
    )
    others = metadata(START_DELAY_MS="2000", TRACE_AFTER_FORK_BEFORE_EXEC="true")
    said = {"trace": "cuda,nvtx", "um_faults": True, "delay": 2.0, "follow_forks": True}
    (tmp_path / "run").mkdir()
    alone = setup_of_run(tmp_path, *kinds, *faults, *others)
    assert alone.options == setup_of_run(tmp_path / "run", *kinds, nsys=said).options
    assert alone.options.endswith("--cuda-um-page-faults=true --trace-fork-before-exec=true --delay=2")


def test_recorded_nodes_of_graphs(tmp_path: Path) -> None:
    export = tmp_path / "nodes.sqlite"
    export.write_bytes(lzma.decompress((KEPT / "graphs" / "nodes" / f"{EXPORT}.xz").read_bytes()))
    assert run_figures(open_capture(export)).setup.graphs == "node"


def test_what_an_export_does_not_tell_is_empty(tmp_path: Path) -> None:
    made = setup_of_run(tmp_path)
    assert (made.gpus, made.driver, made.nsys, made.options, made.graphs, made.command) == (
        (),
        "",
        "",
        "",
        "",
        (),
    )


def test_what_was_redacted_is_not_known(tmp_path: Path) -> None:
    command = metadata(
        PROCESS_0__COMMAND="python3", PROCESS_0__ARGUMENT_0="--token", PROCESS_0__ARGUMENT_1="redacted"
    )
    made = setup_of_run(tmp_path, *command, host="redacted")
    assert (made.command, made.node) == ((), "")


def test_several_gpus_of_one_name_are_counted_and_of_several_names_are_not_known(tmp_path: Path) -> None:
    gpus = [row("TARGET_INFO_GPU", id=i, name="H200") for i in range(8)]
    assert setup_of_run(tmp_path, *gpus, kernel("k", 0, 10, deviceId=3)).gpus == ("H200", "H200")
    (tmp_path / "mixed").mkdir()
    mixed = [row("TARGET_INFO_GPU", id=i, name=name) for i, name in enumerate(("H200", "L4"))]
    assert setup_of_run(tmp_path / "mixed", *mixed).gpus == ()


def test_messages_about_lost_events_are_counted(tmp_path: Path) -> None:
    lost = diagnostic("Not all CUDA events might have been collected.")
    assert setup_of_run(tmp_path, lost, diagnostic("the clock was adjusted")).lost_events == 1
