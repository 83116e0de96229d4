"""`nsyswrap compare`: sides on the command line, exit codes, formats, and what a run a side may say."""

import csv
import io
import json
import shutil
from functools import partial
from pathlib import Path

import pytest
import recorded
from compared_runs import make_repeats, make_run
from conftest import Cli, InProcess
from jsonschema import validate
from recorded import ROOT
from tiny_export import call, kernel, write

from nsyswrap.api import NotebookComparison, compare
from nsyswrap.base.errors import CaptureError
from nsyswrap.base.run_folder import RUN

SCHEMA = json.loads((ROOT / "docs" / "compare.schema.json").read_text("utf-8"))
BEFORE, AFTER = (400, 401, 399), (440, 441, 439)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_process: InProcess) -> InProcess:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return partial(in_process, "compare")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Three runs before and after a kernel became 10 % slower."""
    make_repeats(tmp_path / "before", BEFORE)
    make_repeats(tmp_path / "after", AFTER)
    return tmp_path


@pytest.mark.usefixtures("runs")
def test_a_slower_program(here: InProcess) -> None:
    code, out, err = here("before", "after")
    assert not code, err
    verdict, cause, *_ = out.splitlines()
    assert verdict.startswith("Slower: step 'step' 430 → 470 µs, +9.3 % (between +")
    assert cause.startswith("Nearly all of it: kernel add, grid 1 1 1, block 1 1 1: +4")
    assert "base: before (3 runs)" in out
    assert "Launches: 20 on both sides" in out


@pytest.mark.usefixtures("runs")
def test_a_faster_program_and_the_same_one(here: InProcess) -> None:
    assert here("after", "before")[1].startswith("Faster: step 'step' 470 → 430 µs, -8.5 %")
    code, out, _ = here("before/run-1", "before/run-2", "--", "before/run-3", "--max-slower", "20%")
    assert not code
    verdict, second, *_ = out.splitlines()
    assert verdict.startswith("No verdict: step 'step' 430 → 429 µs, -0.3 %; 2 and 1 runs")
    assert second.startswith("For a verdict make 3 runs a side")


@pytest.mark.usefixtures("runs")
def test_one_run_a_side_gets_no_verdict(here: InProcess) -> None:
    code, out, _ = here("before/run-1", "after/run-1/report.sqlite")
    assert not code
    assert out.startswith("One run a side cannot tell noise from change: step 'step' 430 → 470 µs, +9.3 %")
    assert "slower" not in out.lower()


@pytest.mark.usefixtures("runs")
def test_the_formats(here: InProcess, tmp_path: Path) -> None:
    code, out, _ = here("before", "after", "--format", "json")
    data = json.loads(out)
    validate(data, SCHEMA)
    assert (code, data["outcome"], len(data["base"]["runs"])) == (0, "slower", 3)
    assert (data["headline"]["name"], data["gate"]) == ("'step'", None)
    code, out, _ = here("before", "after", "--format", "json", "--gate")
    validate(data := json.loads(out), SCHEMA)
    assert (code, data["gate"]["verdict"]) == (1, "slower")
    assert data["gate"]["conclusion"].startswith("FAIL: 2 of 2 rows slower by more than 5 %")
    rows = list(csv.DictReader(io.StringIO(here("before", "after", "--format", "csv")[1])))
    assert [row["group"] for row in rows] == [row["group"] for row in data["rows"]]
    assert here("before", "after", "--format", "markdown")[1].startswith("**Slower: step 'step'")
    code, out, err = here("before", "after", "-o", "screen.txt")
    assert (out, err) == ("", "wrote screen.txt\n")
    assert (tmp_path / "screen.txt").read_text("utf-8").startswith("Slower: ")


@pytest.mark.usefixtures("runs")
def test_limits_decide_what_is_slower(here: InProcess) -> None:
    assert here("before", "after", "--max-slower", "15%")[1].startswith("Same within 15 %: ")
    assert here("before", "after", "--min-time", "10ms")[1].splitlines()[0].endswith("under 10.0 ms a run")
    code, _, err = here("before", "after", "--max-slower", "much")
    assert (code, err.splitlines()[0]) == (
        2,
        "nsyswrap: invalid --max-slower 'much': expected a percentage such as 5%",
    )
    assert here("before", "after", "--min-time", "10")[0] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a", "b", "c"), "3 paths without --: not clear where the base ends"),
        (("a",), "NEW is missing"),
        ((), "BASE is missing"),
        (("--", "a"), "BASE is missing"),
        (("a", "--"), "NEW is missing"),
        (("a", "--", "b", "--", "c"), "more than one --"),
    ],
)
def test_sides_that_are_not_clear(here: InProcess, arguments: tuple[str, ...], message: str) -> None:
    code, out, err = here(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"nsyswrap: {message}\n  ")


@pytest.mark.usefixtures("runs")
def test_a_run_on_both_sides(here: InProcess) -> None:
    code, _, err = here("before", "before/run-2")
    assert code == 2
    assert "run-2 is on both sides" in err


@pytest.mark.usefixtures("runs")
def test_a_quoted_pattern_is_a_side(here: InProcess) -> None:
    code, out, err = here("before/run-*", "after/run-*")
    assert not code, err
    assert "base: before/run-* (3 runs)" in out


def test_another_command_is_refused_and_judged_anyway(here: InProcess, tmp_path: Path) -> None:
    make_repeats(tmp_path / "before", BEFORE)
    make_repeats(tmp_path / "after", AFTER)
    for run in (tmp_path / "after").iterdir():
        facts = json.loads((run / RUN).read_text())
        (run / RUN).write_text(json.dumps({**facts, "command": ["python3", "train.py", "--fast"]}))
    code, out, err = here("before", "after")
    assert (code, out) == (65, "")
    assert err.splitlines() == [
        "nsyswrap: BASE and NEW cannot be compared:",
        "  command: python3 train.py → python3 train.py --fast",
        "  --anyway compares them nevertheless",
    ]
    code, out, _ = here("before", "after", "--anyway")
    assert not code
    assert out.splitlines()[0] == "Besides your change, these differ:"
    assert out.splitlines()[2].startswith("Slower: ")


def test_a_damaged_run_is_noted(here: InProcess, tmp_path: Path) -> None:
    make_repeats(tmp_path / "before", BEFORE)
    make_run(tmp_path / "after")
    (tmp_path / "before" / "run-2" / "report.sqlite").write_bytes(b"no database")
    code, out, err = here("before", "after")
    assert code == 65
    assert "nsyswrap: left out: run-2: " in err
    assert out.startswith("left out of base: run-2: before/run-2/report.sqlite is not a capture: ")
    assert "base: before (2 runs)" in out
    code, out, _ = here("before", "after", "--format", "json")
    validate(data := json.loads(out), SCHEMA)
    [left_out] = data["left_out"]
    assert (code, left_out["side"], left_out["path"]) == (65, "base", "before/run-2")
    assert here("before", "after", "--format", "markdown")[1].startswith("Left out:\n- base: run-2: ")
    here("before", "after", "--view", "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert 0 < page.index("base: run-2: ") < page.index('class="answer-verdict"')
    (tmp_path / "after" / "report.sqlite").write_bytes(b"no database")
    assert here("before", "after")[0] == 65
    assert here("missing", "after")[0] == 65


def test_python_names_what_is_left_out(tmp_path: Path) -> None:
    before, after = make_repeats(tmp_path / "before", BEFORE), make_repeats(tmp_path / "after", AFTER)
    (after / "run-2" / "report.sqlite").write_bytes(b"no database")
    made = compare(before, after)
    [left_out] = made.left_out
    assert (left_out.label, left_out.exit_code) == ("run-2", 65)
    assert repr(made).startswith("left out of new: run-2:")


def test_python(tmp_path: Path) -> None:
    before, after = make_repeats(tmp_path / "before", BEFORE), make_repeats(tmp_path / "after", AFTER)
    made = compare(before, [after / f"run-{n}" for n in (1, 2, 3)])
    assert isinstance(made, NotebookComparison)
    assert (made.outcome, made.obstacles) == ("slower", ())
    assert repr(made).startswith("Slower: step 'step'")
    frame = made.table.frame
    assert {"group", "cost_ns", "outcome"} <= set(frame.columns)
    assert len(frame) == len(made.pairs)
    assert compare(before, after, max_slower=0.15).outcome == "same"
    with pytest.raises(CaptureError):
        compare(before, tmp_path / "missing")


@pytest.mark.parametrize(
    ("base", "new", "begins"),
    [
        ("gelu/torch", "gelu/triton", "step 'triton/gelu' 57.0"),
        ("graphs/eager", "graphs/nodes", "step (one CUDA graph) 536"),
        ("rules/careful", "rules/wasteful", "first to last GPU operation 860"),
    ],
)
def test_recorded_captures(here: InProcess, tmp_path: Path, base: str, new: str, begins: str) -> None:
    for name in (base, new):
        shutil.copytree(recorded.run_folder(name, tmp_path / "unpacked"), tmp_path / Path(name).name)
    code, out, err = here(Path(base).name, Path(new).name, "--anyway")
    assert not code, err
    assert f"One run a side cannot tell noise from change: {begins}" in " ".join(out.split())
    assert "Kernels, per " in out
    assert max(map(len, out.splitlines())) <= 100


def test_the_screen_fits_a_terminal_without_utf8(tmp_path: Path, cli: Cli) -> None:
    make_run(tmp_path / "before")
    make_run(tmp_path / "after", 44)
    done = cli("compare", "before", "after", COLUMNS="60", LC_ALL="C", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert "->" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 60


def test_cells_of_csv_are_guarded_when_asked(here: InProcess, tmp_path: Path) -> None:
    for name in ("before", "after"):
        rows = (call("cudaLaunchKernel", 0, 5, 1), kernel("=1+1\n::error::x", 20, 30, 1))
        write(tmp_path / f"{name}.sqlite", *rows)
    plain = here("before.sqlite", "after.sqlite", "--anyway", "--format", "csv")[1]
    safe = here("before.sqlite", "after.sqlite", "--anyway", "--format", "csv", "--csv-safe")[1]
    assert "\n::error::x" in plain
    assert "'=1+1\\n::error::x" in safe
    assert here("before.sqlite", "after.sqlite", "--anyway", "--csv-safe")[0] == 2
