"""Running scenarios with the real nsys: scripts of the test's own, which need no GPU."""

import csv
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from conftest import InProcess

from nsyswrap.base.errors import OutputError, ScenarioFailed, Unavailable, UsageError
from nsyswrap.base.run_folder import EXPORT, SCENARIO_FILES, RunFolder
from nsyswrap.cli import main
from nsyswrap.cli.scenarios import closing_tables, run_variants
from nsyswrap.record import scenarios
from nsyswrap.record.gpus import Devices

pytestmark = pytest.mark.usefixtures("nsys")

GOOD = """\"""Sleep.

What to look for in nsyswrap's output: nothing.
\"""
import argparse, json, pathlib
import nvtx
from nsyswrap.record.in_program.script import under_nsys

VARIANTS = ("recorded", "by itself")
ALONE = ("by itself",)
KEEPS = ("by itself",)
NEEDS = ()
LOOK_FOR = "a range."

def build(): ...

parser = argparse.ArgumentParser()
for name in ("--variant", "--built", "--extra", "--keep"):
    parser.add_argument(name)
parser.add_argument("--build", action="store_true")
options = parser.parse_args()
if options.build:
    print("a note")
    print("/what was/built")
else:
    with nvtx.annotate(f"{options.variant}/sleep"):
        pass
    if options.keep:
        print("a table of its own")
        pathlib.Path(options.keep).mkdir()
        pathlib.Path(options.keep, "trace.json").touch()
    timing = {"range": f"{options.variant}/sleep", "operator": "sleep", "median_us": 1.5, **vars(options)}
    print(json.dumps({"timings": [{**timing, "under_nsys": under_nsys()}]}))
"""
FAILS = """\"""Fail.\"""
import sys

VARIANTS = ("early", "late")
NEEDS = ()
LOOK_FOR = "the exit code."

sys.exit(3 if "early" in sys.argv else 0)
"""
LACKS = """\"""Need two GPUs.\"""
VARIANTS = ("one",)
NEEDS = ("gpus",)
LOOK_FOR = "nothing."
"""


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three scripts in place of the shipped ones, on a machine that has one GPU to the eye."""
    folder = tmp_path / "scenarios"
    folder.mkdir()
    for name, text in (("good", GOOD), ("fails", FAILS), ("lacks", LACKS)):
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(scenarios, "_shipped", lambda _: folder)
    monkeypatch.setattr(scenarios, "_devices", lambda: Devices(names=("a GPU",)))
    return folder


@pytest.fixture
def command(in_process: InProcess) -> InProcess:
    """`nsyswrap scenarios run ARGUMENTS` in this process, which knows the scripts of the test."""
    return partial(in_process, "scenarios", "run")


def said(folder: Path) -> dict[str, object]:
    [timing] = scenarios.measured(folder)["timings"]
    return dict(timing)


@pytest.mark.usefixtures("scripts")
def test_every_variant_has_a_run_folder_and_those_alone_no_report(tmp_path: Path) -> None:
    found = scenarios.find_scenario("good")
    folders = run_variants(found, found.variants, tmp_path / "runs", ("--extra", "x y"))
    recorded, alone = folders["recorded"], folders["by itself"]
    assert said(recorded)["under_nsys"] is True
    assert said(alone)["under_nsys"] is False
    assert (recorded / EXPORT).exists()
    assert not (alone / EXPORT).exists()
    assert [path.name for path in (alone / SCENARIO_FILES).iterdir()] == ["trace.json"]
    assert not (recorded / SCENARIO_FILES).exists()
    for folder in (recorded, alone):
        assert RunFolder(folder).read_status().outcome == "done"
        assert (said(folder)["built"], said(folder)["extra"]) == ("/what was/built", "x y")


@pytest.mark.usefixtures("scripts")
def test_a_variant_without_nsys_has_its_own_time_and_none_of_nsys(tmp_path: Path) -> None:
    found = scenarios.find_scenario("good")
    [table] = closing_tables(found, run_variants(found, found.variants, tmp_path / "runs"))
    assert [row[:4] for row in table.rows()] == [
        ("recorded", "sleep", 1500.0, None),  # no API call: nothing to tell launches from
        ("by itself", "sleep", 1500.0, None),
    ]


@pytest.mark.usefixtures("scripts")
@pytest.mark.parametrize("variant", ["recorded", "by itself"])
def test_a_run_that_is_there_is_not_written_over(tmp_path: Path, variant: str) -> None:
    found = scenarios.find_scenario("good")
    run_variants(found, (variant,), tmp_path / "runs")
    with pytest.raises(OutputError, match="exists and is not empty"):
        run_variants(found, (variant,), tmp_path / "runs")
    (tmp_path / "runs" / variant / SCENARIO_FILES).mkdir(exist_ok=True)
    (tmp_path / "runs" / variant / SCENARIO_FILES / "old.json").touch()
    run_variants(found, (variant,), tmp_path / "runs", force=True)
    assert not list(tmp_path.glob("**/old.json"))


@pytest.mark.usefixtures("scripts")
def test_a_variant_that_fails_ends_the_scenario_with_its_code(tmp_path: Path) -> None:
    with pytest.raises(ScenarioFailed, match="fails early: ") as raised:
        run_variants(scenarios.find_scenario("fails"), ("early", "late"), tmp_path / "runs")
    assert raised.value.exit_code == 3
    assert not (tmp_path / "runs" / "late").exists()


@pytest.mark.usefixtures("scripts")
def test_what_is_lacking_is_told_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="two GPUs are needed; this machine has 1") as error:
        run_variants(scenarios.find_scenario("lacks"), ("one",), tmp_path / "runs")
    assert "nsyswrap doctor" in error.value.hint
    with pytest.raises(UsageError, match="no variant named 'two'"):
        run_variants(scenarios.find_scenario("lacks"), ("two",), tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_the_list_says_once_what_is_missing(scripts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    some = LACKS.replace('("one",)', '("none", "some")')
    some = some.replace('NEEDS = ("gpus",)', 'NEEDS = ()\nVARIANT_NEEDS = {"some": ("gpus",)}')
    (scripts / "more.py").write_text(LACKS, encoding="utf-8")
    (scripts / "some.py").write_text(some, encoding="utf-8")
    with pytest.raises(SystemExit):
        main(["scenarios", "list"])
    listed = capsys.readouterr().out
    assert "two GPUs are needed; this machine has 1: lacks, more, some some\n" in listed
    assert listed.count("two GPUs are needed") == 1


@pytest.mark.usefixtures("scripts")
def test_what_a_variant_prints_and_keeps_is_named(tmp_path: Path, command: InProcess) -> None:
    done = command("good", "--variant", "by itself", "-o", tmp_path / "good")
    assert done.code == 0
    assert "\n\nby itself printed:\n\na table of its own\n\nLook for: a range." in done.out
    assert f"files kept  {tmp_path}/good/by itself/{SCENARIO_FILES}/\n" in done.err
    assert "look closer" not in done.err  # there is no capture


def table_of_runs(folder: Path) -> list[dict[str, str]]:
    with (folder / "scenario_runs.csv").open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.usefixtures("scripts")
def test_all_runs_what_it_can_and_says_the_rest(tmp_path: Path, command: InProcess) -> None:
    done = command("all", "-o", tmp_path / "all")
    assert done.code == 1  # one failed
    rows = [(row["scenario"], row["variant"], row["outcome"]) for row in table_of_runs(tmp_path / "all")]
    assert [(scenario, variant, outcome.partition(":")[0]) for scenario, variant, outcome in rows] == [
        ("fails", "early", "failed"),
        ("fails", "late", "done"),
        ("good", "recorded", "done"),
        ("good", "by itself", "done"),
        ("lacks", "one", "skipped"),
    ]
    assert rows[-1][2] == "skipped: two GPUs are needed; this machine has 1"
    assert "1 of 5 runs failed: fails early" in done.err
    assert "lacks is skipped: two GPUs are needed; this machine has 1" in done.err
    assert "by itself printed:\n\na table of its own\n\nLook for: a range." in done.out


@pytest.mark.usefixtures("scripts")
def test_the_index_names_every_run_folder_and_shows_every_table(tmp_path: Path, command: InProcess) -> None:
    command("all", "-o", tmp_path / "all")
    index = (tmp_path / "all" / "index.md").read_text(encoding="utf-8")
    assert "| good | recorded | done | good/recorded/ |" in index
    assert "| lacks | one | skipped: two GPUs are needed; this machine has 1 |  |" in index
    assert "timing_by_variant" in index
    assert json.loads((tmp_path / "all" / "good" / "by itself" / "status.json").read_text())["exit_code"] == 0


@pytest.mark.parametrize("more", [["--variant", "x"], ["--cross-check"], ["--csv", "x"], ["--", "--n", "1"]])
def test_all_takes_no_choice(more: Sequence[str], command: InProcess) -> None:
    done = command("all", *more)
    assert done.code == 2
    assert "cannot be used with `all`" in done.err


@pytest.mark.usefixtures("scripts")
def test_all_writes_over_nothing(tmp_path: Path, command: InProcess) -> None:
    (tmp_path / "all").mkdir()
    (tmp_path / "all" / "mine").touch()
    done = command("all", "-o", tmp_path / "all")
    assert done.code == 73
    assert "exists and is not empty" in done.err
    assert [path.name for path in (tmp_path / "all").iterdir()] == ["mine"]
    done = command("all", "-o", tmp_path / "all" / "mine", "--force")
    assert (done.code, done.out) == (73, "")
    assert "mine is not a folder" in done.err


def test_what_was_run_before_an_interruption_is_in_the_index(
    tmp_path: Path, scripts: Path, command: InProcess
) -> None:
    text = FAILS.replace('3 if "early"', '130 if "late"')
    (scripts / "interrupts.py").write_text(text, encoding="utf-8")
    done = command("all", "-o", tmp_path / "all")
    assert done.code == 130
    last = table_of_runs(tmp_path / "all")[-1]
    assert (last["scenario"], last["variant"], last["outcome"]) == ("interrupts", "early", "done")
