"""What one run is to be: the program, how nsys records it, and where to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nsyswrap.base.nsys import command as nsys

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from nsyswrap.record.program import Program


@dataclass(frozen=True)
class RunSpec:
    """What to run, how to record it, and where to.

    ``env`` is added to the program's environment; ``timeout_s`` ends the run; ``keep_output`` and
    ``keep_errors`` send the program's stdout and stderr into the run folder instead of to ours. ``rank``:
    which rank of a launch it is, for run.json.
    """

    program: Program
    output: Path
    options: nsys.Options = field(default_factory=nsys.Options)
    nsys_path: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float | None = None
    force: bool = False
    keep_output: bool = False
    keep_errors: bool = False
    rank: Mapping[str, object] = field(default_factory=dict)
