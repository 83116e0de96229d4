"""The run folder: the files of one run and its outcome. Written by collect, read by analyse."""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from nsyswrap.base.errors import CaptureError, OutputError

RUN = "run.json"
STATUS = "status.json"
LOG = "nsys.log"
STATS = "nsys-stats.txt"
REPORT = "report.nsys-rep"
RECORDING = "report.qdstrm"  # what nsys leaves where it could not import it
EXPORT = "report.sqlite"
PROGRAM_OUTPUT = "program.out"  # of the program, where its stdout is kept
PROGRAM_ERRORS = "program.err"  # the same of its stderr
DIGEST = "digest.json"  # what collecting many runs needs to know of this one
FILES = (RUN, STATUS, LOG, STATS, REPORT, RECORDING, EXPORT, PROGRAM_OUTPUT, PROGRAM_ERRORS, DIGEST)
BATCH = "batch.json"  # of a batch: its planned runs, whose folders lie in
RUNS = "runs"
SPEC = "spec.json"  # of a planned run: what is to be run
CLAIM = "claim.json"  # of a planned run: who runs it
# Stands in a recorded command line, before the program's own; the second name is that of version 0.1.
LAUNCHERS = ("exec_program.py", "_launch.py")
DEFAULT_BASE = Path("nsyswrap-runs")
_LOG_ROOM = 16_384  # bytes

Outcome = Literal["done", "program_failed", "interrupted", "timed_out", "nsys_failed", "not_started"]


@dataclass(frozen=True)
class Status:
    """How a run ended.

    A code is None where there is none to tell: nsys ended the program, or never ran it.
    """

    outcome: Outcome
    program_code: int | None
    nsys_code: int | None
    exit_code: int
    message: str = ""
    hint: str = ""


@dataclass(frozen=True)
class RunFolder:
    """A folder with the files of one run."""

    path: Path

    def create(self, *, force: bool = False) -> None:
        """Make the folder.

        One with anything in it is refused; ``force`` replaces a run's files, nothing else.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            present = sorted(entry.name for entry in self.path.iterdir())
            if present and not force:
                raise OutputError(f"{self.path} exists and is not empty", "give another --output, or --force")
            for name in FILES:
                (self.path / name).unlink(missing_ok=True)
            (self.path / RUN).touch(exist_ok=False)  # of two runs started together one gets the folder
        except OSError as error:
            raise OutputError(f"cannot write {self.path}: {error.strerror}") from None

    def write(self, name: str, content: str | dict[str, Any]) -> None:
        """Write one file, through a name of its own: a reader never sees half of it."""
        text = (
            content if isinstance(content, str) else json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        )
        part = self.path / f".{name}.part"
        try:
            try:
                part.write_text(text, encoding="utf-8", errors="surrogateescape")
                part.replace(self.path / name)
            finally:
                part.unlink(missing_ok=True)
        except OSError as error:
            raise OutputError(f"cannot write {self.path / name}: {error.strerror}") from None

    def write_status(self, status: Status) -> None:
        """Write ``status.json``: its presence says that the run has ended."""
        self.write(STATUS, asdict(status))

    def read_status(self) -> Status:
        """Read ``status.json``; raises CaptureError where it is not one."""
        try:
            return Status(**json.loads((self.path / STATUS).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise CaptureError(f"{self.path / STATUS} cannot be read: {error}") from None

    def read_run(self) -> dict[str, Any]:
        """Read ``run.json``; empty where there is none."""
        try:
            run: dict[str, Any] = json.loads((self.path / RUN).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return run


def default_output(program: str, base: Path = DEFAULT_BASE) -> Path:
    """Return a new folder's path, ``<base>/<program>-<local time>``, with a number where it is taken."""
    name = f"{Path(program).stem or 'program'}-{time.strftime('%Y%m%d-%H%M%S')}"
    taken = (base / (f"{name}-{n}" if n > 1 else name) for n in range(1, 1000))
    return next(path for path in taken if not path.exists())


def claim_output(program: str, base: Path = DEFAULT_BASE) -> Path:
    """Make and return the folder of ``default_output``: of runs started together each gets its own."""
    while True:
        path = default_output(program, base)
        try:
            path.mkdir(parents=True)
        except FileExistsError:  # another run was quicker
            continue
        except OSError as error:
            raise OutputError(f"cannot write {path}: {error.strerror}") from None
        return path


def newest_run(base: Path = DEFAULT_BASE) -> Path:
    """Return the run folder under ``base`` (or one below, as scenarios make them) that ended last."""
    ended = [status.parent for pattern in ("*", "*/*") for status in base.glob(f"{pattern}/{STATUS}")]
    if not ended:
        raise CaptureError(
            f"no run folder under {base}/",
            "give a .sqlite, a .nsys-rep or a run folder, or profile a program first",
        )
    return max(ended, key=lambda folder: (folder / STATUS).stat().st_mtime_ns)


def cache_dir(*names: str) -> Path:
    """Create and return a folder in the user's cache: ``$XDG_CACHE_HOME`` or ``~/.cache``, then nsyswrap."""
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError as error:  # a user without a name, in a container
        raise OutputError(f"there is no place for a cache: {error}", "set HOME or XDG_CACHE_HOME") from None
    path = base.joinpath("nsyswrap", *names)
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)  # exports hold environments
    except OSError as error:
        raise OutputError(
            f"cannot make the cache folder {path}: {error.strerror}", "set XDG_CACHE_HOME"
        ) from None
    return path


def is_full(path: Path) -> bool:
    """Whether there is no room left for a log where ``path`` lies."""
    return shutil.disk_usage(path).free < _LOG_ROOM


def free_space_note(path: Path) -> str:
    """Return how much room is left where ``path`` lies, for messages about a full disk."""
    return f"{shutil.disk_usage(path).free / 1e6:,.1f} MB free at {path}"
