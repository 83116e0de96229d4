"""Every kind of file that has room for it names the exact version that wrote it."""

import json
import shutil
from pathlib import Path

import pytest
from conftest import Cli
from made_runs import made_side
from PIL import Image
from recorded import SHIPPED
from sampled import sampled

from nsyswrap.base.run_folder import BATCH, DIGEST, RUN
from nsyswrap.base.version import version
from nsyswrap.record.batch.folder import make_batch
from nsyswrap.record.batch.plan import read_plan
from nsyswrap.reports.compare.baseline import baseline_text
from nsyswrap.reports.runs.digest import write_digest

BOTH = SHIPPED / "add2" / "both"
PLAN = '[[runs]]\ncommand = "train.py"\n'
COMMANDS = {
    "report.json": ("report", BOTH, "--format", "json"),
    "report.parquet": ("report", BOTH, "-r", "cuda_gpu_sum", "--format", "parquet"),
    "view.html": ("view", BOTH),
    "trace.pftrace": ("export", BOTH, "--perfetto"),
    "trace.json": ("export", BOTH, "--perfetto"),
    "metrics.txt": ("export", BOTH, "--metrics", "openmetrics"),
    "metrics.json": ("export", BOTH, "--metrics", "github-benchmark"),
    "baseline.json": ("baseline", "save"),
    "compare.json": ("compare", BOTH, SHIPPED / "add2" / "none", "--anyway", "--format", "json"),
    "compare.html": ("compare", BOTH, SHIPPED / "add2" / "none", "--anyway", "--view"),
    "history.html": ("baseline", "history", "a.json", "b.json"),
}
NAMED_LAST = ("--perfetto", "--view", "save")


@sampled("name", COMMANDS, fast=5)
def test_what_a_command_writes(name: str, cli: Cli, tmp_path: Path) -> None:
    for number, point in enumerate("ab"):
        (tmp_path / f"{point}.json").write_text(baseline_text(made_side(seed=number)))
    words = [*COMMANDS[name], *(() if COMMANDS[name][-1] in NAMED_LAST else ("-o",)), name]
    done = cli(*words, *((BOTH,) if "save" in words else ()))
    assert done.returncode == 0, done.stderr
    content = (tmp_path / name).read_bytes()
    assert version().encode() in content


def test_doctor(cli: Cli) -> None:
    doctor = json.loads(cli("doctor", BOTH, "--json").stdout)
    assert doctor["tool"] == {"name": "nsyswrap", "version": version()}


def test_events(cli: Cli, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    assert cli("export", BOTH, "--parquet", "events").returncode == 0
    paths = [*(tmp_path / "events").glob("**/*.parquet")]
    assert len(paths) > 3
    assert [path for path in paths if version().encode() not in path.read_bytes()] == []


def test_pictures(cli: Cli, tmp_path: Path) -> None:
    for form in ("png", "svg", "pdf"):
        done = cli("plot", BOTH, "--kind", "copies", "-o", ".", "--format", form)
        assert done.returncode == 0, done.stderr
    with Image.open(tmp_path / "copies.png") as picture:
        assert picture.info["Software"] == f"nsyswrap {version()}"
    for form in ("svg", "pdf"):
        assert f"nsyswrap {version()}".encode() in (tmp_path / f"copies.{form}").read_bytes()


def test_batches_and_digests(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    (tmp_path / "train.py").write_text("")
    make_batch(tmp_path / "batch", read_plan(tmp_path / "plan.toml"))
    assert json.loads((tmp_path / "batch" / BATCH).read_text())["nsyswrap"] == version()
    run = shutil.copytree(BOTH, tmp_path / "run")
    write_digest(run)
    assert json.loads((run / DIGEST).read_text())["nsyswrap"] == version()


@pytest.mark.usefixtures("nsys")
def test_a_run(cli: Cli, tmp_path: Path) -> None:
    done = cli("profile", "--trace", "nvtx", "--no-stats", "-o", "run", "true")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "run" / RUN).read_text())["nsyswrap"] == version()


@pytest.mark.usefixtures("nsys")
def test_a_run_of_a_batch_without_nsys(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text('[[runs]]\ncommand = ["true"]\nprofiled = false\n')
    cli("batch", "run", "plan.toml", "-o", "batch")
    [run] = (tmp_path / "batch").glob(f"runs/*/{RUN}")
    assert json.loads(run.read_text())["nsyswrap"] == version()
