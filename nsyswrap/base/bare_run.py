"""A run of a program without nsys, for comparison: what `record` notes in ``run.json`` and others read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nsyswrap.base.files import typed

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class RangeTimes:
    """The occurrences of one NVTX range, and the median time in ns from the start of one to the next."""

    count: int
    median_ns: float


@dataclass(frozen=True)
class BareRun:
    """A run without nsys. ``program_s``: the time from exec to exit in s, None if it is not known.

    ``ranges`` has the NVTX ranges of the default domain that repeat. ``no_ranges`` says why none were timed.
    """

    exit_code: int
    program_s: float | None
    ranges: Mapping[str, RangeTimes] = field(default_factory=dict)
    no_ranges: str = ""


def bare_run_of(run: Mapping[str, Any]) -> BareRun | None:
    """Return the run without nsys in the content of ``run.json``; None if it is missing or invalid."""
    try:
        return typed(BareRun, run["bare"])
    except (KeyError, ValueError):
        return None
