"""What one run is to be: the program, how nsys records it, where to, and what is called meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nsyswrap.base.nsys import command as nsys

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from nsyswrap.base.nsys.find import Nsys
    from nsyswrap.base.run_folder import Share
    from nsyswrap.record.program import Program


@dataclass(frozen=True)
class RunSpec:
    """What to run, how to record it, and where to.

    ``env`` is added to the program's environment; ``timeout_s`` ends the run; ``keep_output`` and
    ``keep_errors`` send the program's stdout and stderr into the run folder instead of to ours. ``rank``:
    which rank of a launch it is, for run.json. ``keep_environment``: nothing is taken out. ``discard_rep``:
    keep the export alone. ``share``: who else may read the folder. ``is_locked``: the caller holds its lock.
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
    keep_environment: bool = False
    discard_rep: bool = False
    share: Share | None = None
    is_locked: bool = False


@dataclass(frozen=True)
class Callbacks:
    """What is called in the course of a run.

    ``finish`` gets the private folder with a complete export before anybody else sees it: it takes secrets
    out, and adds what belongs to the run; where it raises NsyswrapError the export is removed. ``progress``
    gets what nsys does after the program's end, ``broken`` an unusable nsys that was passed over; ``signal``
    is called as soon as a signal has come that ends the run.
    """

    finish: Callable[[Path], None] = lambda _: None
    progress: Callable[[str], None] = lambda _: None
    broken: Callable[[Nsys], None] = lambda _: None
    signal: Callable[[], None] = lambda: None
