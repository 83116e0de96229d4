"""What the hook did in this process, in a file that nsyswrap reads after the run."""

from __future__ import annotations

import atexit
import functools
import json
import mmap
import os
import sys
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = "NSYSWRAP_HOOK_NOTES"
_MOST_FAILURES = 5
_NUMBER_BYTES = 8
_ALLOCATOR = {
    "allocated_bytes": "allocated_bytes.all.peak",
    "reserved_bytes": "reserved_bytes.all.peak",
    "retries": "num_alloc_retries",
    "failures": "num_ooms",
}
_Result = TypeVar("_Result")

_facts: dict[str, Any] = {}


def add(**facts: Any) -> None:
    """Add facts, or replace earlier ones, and write all of them."""
    _facts.update(facts)
    write()


def failed(error: BaseException) -> None:
    """Note a failure of the hook: one line, without a traceback."""
    failures = _facts.setdefault("failures", [])
    line = f"{type(error).__name__}: {error}"
    if line not in failures and len(failures) < _MOST_FAILURES:
        failures.append(line)
        write()


def guarded(function: Callable[..., _Result]) -> Callable[..., _Result | None]:
    """Return ``function`` for use inside the program: if it fails, that is noted and None is returned."""

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> _Result | None:
        try:
            return function(*args, **keywords)
        except Exception as error:  # noqa: BLE001 - the program must run on
            failed(error)
            return None

    return call


def write() -> None:
    """Write the facts into the file of this process. Called often, so that a kill loses little."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return
    text = json.dumps({"pid": os.getpid(), **_facts})
    try:
        part = os.path.join(folder, f".{os.getpid()}.part")
        with open(part, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(part, os.path.join(folder, f"{os.getpid()}.json"))
    except OSError:
        pass


def counter() -> mmap.mmap | bytearray:
    """Return bytes for a number that nsyswrap reads after the run, however the process ends."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return bytearray(_NUMBER_BYTES)
    try:
        with open(os.path.join(folder, f"{os.getpid()}.steps"), "w+b") as file:
            file.write(bytes(_NUMBER_BYTES))
            file.flush()
            return mmap.mmap(file.fileno(), _NUMBER_BYTES)
    except (OSError, ValueError):
        return bytearray(_NUMBER_BYTES)


def watch_allocator() -> None:
    """Note at the exit what PyTorch's allocator held at most on each GPU. A killed process notes nothing."""
    atexit.register(guarded(_note_allocator))


def _note_allocator() -> None:
    cuda = sys.modules["torch"].cuda
    if not cuda.is_initialized():
        return
    every = [(gpu, cuda.memory_stats(gpu)) for gpu in range(cuda.device_count())]
    add(
        memory=[
            {"device": gpu, **{name: int(stats[key]) for name, key in _ALLOCATOR.items()}}
            for gpu, stats in every
            if stats.get(_ALLOCATOR["reserved_bytes"])
        ]
    )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_facts.clear)  # a forked worker has done nothing yet
