"""The tasks of a job array, as Slurm writes them and as it takes them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_SPAN = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")


def indexes(text: str) -> tuple[int, ...]:
    """Return the tasks that Slurm writes as ``7`` or ``1,3-5,10-20:5%2``."""
    found: list[int] = []
    for part in text.partition("%")[0].strip("[]").split(","):
        bounds = _SPAN.fullmatch(part)
        if bounds:
            first, last, step = (int(one) if one else 0 for one in bounds.groups())
            found += range(first, (last or first) + 1, step or 1)
    return tuple(found)


def as_text(tasks: Iterable[int]) -> str:
    """Return tasks as sbatch takes them: ``1-4,7``."""
    spans: list[list[int]] = []
    for task in sorted(tasks):
        if spans and task == spans[-1][1] + 1:
            spans[-1][1] = task
        else:
            spans.append([task, task])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def array(tasks: Iterable[int], max_running: int | None) -> str:
    """Return what ``--array`` takes: tasks, and how many of them run at a time: ``1-4,7%2``."""
    return as_text(tasks) + (f"%{max_running}" if max_running else "")
