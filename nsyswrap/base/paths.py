"""Look at what is at a path, which may be of another user, too long, or on a file system that fails.

Where nothing is, the answer is None, False or empty; a link to itself and a path that is too long are
nothing. Where this user may not look, or where the file system fails, Unreadable is raised. An output follows
no symbolic link that another user can have planted.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nsyswrap.base.errors import OutputError, Unreadable, UsageError
from nsyswrap.base.lazy import lazy_imports

if TYPE_CHECKING:
    from pathlib import Path

with lazy_imports():
    import fnmatch
    import pathlib


Skip = Callable[[Unreadable], None]
_SHARE = "ask its owner to share it (--share group)"
_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG}
_REFUSED = {errno.EACCES, errno.EPERM}
_MAGIC = frozenset("*?[")
_ANY_FOLDERS = "**"
_MOST = 40  # links, as Linux follows
_ROOT = 0


def unreadable(path: Path | str, error: OSError) -> Unreadable:
    """Return the error for a path that the system does not let us look at or read.

    It names the first folder on the way that is hidden, if the path lies below one.
    """
    while (parent := os.path.dirname(path)) and parent != path and not os.access(parent, os.F_OK):  # noqa: PTH120
        path = parent
    reason = error.strerror or str(error)
    made = Unreadable(f"{path} cannot be read: {reason}", advice(error))
    made.path, made.reason = str(path), reason
    return made


def advice(error: OSError) -> str:
    """Return what to do about a file that cannot be read; empty if that is not known."""
    return _SHARE if error.errno in _REFUSED else ""


def status(path: Path | str, *, follow: bool = True) -> os.stat_result | None:
    """Return the status of what is at a path, None if nothing is; of a link itself without ``follow``.

    Raises Unreadable.
    """
    try:
        return os.stat(path, follow_symlinks=follow)  # noqa: PTH116 - faster, for 100,000 runs
    except ValueError:  # the path has a NUL
        return None
    except OSError as error:
        if error.errno in _ABSENT:
            return None
        raise unreadable(path, error) from None


def exists(path: Path | str, *, follow: bool = True) -> bool:
    """Return True if something is at a path; without ``follow`` a broken link counts. Raises Unreadable."""
    return status(path, follow=follow) is not None


def is_file(path: Path | str, *, follow: bool = True) -> bool:
    """Return True for a regular file. Raises Unreadable."""
    facts = status(path, follow=follow)
    return facts is not None and stat.S_ISREG(facts.st_mode)


def is_folder(path: Path | str, *, follow: bool = True) -> bool:
    """Return True for a folder. Raises Unreadable."""
    facts = status(path, follow=follow)
    return facts is not None and stat.S_ISDIR(facts.st_mode)


def is_link(path: Path | str) -> bool:
    """Return True for a symbolic link, also for a broken one. Raises Unreadable."""
    facts = status(path, follow=False)
    return facts is not None and stat.S_ISLNK(facts.st_mode)


def size(path: Path | str) -> int:
    """Return the size of a file in bytes; 0 if nothing is there. Raises Unreadable."""
    facts = status(path)
    return facts.st_size if facts else 0


def real(path: Path | str) -> Path:
    """Return the absolute path without links, as far as these can be followed."""
    return pathlib.Path(os.path.realpath(path))


def ignore(_: Unreadable) -> None:
    """Skip a folder without a word: one where nothing is missed."""


def names(folder: Path | str, skip: Skip | None = None) -> list[str]:
    """Return the sorted names in a folder; none if it is not a folder.

    ``skip`` is called for a folder that may not be listed; without it Unreadable is raised.
    """
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - faster, for 100,000 runs
    except ValueError:
        return []
    except OSError as error:
        if error.errno in _ABSENT:
            return []
        _pass(unreadable(folder, error), skip)
        return []


def below(folder: Path | str) -> Iterator[Path]:
    """Yield all that is below a folder, hidden names too. No link is followed. Raises Unreadable."""
    for name in names(folder):
        path = pathlib.Path(folder, name)
        yield path
        if is_folder(path, follow=False):
            yield from below(path)


def matching(folder: Path | str, pattern: str, skip: Skip | None = None) -> Iterator[Path]:
    """Yield what matches a pattern in a folder, such as ``*/status.json``, sorted level by level.

    As in a shell, ``*`` matches no hidden name, and ``**`` stands for any folders and for none. ``skip`` is
    called for a folder that may not be entered, and the search goes on; without it Unreadable is raised.
    """
    first, _, rest = pattern.partition("/")
    if first == _ANY_FOLDERS:
        if not rest:
            yield pathlib.Path(folder)
        for inner in _folders(folder, skip):
            yield from matching(inner, rest or "*", skip)
        return
    for path in _inside(folder, first, skip):
        if rest:
            yield from matching(path, rest, skip)
        else:
            yield path


def _inside(folder: Path | str, pattern: str, skip: Skip | None) -> list[Path]:
    if _MAGIC.isdisjoint(pattern):
        found = [pattern] if _status_or_skipped(f"{folder}/{pattern}", skip, folder) else []
    else:
        every = names(folder, skip)
        found = fnmatch.filter([one for one in every if pattern[0] == "." or one[0] != "."], pattern)
    return [pathlib.Path(folder, name) for name in found]


def _folders(
    folder: Path | str, skip: Skip | None, above: frozenset[tuple[int, int]] = frozenset()
) -> Iterator[Path | str]:
    """Yield a folder and those below it. A link to a folder above is not followed."""
    facts = _status_or_skipped(folder, skip, folder)
    if facts is None or not stat.S_ISDIR(facts.st_mode) or (facts.st_dev, facts.st_ino) in above:
        return
    yield folder
    for path in _inside(folder, "*", skip):
        yield from _folders(path, skip, above | {(facts.st_dev, facts.st_ino)})


def _status_or_skipped(path: Path | str, skip: Skip | None, folder: Path | str) -> os.stat_result | None:
    try:
        return status(path)
    except Unreadable as error:
        error.path = str(folder)
        _pass(error, skip)
        return None


def _pass(error: Unreadable, skip: Skip | None) -> None:
    if skip is None:
        raise error from None
    skip(error)


@contextmanager
def writing(path: Path | str, hint: str = "") -> Iterator[None]:
    """Turn an error of the system in this block, and Unreadable, into OutputError, which names ``path``."""
    try:
        yield
    except Unreadable as error:
        raise OutputError(f"cannot write {path}: {error.reason}", hint) from None
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}", hint) from None


def check_current() -> None:
    """Raise UsageError if the current folder was removed."""
    try:
        os.getcwd()  # noqa: PTH109 - pathlib would be imported
    except OSError:
        raise UsageError("the current folder was removed", "change into another folder") from None


def is_taken(path: Path | str) -> bool:
    """Return True if something is at the path of an output, also a broken link. Raises OutputError."""
    with writing(path):
        return exists(path, follow=False)


def is_filled(folder: Path | str) -> bool:
    """Return True if something is in the folder of an output, or if it is no folder. Raises OutputError."""
    with writing(folder):
        return bool(names(folder)) or (exists(folder) and not is_folder(folder))


def target_of(path: Path) -> Path:
    """Return where an output at ``path`` is written: the path itself, or what its link leads to.

    A link is followed if it belongs to this user or root, and nobody else can write its folder. Raises
    OutputError for any other link, OSError for a loop, and Unreadable.
    """
    for _ in range(_MOST):
        check_way(path)
        facts = status(path, follow=False)
        if facts is None or not stat.S_ISLNK(facts.st_mode):
            return real(path.parent) / path.name
        if facts.st_uid not in (os.geteuid(), _ROOT):
            raise _refusal(path, "a symbolic link of another user")
        if not _is_closed(path.parent):
            raise _refusal(path, "a symbolic link in a folder that other users can write")
        path = path.parent / path.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def check_target(path: Path) -> None:
    """Raise OutputError unless ``target_of`` follows what is at the path of an output."""
    with writing(path):
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
        facts = status(folder, follow=False)
        if facts is None or not stat.S_ISLNK(facts.st_mode):
            continue
        above = status(folder.parent)
        is_shared = above and above.st_mode & stat.S_ISVTX and above.st_mode & stat.S_IWOTH
        if above and is_shared and facts.st_uid not in (os.geteuid(), above.st_uid):
            raise _refusal(folder, "a symbolic link of another user")


def _is_closed(folder: Path) -> bool:
    """Return True if nobody but this user and root can write a folder."""
    facts = status(folder)
    others = stat.S_IWGRP | stat.S_IWOTH
    return facts is not None and facts.st_uid in (os.geteuid(), _ROOT) and not facts.st_mode & others


def _refusal(link: Path, kind: str) -> OutputError:
    return OutputError(
        f"cannot write {link}: it is {kind}, to {link.readlink()}", "remove the link, or use another output"
    )
