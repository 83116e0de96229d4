"""Which runs the paths of a side name, which are left out, and which do not belong together."""

import hashlib
import json
from pathlib import Path

import pytest
from compared_runs import make_repeats, make_run

from nsyswrap.base.errors import CaptureError, UsageError
from nsyswrap.base.run_facts import spec_key
from nsyswrap.base.run_folder import BATCH, EXPORT, RUNS, SPEC, STATUS, RunFolder, Status
from nsyswrap.reports.compare.sides import load_side, name_of, source_of


def labels(*paths: Path) -> list[str]:
    return [run.label for run in source_of(paths).runs]


def make_batch(folder: Path, *planned: tuple[str, int, int]) -> Path:
    """Make a batch of runs: the label of the combination, the repeat, and microseconds of the kernel."""
    entries = []
    for number, (label, repeat, kernel_us) in enumerate(planned, 1):
        spec = {"label": label, "parameters": {"n": label}, "repeat": repeat, "command": ["x"]}
        name = f"{number:05d}-{label}"
        run = make_run(folder / RUNS / name, kernel_us)
        (run / SPEC).write_text(json.dumps(spec))
        entries.append({"number": number, "folder": name, "key": spec_key(spec), "active": True})
    batch = {"name": "sweep", "id": hashlib.sha256(b"1").hexdigest()[:8], "runs": entries}
    (folder / BATCH).write_text(json.dumps(batch))
    return folder


def test_several_captures_and_folders(tmp_path: Path) -> None:
    make_repeats(tmp_path / "before", (40, 41, 42))
    make_run(tmp_path / "one:1")
    loose = make_run(tmp_path / "two")
    (loose / EXPORT).rename(tmp_path / "two.sqlite")
    assert labels(tmp_path / "before") == ["run-1", "run-2", "run-3"]
    assert labels(tmp_path / "one:1", tmp_path / "two.sqlite") == ["one:1", "two"]
    assert labels(tmp_path / "one:1", tmp_path / "one:1" / EXPORT) == ["one:1"]  # once, however it is named


def test_a_side_has_the_figures_of_its_runs(tmp_path: Path) -> None:
    side = load_side([make_repeats(tmp_path / "before", (40, 50))])
    typical = [row.typical_ns for run in side.runs for key, row in run.rows.items() if key.group == "kernel"]
    assert typical == [pytest.approx(40_100, abs=20), pytest.approx(50_100, abs=20)]
    assert side.name == str(tmp_path / "before")


def test_unfinished_failed_and_damaged_runs_are_left_out(tmp_path: Path) -> None:
    folder = make_repeats(tmp_path / "runs", (40, 40, 40, 40))
    RunFolder(folder / "run-2").write_status(Status("program_failed", 1, 0, 1, "exit code 1"))
    (folder / "run-3" / STATUS).unlink()
    (folder / "run-4" / EXPORT).write_bytes(b"SQLite format 3\x00 and no more")
    notes: list[str] = []
    assert [run.label for run in load_side([folder], notes.append).runs] == ["run-1"]
    assert notes[0] == "left out: run-2: program failed: exit code 1"
    assert notes[1].startswith("left out: run-3: unfinished")
    assert notes[2].startswith("left out: run-4: ")
    assert len(notes) == 3


def test_a_side_without_runs_is_an_error(tmp_path: Path) -> None:
    failed = make_run(tmp_path / "failed", outcome="program_failed")
    with pytest.raises(CaptureError, match="no run is done: failed: program failed"):
        load_side([failed])
    (tmp_path / "empty").mkdir()
    with pytest.raises(CaptureError, match=r"no runs or captures in .*empty"):
        load_side([tmp_path / "empty"])
    with pytest.raises(CaptureError, match="missing not found"):
        load_side([tmp_path / "missing"])
    bad = make_repeats(tmp_path / "bad", (40, 40))
    for number in (1, 2):
        (bad / f"run-{number}" / EXPORT).write_bytes(b"no database")
    with pytest.raises(CaptureError, match="none of 2 captures can be read"):
        load_side([bad])
    with pytest.raises(CaptureError, match=r"report\.sqlite"):
        load_side([bad / "run-1"])


def test_a_batch_of_one_combination(tmp_path: Path) -> None:
    batch = make_batch(tmp_path / "sweep", ("n=1", 1, 40), ("n=1", 2, 41))
    assert len(source_of([batch]).runs) == 2


def test_one_combination_of_several_is_picked_by_its_label(tmp_path: Path) -> None:
    batch = make_batch(tmp_path / "sweep", ("n=1", 1, 40), ("n=2", 1, 80), ("n=1", 2, 41))
    with pytest.raises(UsageError, match="runs of 2 combinations: n=1, n=2") as error:
        source_of([batch])
    assert error.value.hint == f"name one of them: {batch}:n=1"
    assert [run.repeat for run in source_of([tmp_path / "sweep:n=1"]).runs] == [1, 2]
    assert [run.combination for run in source_of([tmp_path / "sweep:n=2"]).runs] == ["n=2"]
    with pytest.raises(UsageError, match="'n=3'") as error:
        source_of([tmp_path / "sweep:n=3"])
    assert "n=2" in error.value.hint


def test_ranks_of_a_launch_are_no_repeats(tmp_path: Path) -> None:
    for rank in (0, 1):
        make_run(tmp_path / "job" / f"rank-{rank}", rank={"rank": rank, "world_size": 2})
    with pytest.raises(UsageError, match="job holds ranks of one launch"):
        source_of([tmp_path / "job"])
    assert labels(tmp_path / "job" / "rank-1") == ["rank-1"]


def test_a_baseline_is_the_only_path_of_its_side(tmp_path: Path) -> None:
    saved = tmp_path / "base.json"
    saved.write_text("{}")
    with pytest.raises(UsageError, match=r"base\.json is a baseline"):
        source_of([saved, make_run(tmp_path / "run")])
    assert source_of([saved]).real_paths == {str(saved)}
    with pytest.raises(CaptureError, match=r"base\.json"):
        load_side([saved])


def test_the_name_of_a_side(tmp_path: Path) -> None:
    assert name_of([tmp_path / "a"]) == str(tmp_path / "a")
    assert name_of(map(type(tmp_path), "abcde")) == "a, b, c and 2 more"
