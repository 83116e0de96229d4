"""Removing stored runs: what must stay, in folders that hold links, locks, foreign files and open batches."""

import json
import os
import socket
from pathlib import Path

import pytest
from batch_folders import batch_of, captured, claimed, ended, planned

from nsyswrap.base import recent_runs
from nsyswrap.base.errors import OutputError
from nsyswrap.base.files import LOCK, locked
from nsyswrap.base.run_folder import (
    BATCH,
    CLAIM,
    EXPORT,
    FILES,
    PAGE,
    RUN,
    SPEC,
    STATUS,
    TASK_LOG,
    WORK,
    RunFolder,
    Status,
)
from nsyswrap.record.stored_runs import StoredRun, stored_runs

PAGE_TEXT = '<!DOCTYPE html>\n<html><head><meta name="generator" content="nsyswrap 1">'
LEFT = f"{WORK}0123456789ab"  # by a run that was killed
DONE = Status("done", 0, 0, 0)
HERE = Path()  # every test works in a folder of its own


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def run(path: str, *, has_ended: bool = True, **facts: object) -> Path:
    """A run begun here, with a capture of 1000 bytes."""
    folder = Path(path)
    folder.mkdir(parents=True)
    RunFolder(folder).write(RUN, {"nsyswrap": "0.2", "host": socket.gethostname(), **facts})
    (folder / EXPORT).write_bytes(bytes(1000))
    if has_ended:
        RunFolder(folder).write_status(DONE)
    recent_runs.note_begun(folder)
    return folder


def batch(path: str, *, is_open: bool = False) -> Path:
    """A batch begun here, of two runs. ``is_open``: the second was not run."""
    folder = Path(path)
    captured(planned(folder, 1, {"x": 1}), 10)
    second = planned(folder, 2, {"x": 2})
    if not is_open:
        captured(second, 20)
    recent_runs.note_begun(batch_of(folder))
    return folder


def only() -> StoredRun:
    (stored,) = stored_runs(Path.cwd())
    return stored


def tree(folder: Path = HERE) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def refused(stored: StoredRun, reason: str) -> None:
    """Neither is it offered, nor does removing it touch a file."""
    before = tree()
    assert reason in stored.obstacle()
    with pytest.raises(OutputError, match="is not removed") as error:
        stored.remove()
    assert error.value.exit_code == 73
    assert tree() == before


def test_every_file_that_a_run_can_have_is_removed() -> None:
    folder = run("out/x")
    (folder / PAGE).write_text(PAGE_TEXT)
    for name in (*FILES, SPEC, CLAIM, TASK_LOG):
        (folder / name).exists() or (folder / name).write_text("five!")
        (folder / f".{name}.part").write_text("five!")
    (folder / LOCK).touch()  # left by a process that was killed
    (folder / LEFT / "below").mkdir(parents=True)
    (folder / LEFT / "below" / "report.qdstrm").write_bytes(bytes(7))
    sizes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert only().size_bytes == sizes
    assert only().remove() == (sizes, [])
    assert tree() == {"out"}  # this folder may be the user's
    assert stored_runs(Path.cwd()) == []


def test_files_that_are_not_ours_stay() -> None:
    folder = run("out")
    (folder / "notes.txt").write_text("mine")
    (folder / "report.sqlite.from-program").write_text("the program's")
    (folder / "sub").mkdir()
    (folder / "sub" / RUN).write_text("{}")  # another run, or something of the user
    (folder / "nsys.log").mkdir()  # a folder under a name of ours
    (folder / PAGE).write_text("<html>")  # a page of the program
    (folder / f"{WORK}mine").mkdir()
    _, left = only().remove()
    assert {str(path) for path in left} == {
        str(folder.absolute() / name)
        for name in ("notes.txt", "report.sqlite.from-program", "sub", "nsys.log", PAGE, f"{WORK}mine")
    }
    assert tree(folder) == {str(path.relative_to(folder.absolute())) for path in left} | {f"sub/{RUN}"}


def test_links_are_not_followed_and_not_removed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "data").write_text("precious")
    folder = run("out")
    (folder / EXPORT).unlink()
    (folder / EXPORT).symlink_to(precious / "data")
    (folder / f"{WORK}evil").symlink_to(precious, target_is_directory=True)
    (folder / LEFT).mkdir()
    (folder / LEFT / "inside").symlink_to(precious, target_is_directory=True)
    only().remove()
    assert (precious / "data").read_text() == "precious"
    assert tree(folder) == {EXPORT, f"{WORK}evil"}


def test_a_run_folder_that_became_a_link(tmp_path: Path) -> None:
    run("out").rename(tmp_path / "other")
    Path("out").symlink_to(tmp_path / "other", target_is_directory=True)
    refused(only(), "is reached through a symbolic link")
    assert tree(tmp_path / "other") == {RUN, STATUS, EXPORT}


def test_a_link_in_the_folder_of_runs(tmp_path: Path) -> None:
    other = run(str(tmp_path / "elsewhere" / "run"))
    for file in (tmp_path / "state" / "nsyswrap" / "runs").iterdir():
        file.unlink()
    Path("nsyswrap-runs").mkdir()
    Path("nsyswrap-runs/link").symlink_to(other, target_is_directory=True)
    refused(only(), "is reached through a symbolic link")


def test_a_folder_of_runs_on_another_disk(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    Path("nsyswrap-runs").symlink_to(tmp_path / "scratch", target_is_directory=True)
    run("nsyswrap-runs/x")
    assert only().path == tmp_path / "scratch" / "x"  # as the index has it, without the link
    only().remove()
    assert tree(tmp_path / "scratch") == set()


@pytest.mark.parametrize("content", ["{}", "[]", "not JSON", '{"name": "react"}'])
def test_a_run_json_that_is_not_ours(content: str) -> None:
    folder = run("out")
    (folder / RUN).write_text(content)
    refused(only(), "was not written by nsyswrap")


def test_a_run_json_that_is_a_link(tmp_path: Path) -> None:
    folder = run("out")
    (folder / RUN).rename(tmp_path / RUN)
    (folder / RUN).symlink_to(tmp_path / RUN)
    refused(only(), "was not written by nsyswrap")


def test_a_run_that_is_at_work() -> None:
    folder = run("out", has_ended=False)
    with locked(folder, "a run"):
        assert only().states == {"running": 1}
        refused(only(), "it is in use")
    assert only().states == {"unfinished": 1}
    only().remove()
    assert tree() == set()


def test_a_run_that_another_machine_may_be_at() -> None:
    run("out", has_ended=False, host="node-7")
    refused(only(), "may still run on node-7")


def test_a_lock_of_somebody_else() -> None:
    folder = run("out")
    (folder / LOCK).write_text("a user's own file that happens to have this name")
    before = tree()
    with pytest.raises(OutputError, match=LOCK):
        only().remove()
    assert tree() == before


def test_the_ranks_of_a_launch_go_together() -> None:
    for rank in range(3):
        run(f"nsyswrap-runs/job/rank-{rank}", rank={"rank": rank})
    (Path("nsyswrap-runs/job") / PAGE).write_text(PAGE_TEXT)
    stored = only()
    assert (stored.kind, stored.path.name, stored.states) == ("launch", "job", {"done": 3})
    with locked(Path("nsyswrap-runs/job/rank-1"), "a run"):
        refused(only(), "it is in use")
    stored.remove()
    assert tree() == {"nsyswrap-runs"}


def test_a_page_beside_the_runs_that_nsyswrap_did_not_write() -> None:
    Path(PAGE).write_text("<html>")
    run("rank-0", rank={"rank": 0})  # recorded with -o .
    assert only().kind == "launch"
    only().remove()
    folder = batch("b")
    (folder / PAGE).write_text("<html>")
    only().remove()
    assert tree() == {PAGE, "b", f"b/{PAGE}"}


def test_a_rank_under_another_name_is_a_run_by_itself() -> None:
    run("nsyswrap-runs/kept", rank={"rank": 0})
    run("nsyswrap-runs/rank-1", rank={"rank": 1})
    assert {(one.kind, one.path.name, len(one.members)) for one in stored_runs(Path.cwd())} == {
        ("run", "kept", 1),
        ("launch", "nsyswrap-runs", 1),
    }
    next(one for one in stored_runs(Path.cwd()) if one.kind == "launch").remove()
    assert tree(Path("nsyswrap-runs")) == {"kept", f"kept/{RUN}", f"kept/{STATUS}", f"kept/{EXPORT}"}


def test_a_launch_without_ranks_stays() -> None:
    Path("job").mkdir()
    refused(StoredRun(Path("job").absolute(), "launch", (), 0.0), "it has no run folder")


def test_the_folder_of_a_scenario_goes_with_its_last_variant() -> None:
    run("nsyswrap-runs/add/one", nsyswrap=None)
    run("nsyswrap-runs/add/two")
    first, second = stored_runs(Path.cwd())
    first.remove()
    assert Path("nsyswrap-runs/add").is_dir()
    second.remove()
    assert tree() == {"nsyswrap-runs"}


def test_a_finished_batch_goes_and_its_tables_stay() -> None:
    folder = batch("b")
    (folder / "results.csv").write_text("x\n")
    (folder / PAGE).write_text(PAGE_TEXT)
    stored = only()
    assert (stored.kind, stored.states) == ("batch", {"done": 2})
    freed, left = stored.remove()
    assert freed > 2000
    assert [path.name for path in left] == ["results.csv"]
    assert tree() == {"b", "b/results.csv"}


@pytest.mark.parametrize("how", ["planned", "lost", "interrupted", "running", "locked"])
def test_a_batch_that_is_to_go_on(how: str) -> None:
    folder = batch("b", is_open=True)
    second = folder / "runs" / "00002"
    if how == "locked":
        captured(second, 20)
        with locked(folder, "a batch"):
            refused(only(), "it is in use")
        return
    if how == "running":
        claimed(second)
        with locked(second, "a run"):
            refused(only(), "it is in use")
        return
    if how == "lost":
        claimed(second)
    if how == "interrupted":
        ended(second, "interrupted")
    refused(only(), f"the batch is not finished: 1 {how}")


def test_runs_of_an_earlier_plan_go_with_their_batch() -> None:
    folder = batch("b")
    facts = json.loads((folder / BATCH).read_text())
    facts["runs"][1]["active"] = False
    (folder / BATCH).write_text(json.dumps(facts))
    only().remove()
    assert tree() == set()


def test_the_ranks_of_the_runs_of_a_batch_go_with_it() -> None:
    batch("b")
    before = only().size_bytes
    ranks = only().members[0] / "rank-0"
    ranks.mkdir()
    RunFolder(ranks).write(RUN, {"nsyswrap": "0.2", "rank": {"rank": 0}})
    (ranks / EXPORT).write_bytes(bytes(1000))
    foreign = ranks.with_name("rank-1")  # without run.json
    foreign.mkdir()
    (foreign / EXPORT).write_bytes(bytes(1000))
    assert before + 1000 < only().size_bytes < before + 2000
    only().remove()
    assert {path for path in tree() if EXPORT in path} == {str((foreign / EXPORT).relative_to(Path.cwd()))}


def test_a_run_json_of_the_first_versions_has_program_and_nsys() -> None:
    folder = run("out/x")
    RunFolder(folder).write(RUN, {"program": ["a"], "nsys": {}})
    assert only().obstacle() == ""


def test_one_of_equal_runs_under_another_name_is_a_run_by_itself() -> None:
    run("nsyswrap-runs/kept", repeat={"number": 1, "count": 10})
    run("nsyswrap-runs/run-7")
    run("nsyswrap-runs/equal/run-10", repeat={"number": 10, "count": 10})
    run("nsyswrap-runs/equal/run-9", repeat={"number": 9, "count": 10})
    stored = {one.path.name: one for one in stored_runs(Path.cwd())}
    kinds = {name: one.kind for name, one in stored.items()}
    assert kinds == {"kept": "run", "run-7": "run", "equal": "repeats"}
    assert [path.name for path in stored["equal"].members] == ["run-9", "run-10"]


def test_a_link_with_the_name_of_a_working_folder_stays(tmp_path: Path) -> None:
    folder = run("out/x")
    (tmp_path / "elsewhere").mkdir()
    (folder / LEFT).symlink_to(tmp_path / "elsewhere")
    freed, left = only().remove()
    assert (freed > 1000, left) == (True, [folder.absolute() / LEFT])
    assert (tmp_path / "elsewhere").is_dir()


def test_one_run_of_a_batch_is_not_removed_alone() -> None:
    folder = batch("b", is_open=True)
    recent_runs.note_begun(folder / "runs" / "00001")
    stored = next(one for one in stored_runs(Path.cwd()) if one.kind == "run")
    RunFolder(stored.path).write(RUN, {"nsyswrap": "0.2"})
    refused(stored, "it is part of the batch")


@pytest.mark.parametrize("name", ["../../precious", "..", "", ".", "/etc", 5, None, "a/b"])
def test_a_plan_that_names_folders_elsewhere(name: object) -> None:
    run("precious")
    folder = batch("b")
    facts = json.loads((folder / BATCH).read_text())
    facts["runs"][0]["folder"] = name
    (folder / BATCH).write_text(json.dumps(facts))
    refused(next(one for one in stored_runs(Path.cwd()) if one.kind == "batch"), "is not valid")


def test_a_run_of_a_batch_that_is_a_link(tmp_path: Path) -> None:
    other = run(str(tmp_path / "other"))
    folder = batch("b")
    (folder / "runs" / "00001").rename(tmp_path / "away")
    (folder / "runs" / "00001").symlink_to(other, target_is_directory=True)
    stored = next(one for one in stored_runs(Path.cwd()) if one.kind == "batch")
    refused(stored, "is reached through a symbolic link")


@pytest.mark.parametrize("folder", ["x" * 300, "/" + "y/" * 3000, "nul\0", "\ud8ff"])
def test_an_entry_that_is_no_path(tmp_path: Path, folder: str) -> None:
    run("out")
    (file,) = (tmp_path / "state" / "nsyswrap" / "runs").iterdir()
    entry = {"folder": folder, "cwd": os.getcwd(), "began": 9e9}  # noqa: PTH109 - as the index has it
    file.write_text(f"{file.read_text()}\n{json.dumps(entry)}")
    assert only().path.name == "out"
