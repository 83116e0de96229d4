"""Write files atomically, and never over a capture; read small files that may be damaged or hostile."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nsyswrap.base.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Result = TypeVar("Result")

_SQLITE = b"SQLite format 3\x00"
RECORDINGS = (".nsys-rep", ".qdrep", ".qdstrm")


def write(path: Path, content: str | bytes) -> None:
    """Write a file as ``replacing`` does. Text is written as UTF-8; undecodable file names stay as they were.

    Raises OutputError.
    """
    raw = content if isinstance(content, bytes) else content.encode("utf-8", "surrogateescape")
    with replacing(path) as part:
        part.write_bytes(raw)


@contextmanager
def replacing(path: Path, *, capture: bool = False) -> Iterator[Path]:
    """Yield a temporary file that replaces ``path`` at the end of the block, or is removed after an error.

    Missing folders are created. For a symbolic link its target is replaced. A pipe or device is yielded
    itself. ``capture``: the new file is a capture, which may replace a capture. Raises OutputError for every
    OSError in the block.
    """
    try:
        if not capture:
            refuse_capture(path)
        if path.exists() and not path.is_file():  # a pipe or device; a folder raises IsADirectoryError
            yield path
            return
        target = path.resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            yield part
            if target.exists():
                shutil.copymode(target, part)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from None


def user_folder(variable: str, default: str) -> Path | None:
    """Return the folder of nsyswrap in that of an XDG variable or in ``~/<default>``; None without a home.

    The folder need not exist.
    """
    base = os.environ.get(variable, "")
    try:
        return (Path(base) if base.startswith("/") else Path.home() / default) / "nsyswrap"
    except RuntimeError:  # a user without an entry in passwd, in a container
        return None


def read_json(path: Path) -> Any:  # noqa: ANN401 - any JSON
    """Return the content of a JSON file. Raises OSError, also for a pipe, and ValueError."""
    if not stat.S_ISREG(path.stat().st_mode):  # reading a pipe would wait forever
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return parsed(json.loads, path.read_text(encoding="utf-8", errors="surrogateescape"))


def parsed(parse: Callable[[str], Result], text: str) -> Result:
    """Return what a parser of JSON or TOML returns. Raises ValueError, also for a text nested too deeply."""
    try:
        return parse(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def umask() -> int:
    """Return the umask of this process."""
    with suppress(OSError):  # os.umask() changes it for a moment, for all threads
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def refuse_capture(path: Path) -> None:
    """Raise OutputError if ``path`` is a capture or another SQLite database."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        is_export = file.read(len(_SQLITE)) == _SQLITE
    if is_export or path.resolve().suffix in RECORDINGS:
        raise OutputError(
            f"{path} is a capture or another database; it is not replaced", "use another file name"
        )
