"""Write files atomically, and never over a capture; read small files that may be damaged or hostile."""

from __future__ import annotations

import errno
import fcntl
import math
import os
import re
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from itertools import chain
from pathlib import Path
from reprlib import repr as shortened
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from nsyswrap.base import paths
from nsyswrap.base.errors import OutputError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.records import dataclass
from nsyswrap.base.threads import in_threads

with lazy_imports():  # none of these for completion
    import json
    import shutil
    import socket
    import tempfile

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib


ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]

LOCK = "lock"
_LONGEST = 200  # bytes of a lock file
_GLANCE_S = 0.2  # longer than `is_locked` takes, which shares a lock of the file
_LONG_GLANCE_S = 60  # the same on a machine that is so busy that it gives the other process no turn
_PAUSE_S = 0.1
_held: dict[str, int] = {}  # path of a folder that this process has locked -> descriptor of its lock file
_HOLDER = re.compile(r"(?P<host>.+), process (?P<pid>\d+)")


# Temporary folders that are removed also if a signal ends the command, and the signals that do.


@contextmanager
def shielded() -> Iterator[None]:
    """Block the signals that end a command: they come after the block. What it starts inherits this."""
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def temporary_folder(parent: Path | None = None, prefix: str = "nsyswrap-") -> Iterator[Path]:
    """Yield a new private folder in ``parent``, by default in TMPDIR, and remove it. Raises OSError."""
    with ExitStack() as folders:
        with shielded():  # no signal comes between the making and the callback
            folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
            folders.callback(_remove, folder)
        yield folder


def _remove(folder: Path) -> None:
    with shielded():
        shutil.rmtree(folder, ignore_errors=True)


Result = TypeVar("Result")
T = TypeVar("T")

_SQLITE = b"SQLite format 3\x00"
_CONTENT = "the content"
_PRIVATE_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_PART = "part"  # name of the temporary file
_MOVED = "its temporary folder was moved away"
_BLOCK = 4096
_FEW_BLOCKS = 2  # header and rows of a small table, for which a thread is not worth its start
SMALL_BYTES = 64 << 20  # of a file that describes a run or a batch: that of 100,000 runs has 14 MB
TOML_BYTES = 4 << 20  # of what a person writes: a plan of 99,999 points has 3.4 MB
LARGE_BYTES = 1 << 30  # of a file with the figures of a run, or the captures of many
_READ_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_INT64 = range(-(2**63), 2**63)
_SCALARS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    type(None): "null",
}
_PLAIN = {str, bool, type(None)}  # types of which every value is valid
_NUMBERS = {int, float}
_MOST_DOTS = 100  # of one key in TOML: tomllib takes a time that grows with their square
_KEY = rb"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')"""
_LONG_KEY = rb"(?<![\w-])%b(?:[ \t]*\.[ \t]*%b){%d}" % (_KEY, _KEY, _MOST_DOTS + 1)
RECORDINGS = (".nsys-rep", ".qdrep", ".qdstrm")


def write(path: Path, content: str | bytes | Iterator[bytes], *, follow: bool = True) -> None:
    """Write a file as ``replacing`` does. Text is written as UTF-8; undecodable file names stay as they were.

    An iterator yields the content in blocks; a thread writes one while the next is made. Raises OutputError.
    """
    if isinstance(content, str):
        content = content.encode("utf-8", "surrogateescape")
    with replacing(path, follow=follow) as part, part.open("wb") as file:
        blocks = iter([content]) if isinstance(content, bytes) else content
        if part == path:  # a pipe: no signal would end a thread that waits for its reader
            file.writelines(blocks)
            return
        for _ in in_threads(file.write, blocks, 1, _FEW_BLOCKS):
            pass


@contextmanager
def replacing(path: Path, *, capture: bool = False, follow: bool = True) -> Iterator[Path]:
    """Yield a temporary file that replaces ``path`` at the end of the block, or is removed after an error.

    Missing folders are created. The target of a symbolic link is replaced if ``links`` allows it; without
    ``follow`` the link itself is replaced. A pipe or device is yielded itself. ``capture``: the new file is a
    capture, which may replace a capture. Raises OutputError for every OSError in the block.
    """
    with paths.writing(path):
        if not capture:
            refuse_capture(path)
        target = paths.target_of(path) if follow else paths.real(path.parent) / path.name
        earlier = paths.status(path, follow=follow)
        if earlier and stat.S_ISDIR(earlier.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        paths.make_folders(target.parent)
    is_stream = earlier and not (stat.S_ISREG(earlier.st_mode) or stat.S_ISLNK(earlier.st_mode))
    try:
        if is_stream:
            yield path
            return
        with private_folder(target.parent) as private:
            yield private.path / _PART
            mode = earlier.st_mode if earlier and stat.S_ISREG(earlier.st_mode) else None
            private.move(_PART, target, mode)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from None


@dataclass(frozen=True)
class PrivateFolder:
    """A new folder that only this user can enter, for files that replace others."""

    path: Path
    descriptor: int

    def move(self, name: str, target: Path, mode: int | None = None) -> None:
        """Move a file of the folder to ``target``, with this mode. Raises OSError."""
        if not self.is_there():
            raise OSError(errno.EBUSY, _MOVED)
        if mode is not None:
            os.chmod(name, stat.S_IMODE(mode), dir_fd=self.descriptor)
        os.replace(name, target, src_dir_fd=self.descriptor)

    def remove(self) -> None:
        """Remove the folder with all that is in it, unless another is in its place."""
        with shielded():
            if self.is_there():
                shutil.rmtree(self.path, ignore_errors=True)
            os.close(self.descriptor)

    def is_there(self) -> bool:
        """Return True if nobody put another folder in its place."""
        try:
            return os.path.samestat(os.fstat(self.descriptor), os.lstat(self.path))
        except OSError:
            return False


@contextmanager
def private_folder(parent: Path) -> Iterator[PrivateFolder]:
    """Make a PrivateFolder in ``parent`` for the block. Raises OSError."""
    with ExitStack() as opened:
        with shielded():  # no signal comes between the making and the callback
            path = Path(tempfile.mkdtemp(prefix=".nsyswrap-", dir=parent))
            private = PrivateFolder(path, os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW))
            opened.callback(private.remove)
        # On NFS the files of root can be those of nobody.
        if os.geteuid() not in (os.fstat(private.descriptor).st_uid, 0):
            raise OSError(errno.EBUSY, _MOVED)
        yield private


def open_private(path: Path, mode: int) -> int:
    """Open a file for writing from its start, with this mode regardless of the umask; it is not truncated.

    Its folder can come from elsewhere, with anything under its name. What is no file of its own, such as a
    link, is removed and never written through. Raises OSError and Unreadable.
    """
    facts = paths.status(path, follow=False)
    if facts and not _is_plain(facts):
        path.unlink()
    descriptor = os.open(path, _PRIVATE_FLAGS, 0o600)
    if not _is_plain(os.fstat(descriptor)):
        os.close(descriptor)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    os.fchmod(descriptor, mode & 0o777)
    return descriptor


def _is_plain(facts: os.stat_result) -> bool:
    """Return True for a regular file with one name."""
    return stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1


def user_folder(variable: str, default: str) -> Path | None:
    """Return the folder of nsyswrap in that of an XDG variable or in ``~/<default>``; None without a home.

    The folder need not exist.
    """
    base = os.environ.get(variable, "")
    try:
        return (Path(base) if base.startswith("/") else Path.home() / default) / "nsyswrap"
    except RuntimeError:  # a user without an entry in passwd, in a container
        return None


def read_json(path: Path | str, most: int = SMALL_BYTES) -> Any:  # noqa: ANN401 - any JSON
    """Return the content of a JSON file of at most ``most`` bytes.

    Raises OSError as ``small_file`` does, and ValueError, also for what JSON does not define: NaN, and a key
    twice.
    """
    return json_of(small_file(path, most))


def small_file(path: Path | str, most: int = SMALL_BYTES) -> bytes:
    """Return the content of a file of at most ``most`` bytes, a number of MiB.

    Raises OSError, also for a larger file, and for a pipe: reading it would wait forever.
    """
    with reading(path) as (descriptor, size):
        content = b""
        while max(size, len(content)) <= most and (part := os.read(descriptor, max(size, _BLOCK))):
            content += part
    if max(size, len(content)) > most:
        raise OSError(errno.EFBIG, f"larger than {most >> 20} MiB", str(path))
    return content


def head(path: Path | str, count: int) -> bytes:
    """Return the first ``count`` bytes of a file. Raises OSError as ``small_file`` does."""
    with reading(path) as (descriptor, _):
        return os.read(descriptor, count)


def tail(path: Path | str, count: int) -> bytes:
    """Return the last ``count`` bytes of a file. Raises OSError as ``small_file`` does."""
    with reading(path) as (descriptor, size):
        return os.pread(descriptor, count, max(0, size - count))


def ends(path: Path | str, count: int) -> bytes:
    """Return a file whole, or the first and the last ``count`` bytes of a larger one, and how many lack.

    Raises OSError as ``small_file`` does.
    """
    with reading(path) as (descriptor, size):
        if size <= 2 * count:
            return os.read(descriptor, size)
        lacking = f"\n[... {size - 2 * count:,} bytes left out ...]\n".encode()
        return os.pread(descriptor, count, 0) + lacking + os.pread(descriptor, count, size - count)


@contextmanager
def reading(path: Path | str) -> Iterator[tuple[int, int]]:
    """Yield a descriptor of a regular file, and its size."""
    descriptor = os.open(path, _READ_FLAGS)
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        yield descriptor, facts.st_size
    finally:
        os.close(descriptor)


def json_of(content: bytes) -> Any:  # noqa: ANN401 - any JSON
    """Return the content of JSON in UTF-8. Raises ValueError as ``read_json`` does."""
    parse = partial(json.loads, object_pairs_hook=_once, parse_constant=_refuse)
    return parsed(parse, content.decode("utf-8", "surrogateescape"))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} occurs twice")
    return made


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a number")


def parsed(parse: Callable[[str], Result], text: str) -> Result:
    """Return what a parser of JSON or TOML returns. Raises ValueError, also for a text nested too deeply."""
    try:
        return parse(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_toml(path: Path, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """Return the content of a TOML file or of a pipe that has a writer. Raises OSError and ValueError."""
    # It does not wait for the writer of a pipe.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        os.set_blocking(file.fileno(), True)
        return parse_toml(file.read(TOML_BYTES + 1), parse_float)


def parse_toml(content: bytes, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """Return the content of a TOML document in UTF-8; a byte order mark is skipped. Raises ValueError."""
    if len(content) > TOML_BYTES:
        raise ValueError(f"it is larger than {TOML_BYTES >> 20} MiB")
    if re.search(_LONG_KEY, content):
        raise ValueError(f"a key has more than {_MOST_DOTS} parts")
    return parsed(lambda text: tomllib.loads(text, parse_float=parse_float), content.decode("utf-8-sig"))


def brief(value: object) -> str:
    """Return a value of a file for a message, cut if it is long, wide or deep."""
    try:
        text = shortened(value)
    except ValueError:  # Python writes no whole number of thousands of digits
        text = "<int instance"  # as Python 3.15 writes it
    return "a number of thousands of digits" if text.startswith("<int instance") else text


def why(error: Exception) -> str:
    """Return what is wrong with a file, without its name."""
    return (error.strerror if isinstance(error, OSError) else "") or str(error)


def typed(kind: type[T], value: object, name: str = _CONTENT) -> T:
    """Return ``value`` as a ``kind``: a dataclass, a scalar, a Literal, a union, or a list or dict of these.

    Keys that a dataclass does not have are ignored. Raises ValueError with the place, which begins with
    ``name``.
    """
    checked: T = _typed(kind, value, name)
    return checked


def _typed(kind: Any, value: Any, name: str) -> Any:  # noqa: ANN401 - any type
    origin, arguments, scalars = _parts(kind)
    if kind is Any or _is_scalar(scalars, value):
        return value
    if origin in (Union, UnionType) and not scalars:
        return _one_of(arguments, value, name)
    if origin is Literal and isinstance(value, str) and value in arguments:
        return value
    if origin in (list, tuple, Sequence) and isinstance(value, list):
        return _listed(origin, arguments, value, name)
    if origin in (dict, Mapping) and isinstance(value, dict):
        are_scalars = _are(_parts(arguments[1])[2], [*value.values()])
        each = value if are_scalars else {k: _typed(arguments[1], v, f"{name}.{k}") for k, v in value.items()}
        return dict(each)
    if is_dataclass(kind) and isinstance(value, dict):
        return _instance(kind, value, name)
    raise ValueError(f"{name} is {brief(value)}: expected {_in_words(kind)}")


@cache
def _parts(kind: Any) -> tuple[Any, tuple[Any, ...], frozenset[type]]:  # noqa: ANN401 - any type
    """Return origin and arguments of a type, and the types that it allows if these are scalars."""
    origin, arguments = get_origin(kind), get_args(kind)
    kinds = arguments if origin in (Union, UnionType) else (kind,)
    return origin, arguments, frozenset(kinds if all(one in _SCALARS for one in kinds) else ())


def _is_scalar(kinds: frozenset[type], value: object) -> bool:
    """Return True if a value has one of these types exactly, as ``_are`` says it."""
    kind = type(value)
    if kind in _PLAIN:
        return kind in kinds
    return kind in _NUMBERS and bool(kinds) and _are(kinds, [value])


def _are(kinds: frozenset[type], values: list[Any]) -> bool:
    """Return True if all values have these types exactly. A whole number is a float, too.

    Whole numbers must fit into 64 bits, other numbers must be finite.
    """
    if not set(map(type, values)) <= (kinds | {int} if float in kinds else kinds):
        return False
    whole = [value for value in values if type(value) is int]
    fit = not whole or (min(whole) in _INT64 and max(whole) in _INT64)
    return fit and all(map(math.isfinite, [value for value in values if type(value) is float]))


def _one_of(kinds: Sequence[Any], value: object, name: str) -> object:
    for kind in kinds:
        with suppress(ValueError):
            return _typed(kind, value, name)
    raise ValueError(f"{name} is {brief(value)}: expected {' or '.join(map(_in_words, kinds))}")


def _listed(origin: Any, kinds: Sequence[Any], values: list[Any], name: str) -> Sequence[Any]:  # noqa: ANN401 - any type
    is_long = origin is not tuple or kinds[1:] == (...,)
    if is_long and _is_table(kinds[0], values):
        return values if origin is list else tuple(values)
    if not is_long and len(values) != len(kinds):
        raise ValueError(f"{name} has {len(values)} values: expected {len(kinds)}")
    if not is_long or not (
        kinds[0] is Any or _are(_parts(kinds[0])[2], values)
    ):  # a list of numbers can have millions
        each = [kinds[0]] * len(values) if is_long else kinds
        records = _records(kinds[0], values) if is_dataclass(kinds[0]) else []
        values = records or [
            _typed(kind, one, f"{name}[{i}]") for i, (kind, one) in enumerate(zip(each, values, strict=True))
        ]
    return values if origin is list else tuple(values)


def _is_table(kind: Any, values: list[Any]) -> bool:  # noqa: ANN401 - any type
    """Return True for lists of scalars of this kind: a digest has hundreds, which are checked as one."""
    origin, arguments, _ = _parts(kind)
    scalars = _parts(arguments[0])[2] if origin is list else frozenset[type]()
    return bool(scalars) and set(map(type, values)) == {list} and _are(scalars, list(chain(*values)))


def _records(kind: Any, values: list[Any]) -> list[Any]:  # noqa: ANN401 - any type
    """Return dataclasses of scalars, checked field by field: batch.json can have 100,000.

    The list is empty if one of them is not valid, or if a field is no scalar.
    """
    if set(map(type, values)) != {dict}:
        return []
    kinds = _hints(kind)
    for name, (_, scalars) in kinds.items():
        given = [one[name] for one in values if name in one]
        is_lacking = len(given) < len(values) and name in _required(kind)
        if is_lacking or not scalars or not _are(scalars, given):
            return []
    return [kind(**{name: one[name] for name in kinds if name in one}) for one in values]


def _instance(kind: Any, value: dict[str, Any], name: str) -> object:  # noqa: ANN401 - any dataclass
    for required in _required(kind):
        if required not in value:
            raise ValueError(f"{name} has no {required!r}")
    place = "" if name == _CONTENT else f"{name}."
    known = {}
    for key, (one_kind, scalars) in _hints(kind).items():
        if key in value:
            one = value[key]
            known[key] = one if _is_scalar(scalars, one) else _typed(one_kind, one, f"{place}{key}")
    return kind(**known)


@cache
def _hints(kind: type) -> dict[str, tuple[Any, frozenset[type]]]:
    """Return the type of each field of a dataclass, and the types that it allows if these are scalars."""
    hints = get_type_hints(kind, localns={"Mapping": Mapping, "Sequence": Sequence})
    return {name: (one, _parts(one)[2]) for name, one in hints.items()}


@cache
def _required(kind: type) -> tuple[str, ...]:
    return tuple(
        one.name for one in fields(kind) if one.default is MISSING and one.default_factory is MISSING
    )


def _in_words(kind: Any) -> str:  # noqa: ANN401 - any type
    origin, arguments, _ = _parts(kind)
    if kind in _SCALARS:
        return _SCALARS[kind]
    if origin is Literal:
        return f"one of {', '.join(arguments)}"
    if origin in (Union, UnionType):
        return " or ".join(map(_in_words, arguments))
    return "a list" if origin in (list, tuple, Sequence) else "an object"


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
    with paths.writing(path):
        if not paths.is_file(path):
            return
        is_export = head(path, len(_SQLITE)) == _SQLITE
    if is_export or paths.real(path).suffix in RECORDINGS:
        raise OutputError(
            f"{path} is a capture or another database; it is not replaced", "use another file name"
        )


# Lock a folder, so that one process at a time works in it. The system releases the lock with the process.


@contextmanager
def locked(folder: Path, user: str, hint: str = "", patience_s: float = 0) -> Iterator[None]:
    """Lock a folder for a ``with`` block. Raises OutputError if another process holds the lock.

    It waits ``patience_s`` for that process, which ``user`` names in the message. The lock file is removed at
    the end of the block. The system releases the lock if this process is killed; the file then stays.
    """
    path, real = folder / LOCK, os.path.realpath(folder)
    with paths.writing(path, _whose(folder)):
        descriptor = _open(path, patience_s)
    try:
        if not _lock(descriptor):
            holder = os.read(descriptor, _LONGEST).decode(errors="replace").strip()
            message = f"{folder} is in use by {user} ({holder or 'unknown process'})"
            raise OutputError(message, hint, retryable=True)
        with suppress(OSError):  # a full disk: the file stays empty
            os.truncate(descriptor, 0)
            os.write(descriptor, f"{socket.gethostname()}, process {os.getpid()}".encode())
        _held[real] = descriptor
        try:
            yield
        finally:
            del _held[real]
            if _is_at(descriptor, path):
                path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _whose(folder: Path) -> str:
    """Return a hint for a folder of another user; else it is empty."""
    status = paths.status(folder)
    if status is None or status.st_uid == os.geteuid():
        return ""
    return f"{folder} belongs to another user: ask its owner, or use an --output of your own"


def descriptor_of(folder: Path) -> int | None:
    """Return the descriptor of the lock that this process has on a folder; None if it has none.

    A process that inherits it keeps the folder locked after this one.
    """
    return _held.get(os.path.realpath(folder))


def _open(path: Path, patience_s: float) -> int:
    """Open and lock the file, again if its holder removed it in the meantime, or for ``patience_s``.

    Raises OutputError if a file of this name is not a lock file.
    """
    deadline = time.monotonic() + max(patience_s, _GLANCE_S)
    while True:
        if paths.exists(path, follow=False) and not is_lock_file(path):
            raise OutputError(f"{path} exists and is not a lock file of nsyswrap", "use another --output")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        with suppress(OSError):  # the group of a shared run may test the lock
            folder = paths.status(path.parent)
            os.fchmod(descriptor, 0o600 | (folder.st_mode & 0o040 if folder else 0))
        late_s = time.monotonic() - deadline
        is_mine = _lock(descriptor)
        if _is_at(descriptor, path) if is_mine else _is_held(descriptor, late_s):
            return descriptor
        os.close(descriptor)
        if not is_mine:
            time.sleep(_PAUSE_S)


def _is_held(descriptor: int, late_s: float) -> bool:
    """Return True if no patience is left for the holder; one that only looks at the lock shares it."""
    return late_s > 0 and (late_s > _LONG_GLANCE_S or not _lock(descriptor, shared=True))


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))  # noqa: PTH116 - as fstat
    except OSError:
        return False


def is_locked(folder: Path | str) -> bool:
    """Return True if a process has locked the folder.

    A process on another machine counts only if the file system shares its locks.
    """
    path = f"{folder}/{LOCK}"
    if not os.access(path, os.F_OK):  # of 100,000 runs this takes half the time of an error
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # does not wait for the writer of a pipe
    except OSError:
        return False
    try:
        return not _lock(descriptor, shared=True)
    finally:
        os.close(descriptor)


def holder_here(folder: Path) -> int:
    """Return the id of the process on this machine that has locked the folder; 0 if there is none."""
    holder = _HOLDER.fullmatch(_text(folder / LOCK)) if is_locked(folder) else None
    return int(holder["pid"]) if holder and holder["host"] == socket.gethostname() else 0


def terminate(pid: int) -> None:
    """Send SIGTERM to a process that works in a folder. Nothing happens to one that has ended.

    Raises OutputError for a process of another user.
    """
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return
    except PermissionError:
        raise OutputError(f"process {pid} is that of another user", "ask its owner to end it") from None


def is_lock_file(path: Path) -> bool:
    """Return True if ``locked`` wrote this file: a user's own file may have the same name. A link is none."""
    if path.name != LOCK or not paths.is_file(path, follow=False):
        return False
    text = _text(path)
    return not text or _HOLDER.fullmatch(text) is not None


def _text(path: Path) -> str:
    try:
        return head(path, _LONGEST).decode(errors="replace")
    except OSError:
        return "?"


def _lock(descriptor: int, *, shared: bool = False) -> bool:
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks cannot keep two processes apart
        return True
    return True
