"""One run to be made: its program, its recording options, its folder and its callbacks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nsyswrap.base.nsys.command import Options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from nsyswrap.base.nsys.find import Nsys
    from nsyswrap.base.run_facts import BareRun
    from nsyswrap.base.run_folder import Share
    from nsyswrap.record.program import Program


@dataclass(frozen=True)
class RunSpec:
    """The program, its recording options and its run folder.

    ``env`` is added to the program's environment. ``timeout_s`` limits the run, in seconds. ``force``
    replaces a run in the folder. ``keep_output`` and ``keep_errors`` write the program's stdout and stderr
    into the run folder. Entries in run.json: ``rank`` of a rank, ``repeat`` of one of equal runs, ``bare`` of
    the same run without nsys. ``keep_environment`` leaves the environment in the export.
    ``discard_rep`` deletes the .nsys-rep. ``share``: who may read the folder besides the owner.
    ``is_locked``: the caller has locked the folder.
    """

    program: Program
    output: Path
    options: Options = field(default_factory=Options)
    nsys_path: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float | None = None
    force: bool = False
    keep_output: bool = False
    keep_errors: bool = False
    rank: Mapping[str, object] = field(default_factory=dict)
    repeat: Mapping[str, int] = field(default_factory=dict)
    bare: BareRun | None = None
    keep_environment: bool = False
    discard_rep: bool = False
    share: Share | None = None
    is_locked: bool = False


@dataclass(frozen=True)
class Callbacks:
    """Functions that are called during a run.

    ``finish`` gets the private folder with a complete export before it is published. It removes secrets and
    adds files of the run. If it raises NsyswrapError, the export is removed. ``without_secrets`` returns a
    text for any other file of the run without them; it is called after ``finish``. ``renamed`` gets the
    number of names in the export that lost one, if any did. ``progress`` gets messages on what nsys does
    after the program's end. ``broken`` gets each unusable nsys that was passed over. ``signal`` is called as
    soon as a signal ends the run.
    """

    finish: Callable[[Path], None] = lambda _: None
    without_secrets: Callable[[str], str] = lambda text: text
    renamed: Callable[[int], None] = lambda _: None
    progress: Callable[[str], None] = lambda _: None
    broken: Callable[[Nsys], None] = lambda _: None
    signal: Callable[[], None] = lambda: None
