"""The run folder: who may write into it, what is in it, and the captures of a run by rank."""

import json
import os
import threading
import time
from pathlib import Path

import pytest

from nsyswrap.base import run_folder as folder
from nsyswrap.base.errors import CaptureError, OutputError, UsageError
from nsyswrap.base.files import umask
from nsyswrap.base.run_folder import (
    FILES,
    PAGE,
    RUN,
    STATUS,
    RunFolder,
    Status,
    captures_by_rank,
    rank_folder_name,
    rank_folders,
    rank_in,
)

DONE = Status("done", 0, 0, 0)


def test_a_new_folder_and_its_parents_are_made(tmp_path: Path) -> None:
    RunFolder(tmp_path / "a" / "b").create({})
    assert [path.name for path in sorted((tmp_path / "a" / "b").iterdir())] == [f".{STATUS}.part", RUN]
    assert [oct(path.stat().st_mode & 0o777) for path in (tmp_path / "a", tmp_path / "a" / "b")] == [
        oct(0o777 & ~umask()),
        "0o700",
    ]


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    RunFolder(tmp_path).create({})
    assert tmp_path.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", [*FILES, "anything", ".hidden"])
def test_a_folder_with_anything_in_it_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(OutputError, match="exists and is not empty") as error:
        RunFolder(tmp_path).create({})
    assert error.value.exit_code == 73
    assert "--force" in error.value.hint
    assert (tmp_path / name).read_text() == "mine"


def test_force_removes_the_files_of_a_run_and_nothing_else(tmp_path: Path) -> None:
    for name in (*FILES, "notes.txt"):
        (tmp_path / name).write_text("old")
    RunFolder(tmp_path).create({}, force=True)
    assert {path.name for path in tmp_path.iterdir()} == {RUN, f".{STATUS}.part", "notes.txt"}


def test_force_follows_no_link_in_the_place_of_a_range(tmp_path: Path) -> None:
    mine, run = tmp_path / "mine", tmp_path / "run"
    for path in (mine, run):
        path.mkdir()
        RunFolder(path).create({})
    before = {path.name for path in mine.iterdir()}
    (run / "range-1").symlink_to(mine)
    RunFolder(run).create({}, force=True)
    assert {path.name for path in mine.iterdir()} == before
    assert "range-1" not in {path.name for path in run.iterdir()}  # nor does the run write through it


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine")
    for force in (False, True):
        with pytest.raises(OutputError, match=f"cannot write {tmp_path / 'run'}: File exists"):
            RunFolder(tmp_path / "run").create({}, force=force)
    assert (tmp_path / "run").read_text() == "mine"


def test_what_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot write /proc/run: No such file or directory"):
        RunFolder(Path("/proc/run")).create({})
    with pytest.raises(OutputError, match=r"cannot write .*/absent/run\.json: No such file"):
        RunFolder(tmp_path / "absent").write(RUN, {})
    with pytest.raises(OutputError, match="cannot write /proc/nsyswrap-runs/x-"):
        folder.claim_output("x", Path("/proc/nsyswrap-runs"))


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.write("a.txt", "first\n")
    (tmp_path / ".a.txt.part").mkdir()  # in the way
    with pytest.raises(OutputError):
        run.write("a.txt", "second\n")
    assert (tmp_path / "a.txt").read_text() == "first\n"


def test_what_cannot_be_put_in_its_place_goes(tmp_path: Path) -> None:
    (tmp_path / RUN).mkdir()
    with pytest.raises(OutputError):
        RunFolder(tmp_path).write(RUN, {})
    assert [path.name for path in tmp_path.iterdir()] == [RUN]


def test_bytes_that_are_no_text_survive(tmp_path: Path) -> None:
    RunFolder(tmp_path).write(RUN, {"command": ["é", "\udcff"]})
    assert b'"\xc3\xa9"' in (tmp_path / RUN).read_bytes()
    assert b'"\xff"' in (tmp_path / RUN).read_bytes()


def test_a_status_is_read_as_it_was_written(tmp_path: Path) -> None:
    status = Status("nsys_failed", 3, -9, 70, "nsys wrote no complete export", "see nsys.log")
    RunFolder(tmp_path).write_status(status)
    assert RunFolder(tmp_path).read_status() == status
    assert list(json.loads((tmp_path / STATUS).read_text())) == [
        "outcome",
        "program_code",
        "nsys_code",
        "exit_code",
        "message",
        "hint",
    ]


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"outcome": "done", "more": 1}', "[" * 100_000])
def test_a_status_that_is_none(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / STATUS).write_text(content)
    with pytest.raises(CaptureError, match=r"status\.json cannot be read"):
        RunFolder(tmp_path).read_status()


def test_a_status_with_an_exit_code_that_is_not_a_number(tmp_path: Path) -> None:
    RunFolder(tmp_path).write_status(Status("done", 0, 0, "abc"))  # type: ignore[arg-type]
    with pytest.raises(
        CaptureError, match=r"status\.json cannot be read: exit_code is 'abc': expected a whole number"
    ):
        RunFolder(tmp_path).read_status()


def test_pipes_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / RUN)
    os.mkfifo(tmp_path / STATUS)
    assert RunFolder(tmp_path).read_run() == {}
    with pytest.raises(CaptureError, match=r"status\.json cannot be read: .*not a regular file"):
        RunFolder(tmp_path).read_status()


def test_a_run_that_is_nested_too_deeply_or_has_values_of_other_types(tmp_path: Path) -> None:
    (tmp_path / RUN).write_text("[" * 100_000)
    assert RunFolder(tmp_path).read_run() == {}
    RunFolder(tmp_path).write(RUN, {"rank": 3, "nsys": [], "cwd": "/x"})
    assert RunFolder(tmp_path).read_run() == {"rank": {}, "nsys": {}, "cwd": "/x"}


def test_force_removes_a_page_that_nsyswrap_wrote(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.create({})
    for text, stays in (("<html>", True), ('<html><meta name="generator" content="nsyswrap 1">', False)):
        (tmp_path / PAGE).write_text(text)
        run.create({}, force=True)
        assert (tmp_path / PAGE).exists() == stays


def test_what_is_known_of_a_run(tmp_path: Path) -> None:
    assert RunFolder(tmp_path).read_run() == {}
    RunFolder(tmp_path).write(RUN, {"cwd": "/x"})
    assert RunFolder(tmp_path).read_run() == {"cwd": "/x"}


def test_names_of_new_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "strftime", lambda _: "20250102-030405")
    names = [folder.claim_output("dir/train.py", tmp_path / "runs").name for _ in range(3)]
    assert names == ["train-20250102-030405", "train-20250102-030405-2", "train-20250102-030405-3"]
    assert folder.default_output("x", tmp_path) == tmp_path / "x-20250102-030405"
    assert not (tmp_path / "x-20250102-030405").exists()
    assert folder.default_output("", tmp_path).name == "program-20250102-030405"


def test_folders_claimed_at_the_same_time_differ(tmp_path: Path) -> None:
    claimed: list[Path] = []
    threads = [
        threading.Thread(target=lambda: claimed.append(folder.claim_output("x", tmp_path))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(claimed)) == 8


def test_the_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert folder.cache_dir("a", "b") == tmp_path / "xdg" / "nsyswrap" / "a" / "b"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert folder.cache_dir() == tmp_path / "home" / ".cache" / "nsyswrap"
    assert folder.cache_dir().is_dir()
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/cache")
    with pytest.raises(OutputError, match="cannot make the cache folder /proc/cache"):
        folder.cache_dir()


def test_no_place_for_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:  # as for a user without a name in a container
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(OutputError, match="no folder for the cache") as error:
        folder.cache_dir()
    assert "XDG_CACHE_HOME" in error.value.hint


def test_free_space(tmp_path: Path) -> None:
    assert folder.free_space_note(tmp_path).endswith(f" MB free at {tmp_path}")


def touched(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def test_a_capture_for_each_rank_folder(tmp_path: Path) -> None:
    touched(tmp_path, "rank-10/report.sqlite", "rank-02/report.nsys-rep", "rank-02/report.sqlite")
    touched(tmp_path, "rank-03/report.nsys-rep", "rank-04/nsys.log", "rank-x/report.sqlite", "rank-05")
    assert list(rank_folders(tmp_path)) == [2, 3, 4, 10]
    names = {rank: str(path.relative_to(tmp_path)) for rank, path in captures_by_rank(tmp_path).items()}
    assert names == {2: "rank-02/report.sqlite", 3: "rank-03/report.nsys-rep", 10: "rank-10/report.sqlite"}


def test_a_command_s_own_captures_name_their_rank(tmp_path: Path) -> None:
    touched(tmp_path, "job.rank1.nsys-rep", "job.rank1.sqlite", "job.rank0.nsys-rep", "notes.txt")
    assert [path.name for path in captures_by_rank(tmp_path).values()] == [
        "job.rank0.nsys-rep",
        "job.rank1.sqlite",
    ]
    touched(tmp_path, "other_rank-1.sqlite")
    with pytest.raises(UsageError, match="both are rank 1"):
        captures_by_rank(tmp_path)


def test_a_run_without_ranks(tmp_path: Path) -> None:
    touched(tmp_path, "report.sqlite", "report.nsys-rep")
    assert captures_by_rank(tmp_path) == {}
    assert captures_by_rank(tmp_path / "absent") == {}


@pytest.mark.parametrize(
    ("name", "rank"), [("job.rank3.sqlite", 3), ("rank_12", 12), ("rank-007", 7), ("franks", None)]
)
def test_the_rank_in_a_name(name: str, rank: int | None) -> None:
    assert rank_in(name) == rank


def test_names_sort_as_ranks_do() -> None:
    names = [rank_folder_name(3, size) for size in (1, 10, 11, 64)]
    assert names == ["rank-3", "rank-3", "rank-03", "rank-03"]
