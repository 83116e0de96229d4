"""Links that other users planted are not followed for writing; one's own are where nobody else can write."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import foreign
import pytest

from nsyswrap.base import files, paths
from nsyswrap.base.errors import OutputError
from nsyswrap.base.run_folder import FILES, RunFolder, Status

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Write = Callable[[Path], object]

needs_other_users = pytest.mark.skipif(bool(foreign.lacks()), reason=foreign.lacks())
SHARED, GROUP, CLOSED = 0o1777, 0o2775, 0o755
WRITERS: dict[str, Write] = {
    "write": lambda path: files.write(path, "new"),
    "make": lambda path: RunFolder(path / "run").make(),
    "folder": lambda path: RunFolder(path).make(),
    "links": paths.check_target,
}


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "folder").mkdir()
    return tmp_path / "victim"


def folder_of(tmp_path: Path, mode: int) -> Path:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(mode)
    return folder


@needs_other_users
@pytest.mark.parametrize("mode", [SHARED, GROUP, CLOSED])
@pytest.mark.parametrize("target", ["victim", "nothing", "folder"])
def test_a_link_of_another_user(tmp_path: Path, victim: Path, mode: int, target: str) -> None:
    link = folder_of(tmp_path, mode) / "out"
    link.symlink_to(tmp_path / target)
    foreign.give(link)
    for write in (WRITERS["write"], WRITERS["folder"], WRITERS["links"]):
        with pytest.raises(
            OutputError, match=rf"cannot write {link}: it is a symbolic link of another user, to"
        ):
            write(link)
    assert victim.read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "shared", "victim"]
    assert list((tmp_path / "folder").iterdir()) == []


@pytest.mark.parametrize("mode", [SHARED, GROUP, 0o777])
def test_a_link_of_ones_own_where_others_can_write(tmp_path: Path, victim: Path, mode: int) -> None:
    link = folder_of(tmp_path, mode) / "out"
    link.symlink_to(victim)
    with pytest.raises(OutputError, match="it is a symbolic link in a folder that other users can write"):
        files.write(link, "new")
    assert victim.read_text() == "precious"


@needs_other_users
def test_a_link_of_ones_own_in_the_folder_of_another_user(tmp_path: Path, victim: Path) -> None:
    folder = foreign.give(folder_of(tmp_path, CLOSED))
    (folder / "out").symlink_to(victim)
    with pytest.raises(OutputError, match="in a folder that other users can write"):
        files.write(folder / "out", "new")


def test_a_link_of_ones_own_is_followed(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, CLOSED)
    (folder / "out").symlink_to("second")
    (folder / "second").symlink_to(tmp_path / "results" / "out.csv")
    files.write(folder / "out", "new")
    assert (tmp_path / "results" / "out.csv").read_text() == "new"
    assert (folder / "out").is_symlink()
    assert (folder / "second").is_symlink()


def test_a_link_that_is_replaced_itself(tmp_path: Path, victim: Path) -> None:
    link = tmp_path / "out"
    link.symlink_to(victim)
    files.write(link, "new", follow=False)
    assert (link.is_symlink(), link.read_text(), victim.read_text()) == (False, "new", "precious")


@needs_other_users
@pytest.mark.parametrize("write", [WRITERS["write"], WRITERS["make"]])
def test_a_link_on_the_way_in_a_folder_for_all(tmp_path: Path, write: Write) -> None:
    shared = folder_of(tmp_path, SHARED)
    (shared / "results").symlink_to(tmp_path)
    foreign.give(shared / "results")
    with pytest.raises(
        OutputError, match=f"cannot write {shared / 'results'}: it is a symbolic link of another user"
    ):
        write(shared / "results" / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["shared"]


def test_a_link_on_the_way_that_is_ones_own(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    shared = folder_of(tmp_path, SHARED)
    (shared / "results").symlink_to(tmp_path / "there")
    files.write(shared / "results" / "out", "new")
    assert (tmp_path / "there" / "out").read_text() == "new"


def test_a_link_to_itself(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OutputError, match="Too many levels of symbolic links"):
        files.write(tmp_path / "loop", "new")


def test_what_is_planted_under_the_names_of_temporary_files(tmp_path: Path, victim: Path) -> None:
    """The names that ``replacing`` once used: anybody could guess them."""
    shared = folder_of(tmp_path, SHARED)
    for name in (f".out.{os.getpid()}.part", f"out.{os.getpid()}", "part"):
        (shared / name).symlink_to(victim)
    files.write(shared / "out", "new")
    assert ((shared / "out").read_text(), victim.read_text()) == ("new", "precious")


def test_the_temporary_folder_is_private(tmp_path: Path) -> None:
    with files.replacing(tmp_path / "out") as part:
        assert part.parent.parent == tmp_path
        assert part.parent.stat().st_mode & 0o777 == 0o700
        part.write_text("new")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_temporary_folder_that_another_user_moves(tmp_path: Path, victim: Path) -> None:
    """In a folder without the sticky bit, a member of its group can put another in its place."""

    def write() -> None:
        with files.replacing(tmp_path / "out") as part:
            part.parent.rename(tmp_path / "moved")
            part.parent.mkdir()
            part.symlink_to(victim)

    with pytest.raises(OutputError, match="its temporary folder was moved away"):
        write()
    assert victim.read_text() == "precious"
    assert not (tmp_path / "out").exists()


def test_long_names_have_room_for_temporary_ones(tmp_path: Path) -> None:
    files.write(tmp_path / ("n" * 255), "new")
    assert (tmp_path / ("n" * 255)).read_text() == "new"


@pytest.mark.parametrize("plant", ["link", "hard link", "pipe", "nothing"])
def test_a_run_folder_from_elsewhere(tmp_path: Path, victim: Path, plant: str) -> None:
    """Its author can put links under each name that nsyswrap writes."""
    run = RunFolder(tmp_path / "run")
    run.make()
    for name in (*FILES, *(f".{name}.part" for name in FILES)):
        match plant:
            case "link":
                (run.path / name).symlink_to(victim)
            case "hard link":
                (run.path / name).hardlink_to(victim)
            case "pipe":
                os.mkfifo(run.path / name)
            case _:
                (run.path / name).symlink_to(tmp_path / "nothing")
    for name in FILES:
        run.write(name, "new")
        os.close(run.open(name))
    run.create({"nsyswrap": "0"}, force=True)
    run.write_status(Status("done", 0, 0, 0))
    assert victim.read_text() == "precious"
    assert not (tmp_path / "nothing").exists()
    assert (victim.stat().st_mode & 0o777, (run.path / "status.json").stat().st_mode & 0o777) == (
        0o644,
        0o600,
    )
    shutil.rmtree(run.path)
