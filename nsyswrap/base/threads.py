"""Work on blocks in threads, for code that releases the interpreter lock, as numpy and zlib do."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import TypeVar

from nsyswrap.base.lazy import lazy_imports

with lazy_imports():
    from concurrent import futures


T = TypeVar("T")
Item = TypeVar("Item")


def usable_cpus() -> int:
    """Return the number of CPUs this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_threads(work: Callable[[Item], T], items: Iterable[Item], most: int, few: int = 0) -> Iterator[T]:
    """Yield ``work`` of each item in order, done in at most so many threads.

    Items are taken as there is room, so that few results wait. This thread does the work alone for up to
    ``few`` items, when importing threads would take longer, and where the system has no more threads.
    """
    items = iter(items)
    first = list(islice(items, few + 1))
    if len(first) <= few:
        yield from map(work, first)
        return
    count = min(most, usable_cpus())
    under_way: deque[futures.Future[T]] = deque()
    with futures.ThreadPoolExecutor(count) as pool:
        for item in chain(first, items):
            try:
                under_way.append(pool.submit(work, item))
            except RuntimeError:
                under_way.append(futures.Future())
                under_way[-1].set_result(work(item))
            if len(under_way) > count + 1:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
