"""Count which files and folders Python opens, to hold down what many runs cost without measuring time."""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

_EVENTS = {"open", "os.listdir", "os.scandir", "sqlite3.connect"}
_counters: list[tuple[str, Counter[str]]] = []


@contextmanager
def accesses(folder: Path) -> Iterator[Counter[str]]:
    """Yield how often each path below ``folder`` is opened, listed, or opened by SQLite in the block."""
    _watch()
    counter: Counter[str] = Counter()
    _counters.append((str(folder), counter))
    try:
        yield counter
    finally:
        _counters.remove((str(folder), counter))


@cache
def _watch() -> None:
    sys.addaudithook(_note)  # which cannot be removed


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if _counters and event in _EVENTS:
        for folder, counter in _counters:
            if folder in str(arguments[0]):
                counter[str(arguments[0])] += 1
