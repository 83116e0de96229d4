"""`nsyswrap baseline`: what is saved, where, what is shown of it, and comparing with it."""

import json
from pathlib import Path

import pytest
import recorded
from conftest import InProcess
from made_runs import made_side
from tiny_export import call, kernel, write

from nsyswrap.base.run_folder import EXPORT
from nsyswrap.base.version import version
from nsyswrap.reports.compare.baseline import baseline_text, read_baseline

CAPTURE = str(recorded.SHIPPED / "add" / "grid" / EXPORT)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_process: InProcess) -> InProcess:
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    return in_process


def saved(path: Path, *, factor: float = 1.0, seed: int = 0, runs: int = 5) -> str:
    path.parent.mkdir(exist_ok=True)
    side = made_side(path.stem, runs, seed=seed, factors={"": factor})
    path.write_text(baseline_text(side))
    return str(path)


def test_a_name_is_a_file_in_the_folder_of_baselines(tmp_path: Path, run: InProcess) -> None:
    done = run("baseline", "save", "main", CAPTURE)
    assert done.code == 0, done.err
    path = tmp_path / "nsyswrap-baselines" / "main.json"
    assert (
        f"saved nsyswrap-baselines/main.json: 1 run, 1 kernel, {path.stat().st_size / 1000:.2f} kB"
        in done.err
    )
    assert "1 run: a verdict needs 3 runs a side, better 5" in done.err
    side = read_baseline(path)
    assert side.name == "main"
    assert [key.name for key in side.runs[0].rows if key.group == "kernel"]
    again = run("baseline", "save", "main", CAPTURE)
    assert again.code == 73
    assert "nsyswrap-baselines/main.json already exists" in again.err
    assert run("baseline", "save", "main", CAPTURE, "--force").code == 0


def test_saving_runs_that_differ_says_what_comparisons_will_refuse(run: InProcess) -> None:
    done = run("baseline", "save", "mixed.json", str(recorded.SHIPPED / "add" / "1x1"), CAPTURE)
    assert done.code == 0, done.err
    assert "nsyswrap: command: python3 add.py --variant 1x1" in done.err
    assert "  comparisons with this baseline will be refused without --anyway\n" in done.err


def test_a_baseline_compares_with_the_run_that_it_was_saved_from(run: InProcess) -> None:
    assert run("baseline", "save", "here.json", CAPTURE).code == 0
    done = run("compare", "here.json", CAPTURE, "--format", "json")
    assert done.code == 0, done.err
    assert "nsyswrap: 1 run on both sides: " in done.err
    rows = json.loads(done.out)["rows"]
    assert rows
    assert [
        row["name"] for row in rows if row["base_count"] != row["new_count"] or abs(row["cost_ns"]) > 0.5
    ] == []


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("a/b", 2, "invalid name 'a/b'"),
        ("package.json", 73, "package.json is not a baseline; it is not replaced"),
    ],
)
def test_other_names_and_files_are_refused(
    name: str, code: int, message: str, tmp_path: Path, run: InProcess
) -> None:
    (tmp_path / "package.json").write_text('{"name": "x"}')
    done = run("baseline", "save", name, CAPTURE, "--force")
    assert (done.code, message in done.err) == (code, True), done.err
    assert (tmp_path / "package.json").read_text() == '{"name": "x"}'


def test_the_list_has_a_line_for_each_and_names_damaged_ones(tmp_path: Path, run: InProcess) -> None:
    nothing = run("baseline", "list")
    assert (nothing.code, nothing.out) == (0, "")
    assert "no baselines in nsyswrap-baselines/" in nothing.err
    folder = tmp_path / "nsyswrap-baselines"
    saved(folder / "main.json")
    (folder / "other.json").write_text("{}")
    lines = run("baseline", "list").out.splitlines()
    assert lines[0].split() == ["File", "Runs", "Commit", "Started", "GPU", "Size", "nsyswrap"]
    assert lines[1].split()[:6] == ["main.json", "5", "4f2a91c03bd7", "2026-11-02", "NVIDIA", "H200"]
    assert lines[1].endswith(f"  {version()}")
    assert len(lines) == 2
    damaged = folder / "old.json"
    damaged.write_text((folder / "main.json").read_text().replace("gemm", "hemm"))
    done = run("baseline", "list")
    assert done.code == 65
    assert "old.json is damaged" in done.err
    assert "main.json" in done.out


def test_show_has_setup_and_rows(tmp_path: Path, run: InProcess) -> None:
    saved(tmp_path / "nsyswrap-baselines" / "main.json")
    shown = run("baseline", "show", "main")
    assert shown.code == 0, shown.err
    about = f"command   train.py\ncommit    4f2a91c03bd7\nsaved by  nsyswrap {version()}\n"
    assert shown.out.startswith(f"main: 5 runs\n{about}")
    assert "Spread" in shown.out
    content = json.loads(run("baseline", "show", "main", "--format", "json").out)
    assert content["tool"] == {"name": "nsyswrap", "version": version()}
    assert content["saved_by"] == version()
    gemm = next(row for row in content["rows"] if "gemm" in row["name"] and row["group"] == "kernel")
    assert gemm["count"] == 200
    assert gemm["runs_count"] == 5
    assert 0 < gemm["spread_percent"] < 5
    assert run("baseline", "show", "missing").code == 65


def test_the_history_is_a_page(tmp_path: Path, run: InProcess) -> None:
    folder = tmp_path / "nsyswrap-baselines"
    for number in range(3):
        saved(folder / f"v{number}.json", seed=number, factor=1.0 + 0.3 * (number == 2))
    done = run("baseline", "history", "nsyswrap-baselines")
    assert done.code == 0, done.err
    assert "<!doctype html>" in (tmp_path / "history.html").read_text().lower()
    assert run("baseline", "history", "nsyswrap-baselines").code == 73
    few = run("baseline", "history", str(folder / "v0.json"), "-o", "one.html")
    assert few.code == 2
    assert "2 points or more" in few.err
    twice = run("baseline", "history", str(folder / "v0.json"), "v0", "-o", "one.html")
    assert (twice.code, "2 points or more" in twice.err) == (2, True)


def test_a_baseline_is_found_by_its_name(tmp_path: Path, run: InProcess) -> None:
    for name, factor in (("before", 1.0), ("after", 1.2)):
        saved(tmp_path / "nsyswrap-baselines" / f"{name}.json", factor=factor)
    assert run("compare", "before", "after").out.startswith("Slower: ")
    missing = run("compare", "before.json", "after")
    assert (missing.code, "before.json not found\n  see the names" in missing.err) == (65, True)


def test_the_gate_ends_with_its_code(tmp_path: Path, run: InProcess) -> None:
    base = saved(tmp_path / "base.json")
    slow, same = (
        saved(tmp_path / f"{name}.json", seed=1, factor=factor)
        for name, factor in (("slow", 1.2), ("same", 1.0))
    )
    failed = run("compare", base, slow, "--gate")
    assert failed.code == 1, failed.err
    assert "gate: FAIL: 1 of 1 row slower by more than 5 %\n  step: " in failed.err
    assert run("compare", base, same, "--gate").code == 0
    assert run("compare", base, slow, "--gate", "--max-slower", "50%").code == 0
    assert run("compare", base, slow, "--gate", "--kernel", "gemm", "--format", "json").code == 1
    assert run("compare", base, slow, "--gate", "--kernel", "nothing").code == 65
    assert run("compare", base, slow, "--strict").code == 2
    one = saved(tmp_path / "one.json", runs=1)
    assert run("compare", base, one, "--gate").code == 0
    assert run("compare", base, one, "--gate", "--strict").code == 3


def test_cells_of_csv_are_guarded_when_asked(tmp_path: Path, run: InProcess) -> None:
    write(tmp_path / "x.sqlite", call("cudaLaunchKernel", 0, 5, 1), kernel("=1+1", 20, 30, 1))
    run("baseline", "save", "b.json", "x.sqlite")
    assert ",=1+1," in run("baseline", "show", "b.json", "--format", "csv").out
    assert ",'=1+1," in run("baseline", "show", "b.json", "--format", "csv", "--csv-safe").out
    assert run("baseline", "show", "b.json", "--csv-safe").code == 2
