"""``nsyswrap demo``: with a GPU it runs the scenarios, without one it shows them as recorded."""

import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from conftest import Cli
from recorded import SHIPPED

from nsyswrap.cli import cli as nsyswrap
from nsyswrap.cli import demo
from nsyswrap.record.scenarios import Scenario

LINES, WIDTH = 45, 80  # at most


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that can run the scenarios: what they record here is what was recorded on a GPU."""

    def run_variants(scenario: Scenario, variants: tuple[str, ...], folder: Path) -> dict[str, Path]:
        shutil.copytree(SHIPPED / scenario.name, folder)
        return {variant: folder / variant for variant in variants}

    monkeypatch.setattr("nsyswrap.cli.scenarios.run_variants", run_variants)
    monkeypatch.setattr(demo, "_lacks", list)


def test_without_a_gpu_it_is_short_and_says_why_on_stderr(cli: Cli) -> None:
    done = cli("demo", COLUMNS="200", NSYSWRAP_NSYS="/missing/nsys")
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert lines[0] == "Recorded on an NVIDIA H200, not run on this machine."
    assert "/missing/nsys" in done.stderr
    assert len(lines) <= LINES
    assert max(map(len, lines[:-3])) <= WIDTH  # the last three have the path of this checkout


def test_the_commands_to_type_next_work(cli: Cli) -> None:
    *_, first, second, third = cli("demo").stdout.splitlines()
    for line in (first, second, third):
        _, _, arguments = line.partition("nsyswrap ")  # before it stands how Python was started
        assert cli(*shlex.split(arguments)).returncode == 0, line


@pytest.mark.usefixtures("gpu")
def test_with_a_gpu_the_runs_of_this_machine_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(nsyswrap, ["demo", "-o", "mine"])
    assert done.stdout.startswith("Run on this machine.\n")
    assert done.stdout.endswith("  nsyswrap view mine/add2/none\n")


@pytest.mark.usefixtures("gpu")
def test_without_a_folder_the_runs_lie_where_runs_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(nsyswrap, ["demo"]).exit_code == 0
    assert [path.parent.name for path in tmp_path.glob("*/*")] == ["nsyswrap-runs"]
