"""Places of another user, and nsyswrap run by a user who may not look into them."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

SOMEBODY = 4242  # the id of the other user, who needs no entry in passwd
# Root without its capabilities is an ordinary user: it owns its files, and may not look at those of others.
ORDINARY = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()
INSIDE, UNREADABLE = "in a folder that may not be entered", "that may not be read"
TOO_LONG, LOOP = "with a name that is too long", "that is a link to itself"
PLACES: dict[str, Callable[[str], str]] = {  # the path of a thing by its name
    INSIDE: lambda name: f"inside/{name}",
    UNREADABLE: lambda name: f"closed/{name}",
    "with files that may not be read": lambda name: f"unread/{name}",
    TOO_LONG: lambda name: f"{'n' * 250}-{name}",
    "with a path that is too long": lambda name: f"{'long/' * 1000}{name}",
    LOOP: lambda name: f"loop/{name}",
}


def lacks() -> str:
    """Return what this machine lacks for files of another user; empty if it lacks nothing."""
    if os.geteuid():
        return "only root can make files of another user"
    return "" if shutil.which("setpriv") else "needs setpriv (util-linux): root reads everything"


def give(path: Path, mode: int | None = None) -> Path:
    """Give a file, or a folder with all in it, to the other user; ``mode`` is that of the path itself."""
    if mode is not None:
        path.chmod(mode)
    for one in (path, *(path.rglob("*") if path.is_dir() and not path.is_symlink() else ())):
        os.chown(one, SOMEBODY, SOMEBODY, follow_symlinks=False)
    return path


def make_places(folder: Path, things: Path) -> None:
    """Make the places of PLACES in a folder, with copies of the files and folders in ``things``."""
    give(shutil.copytree(things, folder / "inside"), 0o700)
    closed, unread = (shutil.copytree(things, folder / name) for name in ("closed", "unread"))
    for thing in closed.iterdir():
        give(thing, 0o700 if thing.is_dir() else 0o600)
    for path in unread.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o600)
    give(unread, 0o755)
    (folder / "loop").mkdir()
    for thing in things.iterdir():
        (folder / "loop" / thing.name).symlink_to(thing.name)
