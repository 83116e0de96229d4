"""All runs of a comparison are judged by one loop, also if each alone would be judged by another one."""

from dataclasses import replace
from pathlib import Path

from step_drawings import Drawing, phases
from tiny_export import opened

from nsyswrap.analysis.compare.compare import compare
from nsyswrap.analysis.compare.model import Comparison, RunFigures, Side
from nsyswrap.analysis.compare.run_figures import run_figures
from nsyswrap.reports.compare.baseline import baseline_text, read_baseline
from nsyswrap.reports.wording.notes import note_text, note_texts

ONE, OTHER = (50_000, 45_000), (45_000, 50_000)  # ns of a training step and of an evaluation step
REMARK = "all runs are judged by 'train', the loop that they share"


def figures(folder: Path, drawing: Drawing) -> RunFigures:
    folder.mkdir(parents=True)
    return run_figures(opened(folder, *drawing.rows), folder.name)


def side(folder: Path, *times: tuple[int, int]) -> Side:
    runs = [figures(folder / str(number), phases(*of_run)) for number, of_run in enumerate(times)]
    return Side(folder.name, tuple(runs))


def steps(comparison: Comparison) -> list[tuple[str, bool]]:
    return [(pair.key.name, pair.in_both) for pair in comparison.of("step")]


def test_a_run_that_would_be_judged_by_another_loop_is_judged_as_the_others(tmp_path: Path) -> None:
    base, new = side(tmp_path / "base", ONE, ONE, OTHER), side(tmp_path / "new", ONE, ONE, ONE)
    comparison = compare(base, new)
    assert steps(comparison) == [("'train'", True)]
    assert [*map(note_text, comparison.remarks)].count(REMARK) == 1
    [pair] = comparison.of("step")
    assert [row and row.count for row in (*pair.base, *pair.new)] == [29] * 6


def test_equal_runs_of_which_half_would_be_judged_by_another_loop(tmp_path: Path) -> None:
    base, new = side(tmp_path / "base", *[ONE] * 4), side(tmp_path / "new", *[OTHER] * 4)
    comparison = compare(base, new)
    assert len(steps(comparison)) == 1
    assert steps(comparison)[0][1]


def test_runs_that_are_judged_by_one_loop_anyway_are_left_alone(tmp_path: Path) -> None:
    base, new = side(tmp_path / "base", ONE, ONE), side(tmp_path / "new", ONE)
    comparison = compare(base, new)
    assert steps(comparison) == [("'train'", True)]
    assert REMARK not in note_texts(comparison.remarks)
    assert comparison.base.runs == base.runs


def test_a_loop_more_on_one_side_changes_nothing(tmp_path: Path) -> None:
    longer = phases(*ONE)
    for start in range(5_000_000, 8_000_000, 50_000):
        longer.launch("save", start, gpu_ns=40_000)
    base, new = side(tmp_path / "base", ONE, ONE), Side("new", (figures(tmp_path / "new", longer),))
    assert ("'train'", True) in steps(compare(base, new))


def test_sides_that_share_no_loop_are_compared_by_totals(tmp_path: Path) -> None:
    other = Drawing()
    for start in range(0, 1_800_000, 30_000):
        other.range("predict", start, start + 29_000)
        other.launch("predict", start + 10, gpu_ns=25_000)
    base, new = side(tmp_path / "base", ONE, OTHER), Side("new", (figures(tmp_path / "new", other),))
    comparison = compare(base, new)
    assert "the runs have different steps: time by cause is that of the whole run" in note_texts(
        comparison.remarks
    )
    assert len({run.loop for run in comparison.base.runs}) == 1  # one for each side


def test_runs_are_judged_as_those_of_a_baseline(tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    path.write_text(baseline_text(side(tmp_path / "base", ONE, ONE)), encoding="utf-8")
    baseline = read_baseline(path)
    assert [run.loop for run in baseline.runs] == ["'train'"] * 2
    comparison = compare(baseline, side(tmp_path / "new", OTHER, OTHER))
    assert steps(comparison) == [("'train'", True)]
    assert REMARK in note_texts(comparison.remarks)
    unknown = replace(baseline, runs=tuple(replace(run, loop="") for run in baseline.runs))
    assert compare(unknown, side(tmp_path / "other", ONE)).of("step")[0].in_both
