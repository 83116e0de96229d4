"""The main job on a real GPU: programs in, screens and numbers out, equal to this machine's own nsys."""

import json
import os
import subprocess
import sys
from csv import DictReader
from pathlib import Path

import pytest
from gpus_here import ON_A_GPU
from nsys_says import era_of, made_by_us, said_by

from nsyswrap import open_capture
from nsyswrap.base.nsys import find as nsys_install
from nsyswrap.record.scenarios import find_scenario, scenarios
from nsyswrap.reports import NAMES, find_report
from nsyswrap.reports.scenario_tables import AGREES_PERCENT

ROOT = Path(__file__).resolve().parents[2]
PARITY = [name for name in NAMES if find_report(name).layer == "parity"]

pytestmark = ON_A_GPU


def nsyswrap(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nsyswrap", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"},
    )


def same_as_nsys(export: Path) -> int:
    """Compare every parity report with this machine's nsys; return how many there were."""
    nsys = str(nsys_install.find_nsys()[0].path)
    capture, rounding, said = open_capture(export), era_of(nsys), said_by(nsys, export, PARITY)
    for name, text in said.items():
        assert made_by_us(capture, name, rounding) == text, name
    return sum(map(bool, said.values()))


@pytest.fixture(scope="module")
def add_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("add") / "run"
    done = nsyswrap("profile", "-o", folder, ROOT / "kernels" / "add.cu", "grid", "--n", "65536")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Max error: 0\n")
    assert "\nCUDA GPU Summary" in done.stdout
    return folder


def test_a_cu_file_is_compiled_profiled_and_reported(add_run: Path) -> None:
    run = json.loads((add_run / "run.json").read_text())
    assert run["gpus"][0].startswith("NVIDIA")
    assert run["driver"]
    assert "cuda_gpu_kern_sum" in (add_run / "nsys-stats.txt").read_text()
    frame = open_capture(add_run).events("kernel")
    assert frame["name"].tolist() == ["add(unsigned long, const float *, float *)"]
    assert (frame["duration_ns"] > 0).all()


def test_its_numbers_are_nsys_numbers(add_run: Path) -> None:
    assert same_as_nsys(add_run / "report.sqlite") >= 11  # those of kernels, copies and calls


def test_a_failing_cuda_program_keeps_its_code_and_its_report(tmp_path: Path) -> None:
    source = tmp_path / "fails.cu"
    source.write_text(
        "#include <cstdlib>\n__global__ void k() {}\n"
        "int main() { k<<<1, 1>>>(); cudaDeviceSynchronize(); std::exit(3); }\n"
    )
    done = nsyswrap("profile", "-o", tmp_path / "run", source)
    assert done.returncode == 3
    assert open_capture(tmp_path / "run").count("kernel") == 1


def test_nothing_on_the_gpu_is_said_plainly(tmp_path: Path) -> None:
    done = nsyswrap("profile", "-o", tmp_path / "run", "-m", "timeit", "-n", "1", "pass")
    assert done.returncode == 0
    assert "No GPU work: nsys recorded no CUDA call" in done.stdout
    assert "Other likely causes:" in done.stderr


@pytest.fixture(scope="module")
def all_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every scenario this machine can run, run."""
    folder = tmp_path_factory.mktemp("all") / "runs"
    done = nsyswrap("scenarios", "run", "all", "-o", folder)
    assert done.returncode == 0, done.stderr
    return folder


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as lines:
        return list(DictReader(lines))


def test_every_scenario_checks_itself_and_is_recorded(all_runs: Path) -> None:
    rows = rows_of(all_runs / "scenario_runs.csv")
    there = [(found.name, variant) for found in scenarios() for variant in found.variants]
    assert [(row["scenario"], row["variant"]) for row in rows] == there
    for row in rows:
        found, variant = find_scenario(row["scenario"]), row["variant"]
        assert (row["outcome"] == "done") == (not found.lacks_for(variant)), row
        if row["outcome"] == "done" and variant not in found.alone:
            assert same_as_nsys(all_runs / found.name / variant / "report.sqlite") >= 2 or variant == "host"


def test_every_launch_of_the_storm_ran(all_runs: Path) -> None:
    [empty, busy] = [row for row in rows_of(all_runs / "scenario_runs.csv") if row["scenario"] == "storm"]
    assert int(empty["kernels"]) == int(busy["kernels"]) >= 20_000


@pytest.mark.parametrize("scenario", ["events", "square", "vector_add"])
def test_four_clocks_agree_on_long_kernels_or_the_table_says_why(tmp_path: Path, scenario: str) -> None:
    arguments = ("--cross-check", "-o", tmp_path / "runs", "--csv", tmp_path / "csv")
    done = nsyswrap("scenarios", "run", scenario, *arguments)
    assert done.returncode == 0, done.stderr
    rows = rows_of(tmp_path / "csv" / "cross_check.csv")
    assert {row["clock"] for row in rows} == {"nsys", "perf_counter", "cuda.Event", "torch.profiler"}
    for operator in {row["operator"] for row in rows}:
        assert len({row["launches"] for row in rows if row["operator"] == operator}) == 1
    for row in rows:
        assert (abs(float(row["beyond_percent"])) > AGREES_PERCENT) == bool(row["note"]), row
        if row["clock"] == "torch.profiler":  # the one clock that measures what nsys measures
            assert not row["note"], row


def test_an_unsynchronised_clock_misses_the_kernel(tmp_path: Path) -> None:
    """With 2^26 elements the kernel takes far longer than its launch: only waiting sees it."""
    arguments = ("--variant", "both", "--variant", "none", "-o", tmp_path / "runs", "--csv", tmp_path / "csv")
    done = nsyswrap("scenarios", "run", "add2", *arguments, "--", "--n", str(1 << 26))
    assert done.returncode == 0, done.stderr
    for row in rows_of(tmp_path / "csv" / "timing_by_variant.csv"):
        waits = float(row["program_med_ns"]) > float(row["kernel_med_ns"])
        assert waits == (row["variant"] == "both")


def test_the_demo_runs_here(tmp_path: Path) -> None:
    done = nsyswrap("demo", "-o", tmp_path / "demo")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Run on this machine.\n")
