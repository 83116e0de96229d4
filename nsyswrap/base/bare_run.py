"""A run of a program without nsys, for comparison: what `record` notes in ``run.json`` and others read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nsyswrap.base.files import typed

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class BareRun:
    """A run without nsys. ``program_s``: the time from exec to exit in s, None if it is not known."""

    exit_code: int
    program_s: float | None


def bare_run_of(run: Mapping[str, Any]) -> BareRun | None:
    """Return the run without nsys in the content of ``run.json``; None if it is missing or invalid."""
    try:
        return typed(BareRun, run["bare"])
    except (KeyError, ValueError):
        return None
