"""Which symbolic links an output may follow: none that another user can have planted."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from nsyswrap.base import paths
from nsyswrap.base.errors import OutputError

if TYPE_CHECKING:
    from pathlib import Path

_MOST = 40  # links, as Linux follows
_ROOT = 0


def target_of(path: Path) -> Path:
    """Return where an output at ``path`` is written: the path itself, or what its link leads to.

    A link is followed if it belongs to this user or root, and nobody else can write its folder. Raises
    OutputError for any other link, OSError for a loop, and Unreadable.
    """
    for _ in range(_MOST):
        check_way(path)
        facts = paths.status(path, follow=False)
        if facts is None or not stat.S_ISLNK(facts.st_mode):
            return paths.real(path.parent) / path.name
        if facts.st_uid not in (os.geteuid(), _ROOT):
            raise _refusal(path, "a symbolic link of another user")
        if not _is_closed(path.parent):
            raise _refusal(path, "a symbolic link in a folder that other users can write")
        path = path.parent / path.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def check(path: Path) -> None:
    """Raise OutputError unless ``target_of`` follows what is at the path of an output."""
    with paths.writing(path):
        target_of(path)


def make_folders(path: Path) -> None:
    """Create a folder and its parents. Raises OutputError for a link on the way that is not followed."""
    check_way(path / "file")
    path.mkdir(parents=True, exist_ok=True)


def check_way(path: Path) -> None:
    """Raise OutputError if a folder above ``path`` is a link that another user planted.

    As Linux can do itself (fs.protected_symlinks), it refuses a link in a folder as /tmp that belongs neither
    to this user nor to the owner of that folder.
    """
    for folder in reversed(path.absolute().parents):
        facts = paths.status(folder, follow=False)
        if facts is None or not stat.S_ISLNK(facts.st_mode):
            continue
        above = paths.status(folder.parent)
        is_shared = above and above.st_mode & stat.S_ISVTX and above.st_mode & stat.S_IWOTH
        if above and is_shared and facts.st_uid not in (os.geteuid(), above.st_uid):
            raise _refusal(folder, "a symbolic link of another user")


def _is_closed(folder: Path) -> bool:
    """Return True if nobody but this user and root can write a folder."""
    facts = paths.status(folder)
    others = stat.S_IWGRP | stat.S_IWOTH
    return facts is not None and facts.st_uid in (os.geteuid(), _ROOT) and not facts.st_mode & others


def _refusal(link: Path, kind: str) -> OutputError:
    return OutputError(
        f"cannot write {link}: it is {kind}, to {link.readlink()}", "remove the link, or use another output"
    )
