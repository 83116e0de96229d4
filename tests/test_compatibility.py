"""What earlier versions wrote is read, and a format changes at most once between two releases."""

import csv
import importlib
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from checkouts import ROOT
from conftest import Cli
from ran import ran
from recorded import SHIPPED
from releases import BASELINE, BATCH, EXITS, GPU, NAMES, NVTX, OPTIONS, PLAN, SWEEP, VERSIONS, unpacked
from sampled import sample

from nsyswrap.base import version
from nsyswrap.base.run_folder import EXPORT
from nsyswrap.reports import find_report

NONE = SHIPPED / "add2" / "none"
# The formats of the newest release. The first change after it raises a format, no other until the next one.
RELEASE = "0.3.0"
RELEASED = {
    "nsyswrap.cli.doctor.VERSION": 1,
    "nsyswrap.render.formats.json.VERSION": 3,
    "nsyswrap.reports.answer.VERSION": 1,
    "nsyswrap.reports.brief.VERSION": 1,
    "nsyswrap.reports.compare.as_data.VERSION": 1,
    "nsyswrap.reports.compare.baseline.FORMAT": 1,
    "nsyswrap.reports.runs.digest.FORMAT": 3,
}
NUMBER = re.compile(r"^(?:FORMAT, )?(FORMAT|VERSION) = (?:\S+, )?\d+\b", re.MULTILINE)


@pytest.fixture(params=sample(VERSIONS, VERSIONS[:1]))  # the oldest has the most differences
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The folder for runs, with what a version wrote."""
    return unpacked(request.param, tmp_path / "nsyswrap-runs")


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return [*csv.DictReader(file)]


def printed(cli: Cli, *arguments: str | Path) -> str:
    done = cli(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_newest_release_is_there() -> None:
    """From the commit after it on; CONTRIBUTING.md says how."""
    newest = re.search(r"^## \[([\d.]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest
    assert newest[1] in (RELEASE, version.RELEASE)
    assert {"0.1.0", "0.2.0", RELEASE} <= set(VERSIONS)


def test_a_run_is_reported(old: Path, cli: Cli) -> None:
    assert "NVTX ranges: step" in printed(cli, "report", old / NVTX)
    table = printed(cli, "report", old / NVTX, "-r", "nvtx_sum", "--format", "csv")
    assert [row["Instances"] for row in csv.DictReader(table.splitlines())] == ["5", "5"]
    assert "GPU busy 12 % of the steady part" in printed(cli, "report", old / GPU)


def test_a_run_is_viewed_and_listed(old: Path, cli: Cli, tmp_path: Path) -> None:
    printed(cli, "view", old / GPU, "-o", "gpu.html")
    assert "add2_kernel" in (tmp_path / "gpu.html").read_text()
    lines = [line.split() for line in printed(cli, "runs").splitlines()]
    assert {words[-1] for words in lines[1:]} >= {f"nsyswrap-runs/{name}" for name in (NVTX, GPU, BATCH)}


def test_runs_are_compared(old: Path, cli: Cli) -> None:
    comparison = json.loads(printed(cli, "compare", old / GPU, NONE, "--anyway", "--format", "json"))
    assert (comparison["headline"]["group"], comparison["headline"]["change_percent"]) == ("step", 0)
    assert comparison["base"]["runs"][0]["setup"]["options"] == "--trace=nvtx"  # of run.json


def test_a_baseline_is_saved_and_read(old: Path, cli: Cli, tmp_path: Path) -> None:
    printed(cli, "baseline", "save", "b.json", old / GPU)
    assert "b.json" in printed(cli, "baseline", "list", tmp_path)
    for path in (tmp_path / "b.json", *old.glob(BASELINE)):
        assert "add2_kernel" in printed(cli, "baseline", "show", path)
        made = json.loads(printed(cli, "compare", path, old / GPU, "--anyway", "--format", "json"))
        assert made["headline"]["change_percent"] == pytest.approx(0, abs=0.001)


def test_each_version_that_has_them_wrote_a_baseline(tmp_path: Path) -> None:
    with_one = [name for name in VERSIONS if (unpacked(name, tmp_path / name) / BASELINE).exists()]
    assert with_one == [name for name in VERSIONS if name not in ("0.1.0", "0.2.0")]


def test_a_batch_is_shown_and_collected_from_its_digests(old: Path, cli: Cli, tmp_path: Path) -> None:
    assert len(printed(cli, "batch", "run", old / PLAN, "-o", "new", "--dry-run").splitlines()) == 18
    assert "3 runs: 1 done, 1 program failed, 1 planned" in printed(cli, "batch", "status", old / BATCH)
    printed(cli, "collect", old / BATCH, "-o", "out")
    assert not [*old.glob(f"{BATCH}/**/{EXPORT}")]
    found = [(row["code"], row["outcome"], row["kernels"]) for row in rows(tmp_path / "out/results.csv")]
    assert found == [("0", "done", "44"), ("3", "program_failed", "44"), ("4", "planned", "")]
    before, now = ((path / "results.csv").read_text() for path in (old / BATCH, tmp_path / "out"))
    assert now.startswith(before.partition("\n")[0])
    [add2] = [row for row in rows(tmp_path / "out/kernels.csv") if "add2" in row["name"]]
    assert (add2["instances"], add2["total_ns"]) == ("22", "110782")


@pytest.mark.usefixtures("nsys")
def test_a_batch_is_continued(old: Path, environment: dict[str, str]) -> None:
    """Its third run was not begun, and its first one has the digest of another capture than lies there."""
    batch, done = old / BATCH, old / BATCH / "runs" / "00001-code=0"
    shutil.copy(SHIPPED / "add" / "grid" / EXPORT, done)
    before = {path.name: path.read_bytes() for path in done.iterdir()}
    command = [sys.executable, "-m", "nsyswrap", *SWEEP, "-o", str(batch), "--", *EXITS]
    said = ran(command, cwd="/", env=environment).stderr
    assert "3 runs planned, 1 done, 1 program failed; 1 to run" in said
    assert "3 runs: 2 program failed, 1 done" in said
    assert {path.name: path.read_bytes() for path in done.iterdir()} == before
    assert {folder.stat().st_mode & 0o777 for folder in (batch, *batch.glob("runs/*"))} == {0o700}
    [row] = [row for row in rows(batch / "results.csv") if row["code"] == "0"]
    assert (row["outcome"], row["kernels"]) == ("done", "1")


def names(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / NAMES).read_text()))


def test_options_and_names_of_python_are_kept(old: Path, cli: Cli, environment: dict[str, str]) -> None:
    done = ran([sys.executable, "-c", OPTIONS], env=environment, check=True)
    made, now = names(old), json.loads(done.stdout)
    assert len(made["options"]) > 10
    for command, options in made["options"].items():
        if command in now["options"]:
            assert set(options) <= set(now["options"][command]), command
        else:  # it is hidden
            printed(cli, *command.split()[1:], "--help")
    assert set(made["python"]) <= set(now["python"])


@pytest.mark.parametrize("release", VERSIONS[1:])
def test_columns_are_kept_and_new_ones_come_last(release: str, tmp_path: Path) -> None:
    """Version 0.2.0 gave some columns of 0.1.0 other names."""
    for name, columns in names(unpacked(release, tmp_path))["columns"].items():
        found = [[column.name, column.header] for column in find_report(name).columns]
        assert found[: len(columns)] == columns


def test_a_format_is_raised_once_between_two_releases() -> None:
    for name, released in RELEASED.items():
        module, _, attribute = name.rpartition(".")
        assert getattr(importlib.import_module(module), attribute) in (released, released + 1), name


def test_every_format_is_in_the_table() -> None:
    found = {
        f"{'.'.join(path.relative_to(ROOT).with_suffix('').parts).removesuffix('.__init__')}.{match[1]}"
        for path in (ROOT / "nsyswrap").rglob("*.py")
        for match in NUMBER.finditer(path.read_text(encoding="utf-8"))
    }
    assert found == RELEASED.keys()
