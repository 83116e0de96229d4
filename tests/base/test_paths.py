"""What paths answers for places of another user, names that are too long, links to themselves."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import foreign
import pytest

from nsyswrap.base import paths
from nsyswrap.base.errors import OutputError, Unreadable

ROOT = Path(__file__).resolve().parents[2]
LOOKS: list[Callable[[Path], object]] = [
    paths.exists, paths.is_file, paths.is_folder, paths.is_link, paths.size, paths.names, paths.status,
    lambda path: list(paths.matching(path, "**/*.x")), lambda path: list(paths.below(path)), paths.is_taken,
]  # fmt: skip


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("path", ["none", "x" * 300, "y/" * 3000, "file/below", "loop/below", "nul\0"])
def test_nothing_is_there(tmp_path: Path, path: str, look: Callable[[Path], object]) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    assert not look(tmp_path / path)


def test_a_link_to_itself_is_a_link_to_nothing(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert (paths.exists(loop), paths.exists(loop, follow=False), paths.is_link(loop)) == (False, True, True)
    assert paths.real(loop / "x") == loop / "x"


# Prints what each look says of a path, as a user who may not enter the folder above it.
AS_AN_ORDINARY_USER = """
import sys
from pathlib import Path
from nsyswrap.base import paths
from nsyswrap.base.errors import NsyswrapError
folder = Path(sys.argv[1])
for look, path in (
    (paths.exists, folder / "inside" / "x"),
    (paths.names, folder / "inside"),
    (paths.is_taken, folder / "inside" / "x"),
    (lambda path: list(paths.matching(path, "*/x")), folder), (lambda path: list(paths.below(path)), folder),
    (lambda path: list(paths.matching(path, "*/x", lambda error: print(error.path))), folder),
    (lambda path: list(paths.matching(path, "**/x", lambda error: print(error.path))), folder),
):
    try:
        print([str(one.relative_to(folder)) for one in look(path)])
    except NsyswrapError as error:
        print(error.exit_code, error.message, error.hint)
"""


def test_a_folder_of_another_user(tmp_path: Path) -> None:
    if reason := foreign.lacks():
        pytest.skip(reason)
    for name in ("inside", "open"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text("")
    inside = foreign.give(tmp_path / "inside", 0o700)
    command = [*foreign.ORDINARY, sys.executable, "-c", AS_AN_ORDINARY_USER, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    share = "ask its owner to share it (--share group)"
    assert done.stdout.splitlines() == [
        f"65 {inside}/x cannot be read: Permission denied {share}",
        f"65 {inside} cannot be read: Permission denied {share}",
        f"73 cannot write {inside}/x: Permission denied ",
        f"65 {inside}/x cannot be read: Permission denied {share}",
        f"65 {inside} cannot be read: Permission denied {share}",
        str(inside),
        "['open/x']",
        str(inside),
        str(inside),
        "['open/x']",
    ]


@pytest.mark.parametrize(("number", "hint"), [(errno.EIO, ""), (errno.ESTALE, ""), (errno.EPERM, "--share")])
def test_a_file_system_that_fails(number: int, hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "stat", fail)
    with pytest.raises(Unreadable) as caught:
        paths.exists("/x")
    monkeypatch.undo()
    assert caught.value.message == f"/x cannot be read: {os.strerror(number)}"
    assert (hint in caught.value.hint, bool(caught.value.hint)) == (True, bool(hint))


def test_patterns_as_in_a_shell(tmp_path: Path) -> None:
    for name in ("a/x", "a/b/x", "c/.hidden/x", "x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "a" / "up").symlink_to("..")
    (tmp_path / "link").symlink_to("a")

    def found(pattern: str) -> list[str]:
        return [str(path.relative_to(tmp_path)) for path in paths.matching(tmp_path, pattern)]

    assert found("*") == ["a", "c", "link", "x"]
    assert found("*/x") == ["a/x", "link/x"]
    assert found("*/*/x") == ["a/b/x", "a/up/x", "link/b/x", "link/up/x"]
    assert found("**/x") == ["x", "a/x", "a/b/x", "link/x", "link/b/x"]
    assert found("c/.*/x") == ["c/.hidden/x"]
    assert found("[ac]/x") == ["a/x"]


def test_writing_names_the_output() -> None:
    with pytest.raises(OutputError) as caught, paths.writing("out", "use another -o"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert str(caught.value) == "cannot write out: No space left on device\nuse another -o"
