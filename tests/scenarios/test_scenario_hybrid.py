"""scenarios/hybrid.py: how it starts its ranks, the ranks themselves without a GPU, and what nsys records."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from conftest import Cli
from ran import ran
from recorded import run_folder
from scenario_scripts import SCENARIOS, load

from nsyswrap import open_capture
from nsyswrap.base.errors import Unavailable
from nsyswrap.record import scenarios as scenario
from nsyswrap.record.in_program import script as experiment
from nsyswrap.record.scenarios import measured

SCRIPT = SCENARIOS / "hybrid.py"
SMALL = ("--cells", "20000", "--warmup", "1", "--iterations", "3")
STEPS = 4
DEADLINE_S = 180
MPIRUN = '#!/bin/sh\necho "$LD_PRELOAD|$OMPI_ALLOW_RUN_AS_ROOT|$*"\n'


@pytest.fixture
def hybrid() -> ModuleType:
    return load("hybrid")


@pytest.fixture
def mpirun(tmp_path: Path) -> dict[str, str]:
    """An environment whose mpirun prints what it is given."""
    (tmp_path / "mpirun").write_text(MPIRUN, encoding="utf-8")
    (tmp_path / "mpirun").chmod(0o755)
    path = os.pathsep.join((str(tmp_path), os.environ["PATH"]))
    return {**os.environ, "PATH": path, "PYTHONPATH": str(SCENARIOS.parent), "LD_PRELOAD": ""}


@pytest.fixture(scope="module")
def program(environment: dict[str, str]) -> str:
    """The program, compiled for no GPU in particular."""
    if shutil.which("nvcc") is None or scenario.NEEDS["mpi"]():
        pytest.skip("needs nvcc, mpicxx and mpirun")
    header = ["mpicxx", "-E", "-include", "mpi.h", "-x", "c++", os.devnull]
    if subprocess.run(header, capture_output=True, check=False).returncode:
        pytest.skip("needs mpi.h (Debian, Ubuntu: apt-get install libopenmpi-dev)")
    return run("--build", "--arch", "sm_80", env=environment).stdout.splitlines()[-1]


def run(*arguments: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *arguments]
    return ran(command, env=env, timeout=DEADLINE_S)


def counts(export: Path) -> dict[str, int]:
    """The rows of every table of an export."""
    with closing(sqlite3.connect(export)) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: db.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in tables}  # noqa: S608


# How the ranks are started


def test_mpirun_is_given_two_ranks_all_variants_and_every_count(mpirun: dict[str, str]) -> None:
    done = run("--built", "/cache/hybrid", env=mpirun)
    _, as_root, command = done.stdout.strip().split("|")
    asked = "threads gpu --cells 262144 --threads 2 --warmup 2 --iterations 10"
    assert command == f"-n 2 /cache/hybrid {asked}"
    assert as_root == "1"


def test_the_user_s_own_settings_of_open_mpi_stay(mpirun: dict[str, str]) -> None:
    done = run("--built", "/cache/hybrid", env={**mpirun, "OMPI_ALLOW_RUN_AS_ROOT": "0"})
    assert done.stdout.split("|")[1] == "0"


def test_a_runtime_is_preloaded_before_what_nsys_preloads(
    hybrid: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/nsys/injection.so")
    hybrid.preload("libomp.so.5")
    assert os.environ["LD_PRELOAD"] == "libomp.so.5:/nsys/injection.so"
    monkeypatch.delenv("LD_PRELOAD")
    hybrid.preload("libomp.so.5")
    assert os.environ["LD_PRELOAD"] == "libomp.so.5"


def test_the_runtime_of_the_environment_comes_first(
    hybrid: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(hybrid, "find_library", {"iomp5": "libiomp5.so"}.get)
    assert hybrid.openmp_runtime() == "libiomp5.so"
    monkeypatch.setattr(hybrid, "find_library", {"omp": "libomp.so.5", "iomp5": "libiomp5.so"}.get)
    assert hybrid.openmp_runtime() == "libomp.so.5"
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libiomp5.so").touch()
    assert hybrid.openmp_runtime() == str(tmp_path / "lib" / "libiomp5.so")


def test_without_a_runtime_it_says_what_will_be_missing(
    hybrid: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    became: list[Any] = []
    monkeypatch.setattr(hybrid, "openmp_runtime", lambda: None)
    monkeypatch.setattr(hybrid, "become", lambda *arguments: became.append(arguments))
    monkeypatch.setattr(os, "environ", {})
    parser = experiment.make_parser("", hybrid.VARIANTS, counts=hybrid.COUNTS)
    hybrid.measure(parser.parse_args(["--built", "program"]))
    said = capsys.readouterr().err
    assert said.startswith("hybrid: no OpenMP events: install ")
    assert said.count("\n") == 1
    assert "LD_PRELOAD" not in os.environ
    assert len(became) == 1


def test_without_mpirun_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match="mpirun cannot be executed: No such file") as error:
        experiment.become("/cache/hybrid", ["gpu"], {}, ("mpirun", "-n", "2"))
    assert error.value.hint == "install mpirun"
    assert scenario.NEEDS["mpi"]().startswith("mpicxx and mpirun not found on PATH")


# The ranks, on their threads alone


def test_every_rank_is_timed(program: str, environment: dict[str, str]) -> None:
    done = run("--built", program, "--variant", "threads", *SMALL, env=environment)
    assert done.returncode == 0, done.stderr
    [line] = done.stdout.splitlines()
    result = json.loads(line)
    assert (result["scenario"], result["cells"], result["device"]) == ("hybrid", 20000, "none")
    assert [timing["range"] for timing in result["timings"]] == ["threads/rank 0", "threads/rank 1"]
    for rank, timing in enumerate(result["timings"]):
        assert (timing["operator"], timing["launches"]) == (f"rank {rank}", STEPS)
        assert len(timing["samples_us"]) == 3
        assert min(timing["samples_us"]) > 0


@pytest.mark.parametrize("ranks", ["1", "3"])
def test_any_number_of_ranks_and_cells_is_right(
    program: str, environment: dict[str, str], hybrid: ModuleType, ranks: str
) -> None:
    """The program checks its temperatures against those of one rank; a ring of three cells is all edges."""
    command = ["mpirun", "-n", ranks, program, "threads", "--cells", "1", "--threads", "3"]
    done = ran(command, env={**environment, **hybrid.OPEN_MPI}, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["timings"]) == int(ranks)


@pytest.mark.usefixtures("nsys")
def test_nsys_records_both_ranks_and_openmp_where_a_runtime_tells(
    program: str, hybrid: ModuleType, cli: Cli, tmp_path: Path
) -> None:
    options = hybrid.NSYS["threads"]
    more = [part for argument in options["extra"] for part in ("--nsys-arg", argument)]
    asked = ("--built", program, "--variant", "threads", *SMALL)
    done = cli("profile", "-o", "run", "--trace", options["trace"], *more, SCRIPT, *asked)
    assert done.returncode == 0, done.stderr
    found = counts(tmp_path / "run" / "report.sqlite")
    assert found["MPI_RANKS"] == 2
    assert found["MPI_P2P_EVENTS"] == 2 * 4 * STEPS + 2  # in a step, and the part that is dealt out
    assert found["OSRT_API"] > 0
    assert ("OPENMP_EVENT_KIND_PARALLEL" in found) == bool(hybrid.openmp_runtime())


# The recorded runs


@pytest.mark.parametrize("variant", ["threads", "gpu"])
def test_the_recorded_runs_have_every_call_of_both_ranks(variant: str, tmp_path: Path) -> None:
    folder = run_folder(f"hybrid/{variant}", tmp_path)
    result = measured(folder)
    steps = result["warmup"] + result["iterations"]
    frame = open_capture(folder).report("mpi_event_sum").frame
    calls = dict(zip(frame["name"], frame["instances"], strict=True))
    assert calls["MPI_Isend"] == calls["MPI_Irecv"] == 2 * 2 * steps
    assert calls["MPI_Barrier"] == 2 * steps
    assert calls["MPI_Send"] == calls["MPI_Recv"] == 1


@pytest.mark.parametrize("variant", ["threads", "gpu"])
def test_the_recorded_runs_have_what_openmp_and_the_system_did(variant: str, tmp_path: Path) -> None:
    capture = open_capture(run_folder(f"hybrid/{variant}", tmp_path))
    assert {"Parallel Region", "Critical Region"} <= set(capture.report("openmp_sum").frame["name"])
    assert len(capture.report("osrt_sum").frame) > 0


def test_of_the_recorded_runs_only_gpu_has_kernels(tmp_path: Path) -> None:
    found = {}
    for variant in scenario.find_scenario("hybrid").variants:
        folder = run_folder(f"hybrid/{variant}", tmp_path)
        result = measured(folder)
        found[variant] = open_capture(folder).count("kernel") / (result["warmup"] + result["iterations"])
    assert found == {"threads": 0, "gpu": 2}
