"""Name what of the system is used up when an error says so: open files, memory, or processes.

A program can keep the memory that it has freed.
"""

from __future__ import annotations

import atexit
import errno
import gc
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from nsyswrap.base.errors import Unavailable
from nsyswrap.base.lazy import lazy_imports

with lazy_imports():
    import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # of mallopt in glibc's malloc.h
_KEPT_BYTES = 2**31 - 1  # free at the end of the heap; mallopt takes no larger number
_NEW_OBJECTS = 50_000
LEAST_FILES = 64  # nsys' agent waits for ever with 24 open files, and stops with 28


class _Resource(NamedTuple):
    """What is used up, its limit, what `ulimit` calls that, and the unit of `ulimit` in bytes or pieces."""

    text: str
    limit: str
    flag: str
    unit: int


_FILES = _Resource("too many open files", "RLIMIT_NOFILE", "-n", 1)
_RESOURCES = {
    errno.EMFILE: _FILES,
    errno.ENOMEM: _Resource("out of memory", "RLIMIT_AS", "-v", 1024),
    errno.EAGAIN: _Resource("no further process or thread can be started", "RLIMIT_NPROC", "-u", 1),
}
_NO_THREAD = "can't start new thread"  # of a RuntimeError


def keep_freed_memory() -> None:
    """Let glibc keep freed memory of this process: most arrays then come without page faults.

    By default it gives each of them back to the system, which clears the pages of the next one. As it
    concerns the whole process, only a program may ask for it, not a library.
    """
    with suppress(AttributeError, OSError, TypeError):  # another C library, or another system
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_MAX, 0)  # no block outside of the heap
        libc.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


def collect_garbage_rarely() -> None:
    """Let Python search for cycles of unused objects after 50,000 new ones, not after 700, nor when it ends.

    Names and rows are many objects without cycles, so that most searches find nothing. The last ones, in all
    that is there, take a tenth of the time of a small screen.
    """
    gc.set_threshold(_NEW_OBJECTS)
    atexit.register(gc.freeze)  # what is registered later is done before


def lack(error: BaseException) -> Unavailable | None:
    """Return the error to show if this one, or one that led to it, says that something is used up."""
    found = next(filter(None, map(_resource, _chain(error))), None)
    if found is None:
        return None
    limit = _limit(found)
    known = f" (ulimit {found.flag} is {limit})" if limit is not None else ""
    return Unavailable(
        f"{found.text}{known}", f"end other programs, or raise the limit: see ulimit {found.flag}"
    )


def check_files() -> None:
    """Raise Unavailable if this process may open too few files for nsys."""
    limit = _limit(_FILES)
    if limit is not None and limit < LEAST_FILES:
        raise Unavailable(
            f"ulimit -n is {limit}: nsys needs {LEAST_FILES} open files", "raise the limit: ulimit -n 1024"
        )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _resource(error: BaseException) -> _Resource | None:
    if isinstance(error, MemoryError):
        return _RESOURCES[errno.ENOMEM]
    if isinstance(error, RuntimeError) and str(error) == _NO_THREAD:
        return _RESOURCES[errno.EAGAIN]
    # A full pipe gives the error of a fork that fails, with the number of bytes that were written.
    if not isinstance(error, OSError) or hasattr(error, "characters_written"):
        return None
    return _RESOURCES.get(error.errno or 0)


def _limit(kind: _Resource) -> int | None:
    """Return a limit of this process as `ulimit` prints it; None if there is none."""
    try:
        import resource  # noqa: PLC0415 - Windows lacks it, and a file must be opened for it
    except ImportError:
        return None
    limit = resource.getrlimit(getattr(resource, kind.limit))[0]
    return None if limit == resource.RLIM_INFINITY else limit // kind.unit
