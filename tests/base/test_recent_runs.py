"""Which run is the newest: the index of begun runs, and the folder nsyswrap-runs/ beside it."""

import json
import multiprocessing
import os
import stat
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from unittest.mock import patch

import pytest

from nsyswrap.base import recent_runs
from nsyswrap.base.errors import CaptureError
from nsyswrap.base.files import read_json
from nsyswrap.base.run_folder import EXPORT, RUN, RunFolder, Status

DONE = Status("done", 0, 0, 0)
HERE = "project"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index of its own, and a project to work in."""
    (tmp_path / HERE / "sub").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / HERE)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def index(state: Path) -> list[Path]:
    return sorted((state / "nsyswrap" / "runs").iterdir())


def begin(folder: Path, start: float | None = None, *, ended: bool = True, **facts: object) -> Path:
    """Begin a run; ``start`` overwrites when the index says that it was."""
    folder.mkdir(parents=True, exist_ok=True)
    RunFolder(folder).write(RUN, {"nsyswrap": "1", "command": ["true"], **facts})
    if ended:
        RunFolder(folder).write_status(DONE)
    with pytest.MonkeyPatch.context() as patch:
        if start is not None:
            patch.setattr(time, "time", lambda: start)
        recent_runs.note_begun(folder)
    return folder


def newest() -> Path:
    return recent_runs.newest_run()[0]


def test_the_newest_wherever_it_lies(tmp_path: Path) -> None:
    begin(Path("nsyswrap-runs/first"), 100)
    begin(tmp_path / "elsewhere", 300)
    begin(Path("out/x"), 200)
    assert recent_runs.newest_run()[:2] == (tmp_path / "elsewhere", 300)


def test_runs_without_a_capture_come_last(tmp_path: Path) -> None:
    failed = begin(Path("nsyswrap-runs/failed"), 200)
    assert newest() == failed
    (begin(tmp_path / "elsewhere", 100) / EXPORT).touch()
    assert recent_runs.newest_run() == (tmp_path / "elsewhere", 100, [failed])
    (begin(Path("later"), 200) / EXPORT).touch()
    assert recent_runs.newest_run() == (Path("later"), 200, [])


def test_many_runs_are_in_order_and_few_are_read() -> None:
    """A run may have begun later than its files were changed, by the clock of another machine."""
    shuffled = sorted(range(40), key=lambda number: number * 7 % 40)
    for number in shuffled:
        folder = Path("nsyswrap-runs", f"{number:02}")
        begun = datetime.fromtimestamp(1_000_000 + 43_200 * number, timezone.utc)
        begin(folder, started=(begun + timedelta(hours=12 * (number == 33))).isoformat())
        (folder / EXPORT).touch()
        for path in (*folder.iterdir(), folder):
            os.utime(path, (1_000_005 + 43_200 * number,) * 2)
    for file in index(Path("../state")):
        file.unlink()
    ordered = [path.name for path, _ in recent_runs.begun_runs(Path.cwd())]
    assert [int(name) for name in ordered] == [*range(39, 34, -1), 33, 34, *range(32, -1, -1)]
    with patch.object(recent_runs, "read_json", wraps=read_json) as read:
        assert newest() == Path("nsyswrap-runs/39")
    assert read.call_count < 8


def test_a_folder_below_is_named_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("sub")
    begin(Path("out"))
    assert newest() == Path("out")
    monkeypatch.chdir(tmp_path / HERE)
    assert newest() == Path("sub/out")


def test_what_was_begun_elsewhere_is_not_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(Path("out"), 100)
    other = tmp_path / f"{HERE}-2"  # begins with the same letters
    other.mkdir()
    monkeypatch.chdir(other)
    begin(Path("out"), 200)
    monkeypatch.chdir(tmp_path / HERE)
    assert newest() == Path("out")
    begin(other / "out", 300)
    assert newest() == other / "out"
    monkeypatch.chdir(other)  # the folder was used again since, from elsewhere
    with pytest.raises(CaptureError, match="no run was begun in this folder or below") as error:
        newest()
    assert error.value.exit_code == 65


def test_one_that_has_not_ended_and_one_that_is_gone(tmp_path: Path) -> None:
    begin(Path("kept"), 100)
    begin(Path("moved"), 200).rename(tmp_path / "away")
    begin(Path("running"), 300, ended=False)
    assert newest() == Path("kept")


def test_runs_that_the_index_lacks(state: Path) -> None:
    begin(Path("out"), 1_700_000_000)  # November 2023
    for name, started in (("a", "2024-01-01T00:00:00.000+00:00"), ("b/variant", "2024-01-02T00:00:00+00:00")):
        folder = Path("nsyswrap-runs", name)
        begin(folder, started=started)
        for file in index(state):
            lines = [line for line in file.read_text().splitlines() if "/nsyswrap-runs/" not in line]
            file.write_text("\n".join(lines))
    assert recent_runs.newest_run()[:2] == (Path("nsyswrap-runs/b/variant"), 1_704_153_600)


def test_a_start_in_run_json_that_the_index_does_not_have() -> None:
    """The run was recorded again on another machine, on 2024-01-02."""
    begin(Path("again"), 1_700_000_000, started="2024-01-02T00:00:00+00:00")
    begin(Path("once"), 1_700_000_100)
    assert recent_runs.newest_run()[:2] == (Path("again"), 1_704_153_600)


def test_a_rank_under_another_name_is_not_a_rank_of_a_launch() -> None:
    begin(Path("a"), 100)
    begin(Path("copy"), 200, rank={"rank": 3})
    assert newest() == Path("copy")


def test_of_the_ranks_of_a_launch_the_first() -> None:
    for start, rank in enumerate((0, 2, 10, 1)):
        begin(Path(f"job/rank-{rank}"), 100 + start, rank={"rank": rank})
    assert newest() == Path("job/rank-0")


def test_a_state_folder_that_cannot_be_written(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state.write_text("in the way")
    begin(Path("nsyswrap-runs/a"))
    assert newest() == Path("nsyswrap-runs/a")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")  # not allowed by the specification
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    begin(Path("nsyswrap-runs/b"))
    assert not Path("relative").exists()
    assert capsys.readouterr() == ("", "")


def test_only_the_user_reads_the_index_and_it_holds_no_more_than_it_must(state: Path) -> None:
    begin(Path("out"), 5.0, command=["train", "--token", "secret"])
    (file,) = index(state)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    here = str(Path.cwd())
    assert json.loads(file.read_text()) == {"folder": f"{here}/out", "cwd": here, "began": 5.0}


@pytest.mark.parametrize(
    "spoilt",
    ['\n{"folder": "/x", "cw', "\n[1]", '\n{"folder": 1}', "\n\x00\ud800", "\nnull", "\n" + "[" * 100_000],
)
def test_a_line_that_was_cut_off_spoils_no_other(state: Path, spoilt: str) -> None:
    begin(Path("a"), 100)
    with index(state)[0].open("ab") as file:
        file.write(spoilt.encode("utf-8", "surrogatepass"))
    begin(Path("b"), 200)
    assert [path.name for path, _ in recent_runs.begun_runs(Path.cwd())] == ["b", "a"]


def test_a_name_that_is_not_utf8() -> None:
    folder = Path(os.fsdecode(b"caf\xe9\x1b[2J"))
    begin(folder)
    assert newest() == folder


def test_a_full_index_forgets_the_oldest(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_runs, "_FULL_BYTES", 1000)
    for number in range(40):
        begin(Path(f"runs/{number}"), 100 + number)
    kept = [int(path.name) for path, _ in recent_runs.begun_runs(Path.cwd())]
    assert kept == list(range(39, 39 - len(kept), -1))
    assert 5 < len(kept) < 40
    assert sum(file.stat().st_size for file in index(state)) < 3000


def _begin_many(number: int) -> None:
    for one in range(50):
        recent_runs.note_begun(Path(f"runs/{number}-{one}"))


def test_writers_at_the_same_time(state: Path) -> None:
    with multiprocessing.get_context("fork").Pool(4) as pool:
        pool.map(_begin_many, range(8))
        pool.close()  # not ended by SIGTERM, which a process that waits for work can miss
        pool.join()
    lines = index(state)[0].read_text().splitlines()
    assert len({json.loads(line)["folder"] for line in lines if line}) == 400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "just now"),
        (59, "just now"),
        (60, "1 minute ago"),
        (3599, "59 minutes ago"),
        (7200, "2 hours ago"),
        (86_400 * 3.5, "3 days ago"),
    ],
)
def test_how_long_ago(seconds: float, text: str) -> None:
    assert recent_runs.ago(1000.0, 1000.0 + seconds) == text


@pytest.mark.parametrize(
    ("run", "name"),
    [
        ({"command": ["/usr/bin/python3", "/home/me/train.py", "-x"]}, "train.py"),
        ({"command": ["python3.11", "-m", "pkg.tool", "-m"]}, "pkg.tool"),
        ({"command": ["python", "/x/call_function.py", "test_add:train", "[3]"]}, "test_add:train"),
        ({"command": ["/opt/bin/app", "input"]}, "app"),
        ({"program": ["python", "add.py"], "nsys": None}, "add.py"),
        ({"command": ["/usr/bin/python3", "-c", "secret code"]}, "python3"),
        ({"command": ["python"]}, "python"),
        ({"command": ["python", "-u", "-X", "dev", "-Wignore", "/home/me/train.py", "-m"]}, "train.py"),
        ({"command": ["python", "-u", "-m", "pkg.tool"]}, "pkg.tool"),
        ({"command": 5}, "5"),
        ({}, ""),
    ],
)
def test_the_program_of_a_run(run: dict[str, object], name: str) -> None:
    assert recent_runs.program_of(run) == name
