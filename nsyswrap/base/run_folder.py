"""The run folder: the files of one run and its outcome. ``record`` writes it, ``capture`` reads it.

The folder has mode 0700 and its files 0600 from the first byte; 0750 and 0640 if the run is shared with the
group.

A launch of ``nsyswrap profile`` and a run of a batch with a launcher have a run folder for each profiled
rank, ``rank-N`` inside the folder of the run. That folder itself has no capture: it holds spec.json, the one
status.json of the run, and a run.json with the launch. A command that brings its own nsys writes files that
are named by rank instead.
"""

from __future__ import annotations

import errno
import json
import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, field
from functools import lru_cache
from pathlib import Path
from stat import S_ISREG
from typing import Any, Literal

from nsyswrap.base import paths
from nsyswrap.base.errors import CaptureError, OutputError, Unreadable, UsageError
from nsyswrap.base.files import (
    head,
    is_lock_file,
    is_locked,
    json_of,
    open_private,
    read_json,
    small_file,
    typed,
    user_folder,
    why,
)
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.records import dataclass

with lazy_imports():
    import shutil

SOURCES = (".py", ".cu")  # suffixes of programs that are run or compiled as they are
CALLER = "call_function.py"  # the script that calls the function which its first argument names
RUN = "run.json"
STATUS = "status.json"
LOG = "nsys.log"
STATS = "nsys-stats.txt"
REPORT = "report.nsys-rep"
RECORDING = "report.qdstrm"  # what nsys leaves if its importer fails
EXPORT = "report.sqlite"
PROGRAM_OUTPUT = "program.out"  # the program's stdout, if it is kept
PROGRAM_ERRORS = "program.err"  # the program's stderr, if it is kept
DIGEST = "digest.json"  # the summary that `collect` reads
CONDITIONS = "conditions.csv"  # samples of the GPUs during the run, see base/run_facts.py
RANGE = "range-"  # prefix of the run folders in that of a run which recorded several ranges
SCENARIO_FILES = "scenario-files"  # a folder: what the script of a scenario keeps, such as traces
PAGE = "view.html"  # the page that `nsyswrap runs open` writes; the program can write one, too
FILES = (
    RUN, STATUS, LOG, STATS, REPORT, RECORDING, EXPORT, PROGRAM_OUTPUT, PROGRAM_ERRORS, DIGEST, CONDITIONS,
)  # fmt: skip
BATCH = "batch.json"  # in a batch folder: its planned runs
RUNS = "runs"  # in a batch folder: the folders of the planned runs
SPEC = "spec.json"  # in the folder of a planned run: what to run
CLAIM = "claim.json"  # in the folder of a planned run: the process that runs it
TASK_LOG = "task.log"  # in the folder of a planned run: what its task printed
LAUNCHERS = ("exec_program.py", "_launch.py")  # before the program in a command line: now, in 0.1
WORK = ".recording-"  # prefix of the private folder in a run folder into which nsys writes
FOREIGN = ".from-program"  # suffix of a file that the program wrote under one of these names
DEFAULT_BASE = Path("nsyswrap-runs")
_RANK_FOLDER = r"rank-(\d{1,9})"
_RANK = r"rank[-_.]?(\d{1,9})(?!\d)"  # in the name of a file or folder
_LOOSE = (".sqlite", ".nsys-rep")  # of a file named by rank: an export is preferred to its report
_HOLDS_ENVIRONMENT = (REPORT, RECORDING)  # these cannot be redacted, so they are never shared
_PAGE_MARK = b'<meta name="generator" content="nsyswrap '
_PAGE_HEAD = 4096  # bytes of a page that contain its mark
_LOG_ROOM = 16_384  # bytes
_STATUS_ROOM = 4096  # bytes reserved for status.json at the start, so that it can be written on a full disk

Outcome = Literal[
    "done", "program_failed", "interrupted", "timed_out", "nsys_failed", "disk_full", "not_redacted",
    "not_started",
]  # fmt: skip
Share = Literal["group"]  # who may read a run folder besides its owner
_ENDINGS: dict[Outcome, str] = {
    "done": "",
    "program_failed": "the program failed",
    "interrupted": "this run was interrupted",
    "timed_out": "this run timed out",
    "nsys_failed": "nsys failed",
    "disk_full": "the disk was full",
    "not_redacted": "this run was not finished",
    "not_started": "the program was not started",
}


def outcome_words(state: str) -> str:
    """Return the outcome or state of a run as screens write it: ``program failed`` for ``program_failed``."""
    return state.replace("_", " ")


_PROFILE_AGAIN = "use a newer nsyswrap, or profile again"
_MOST_RANKS = 1_000_000
NO_GPU_WORK = 65  # the exit code of a run that is done and had GPUs, but has no GPU work
_RANGE = re.compile(rf"{RANGE}\d{{1,9}}")  # all of a name
_UNWRITTEN = 73  # the exit code of a run that is done, but whose files could not all be written


@dataclass(frozen=True)
class Status:
    """How a run ended.

    ``program_code`` is None if nsys ended the program or never ran it.
    """

    outcome: Outcome
    program_code: int | None
    nsys_code: int | None
    exit_code: int
    message: str = ""
    hint: str = ""

    @property
    def is_consistent(self) -> bool:
        """Return True if outcome and exit code both say that the run is done, or that it is not."""
        is_done = self.outcome == "done"
        return self.exit_code in ((0, NO_GPU_WORK, _UNWRITTEN) if is_done else range(1, 256))


_status_of = lru_cache(lambda content: typed(Status, json_of(content)))  # most runs of a batch have the same


@dataclass(frozen=True)
class _RankFacts:
    """The rank's entry in run.json. ``profiled``: the ranks that ran under nsys, None for all."""

    rank: int
    world_size: int | None = None
    profiled: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        size = _MOST_RANKS if self.world_size is None else self.world_size
        if not 0 <= self.rank < size <= _MOST_RANKS:
            raise ValueError(f"rank {self.rank} of {self.world_size}")


@dataclass(frozen=True)
class _RepeatFacts:
    """The entry of one of ``count`` equal runs in run.json. ``number`` begins at 1."""

    number: int
    count: int


@dataclass(frozen=True)
class _NsysFacts:
    """What is read of the options of nsys in run.json."""

    trace: str = ""
    capture_range: str | None = None
    delay: float | None = None
    duration: float | None = None
    follow_forks: bool = False
    extra: list[str] = field(default_factory=list)


_TABLES = ("nsys", "rank")  # an empty one replaces one that is not valid
# What is read of run.json. The values are checked with these types, and stay as they are.
_DURATIONS = ("duration_s", "program_s")
_END_OF_TIME_S = 2**63 / 1e9  # in ns it needs more than 64 bits
_RUN_KINDS: dict[str, Any] = {
    "command": list[str],
    "program": list[str],
    "host": str,
    "started": str,
    "duration_s": float,
    "gpu_error": str,
    "nsys": _NsysFacts,
    "rank": _RankFacts,
    "repeat": _RepeatFacts,
    "program_s": float | None,
    "env_set": list[str],
}


@dataclass(frozen=True)
class RunFolder:
    """A folder with the files of one run. ``share``: who may read them besides the owner."""

    path: Path
    share: Share | None = None

    def make(self) -> None:
        """Create the folder with its parents. It is private from the start.

        Raises OSError, and OutputError for a link that is not followed.
        """
        paths.make_folders(self.path.parent)
        try:
            self.path.mkdir(mode=_folder_mode(self.share))
            self.path.chmod(_folder_mode(self.share))  # regardless of the umask
        except FileExistsError:
            if not paths.is_folder(paths.target_of(self.path)):
                raise

    def create(self, facts: dict[str, Any], *, force: bool = False) -> None:
        """Create the folder, or use an empty one, and write run.json.

        ``force`` replaces the files of a run and nothing else. The folder of a run is made private. A folder
        with other files keeps its mode. Raises OutputError if the folder is taken or cannot be written.
        """
        with paths.writing(self.path):
            self._clear(force=force)
            partial = self._partial_path(STATUS)
            try:
                with os.fdopen(open_private(partial, _file_mode(STATUS, self.share)), "wb") as file:
                    os.posix_fallocate(file.fileno(), 0, _STATUS_ROOM)
                self.write(RUN, facts)
            except (OSError, OutputError):  # the file would block the next attempt
                partial.unlink(missing_ok=True)
                raise

    def check_free(self, *, force: bool = False) -> set[str]:
        """Return the names of the files in the folder. Raises OutputError if a run must not replace them."""
        with paths.writing(self.path, "use another --output"):
            if paths.exists(self.path) and not paths.is_folder(self.path):
                raise NotADirectoryError(errno.ENOTDIR, "Not a directory")
            present = {name for name in paths.names(self.path) if not is_lock_file(self.path / name)}
        if present and not force:
            raise OutputError(
                f"{self.path} exists and is not empty", "use another --output, or --force to replace its run"
            )
        if not present & {RUN, SPEC} and not ranges_of(self.path) and (taken := sorted(present & set(FILES))):
            raise OutputError(
                f"{self.path} contains {taken[0]} but is not a run folder; it is not replaced",
                "use another --output",
            )
        return present

    def _clear(self, *, force: bool) -> None:
        self.make()
        present = self.check_free(force=force)
        if present and not present & {RUN, SPEC} and not ranges_of(self.path):
            return
        if folders := [name for name in FILES if paths.is_folder(self.path / name)]:
            raise OutputError(f"{self.path / folders[0]} is a folder, where a file is expected", "remove it")
        if foreign := [path for path in _range_paths(self.path) if not _is_range(path)]:
            raise OutputError(f"{foreign[0]} is not a run folder of ours; it is not replaced", "remove it")
        self.path.chmod(_folder_mode(self.share))
        for name in FILES:
            (self.path / name).unlink(missing_ok=True)
            self._partial_path(name).unlink(missing_ok=True)
        if is_page(self.path / PAGE):
            (self.path / PAGE).unlink()
        self._clear_ranges()
        for pattern in (f"{WORK}*", SCENARIO_FILES):  # WORK: of a killed run
            for left in paths.matching(self.path, pattern):
                shutil.rmtree(left)

    def _clear_ranges(self) -> None:
        for link in filter(paths.is_link, _range_paths(self.path)):
            link.unlink()  # never written through
        for earlier in ranges_of(self.path):
            for name in FILES:
                (earlier / name).unlink(missing_ok=True)
            with suppress(OSError):  # it holds other files
                earlier.rmdir()

    def open(self, name: str) -> int:
        """Return a descriptor for writing one file, which is private from its first byte. Raises OSError."""
        return open_private(self.path / name, _file_mode(name, self.share))

    def write(self, name: str, content: str | dict[str, Any]) -> None:
        """Write one file by way of a temporary one: a reader never sees a part of it. Raises OutputError."""
        text = (
            content if isinstance(content, str) else json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        )
        partial, target = self._partial_path(name), self.path / name
        with paths.writing(target):
            earlier = paths.status(target, follow=False)
            mode = earlier.st_mode if earlier and S_ISREG(earlier.st_mode) else _file_mode(name, self.share)
            try:
                with os.fdopen(open_private(partial, mode), "wb") as file:
                    file.write(text.encode("utf-8", "surrogateescape"))
                    file.truncate()
                partial.replace(target)
            finally:
                partial.unlink(missing_ok=True)

    def take(self, source: Path, name: str) -> None:
        """Move a file of the same file system into the folder, under ``name``. Raises OutputError."""
        with paths.writing(self.path / name):
            source.chmod(_file_mode(name, self.share))
            source.replace(self.path / name)

    def set_aside(self, name: str) -> str:
        """Rename a file that the program wrote under a name of ours; return its new name.

        Returns an empty text if there is no such file, or if it cannot be renamed. The file of the run then
        replaces it.
        """
        path = self.path / name
        numbers = ("", *(f"-{n}" for n in range(2, 1000)))
        try:
            if not paths.exists(path, follow=False):
                return ""
            names = (f"{name}{FOREIGN}{n}" for n in numbers)
            free = next(one for one in names if not paths.exists(self.path / one, follow=False))
            path.rename(path.with_name(free))
        except (OSError, Unreadable):
            return ""
        return free

    def write_status(self, status: Status) -> None:
        """Write ``status.json``, the last file of a run: it marks the run as ended. Raises OutputError."""
        self.write(STATUS, asdict(status))

    def read_status(self) -> Status:
        """Read ``status.json``, without keys of newer versions. Raises CaptureError if it is invalid."""
        return read_status(self.path)

    def read_run(self) -> dict[str, Any]:
        """Read ``run.json``; empty if it is missing or invalid. Values of a wrong type are left out."""
        try:
            run = read_json(self.path / RUN)
        except (OSError, ValueError):
            return {}
        if not isinstance(run, dict):
            return {}
        valid = {key: value for key, value in run.items() if _fits(key, value)}
        return {key: {} for key in _TABLES if key in run} | valid

    def _partial_path(self, name: str) -> Path:
        return self.path / f".{name}.part"


def ranges_of(folder: Path) -> list[Path]:
    """Return the run folders of the ranges that one run recorded, in their order."""
    paths_of_ranges = _range_paths(folder)
    folders = [path for path in paths_of_ranges if paths.exists(path / RUN) and not paths.is_link(path)]
    return sorted(folders, key=lambda path: (len(path.name), path.name))


def _range_paths(folder: Path) -> list[Path]:
    """Return the paths with the name of a range's folder: not those of copies, such as ``range-1-old``."""
    return [path for path in paths.matching(folder, f"{RANGE}*") if _RANGE.fullmatch(path.name)]


def _is_range(path: Path) -> bool:
    """Return True if a path can be the folder of a range: nothing of the user's is there under our names."""
    names = set(paths.names(path))
    return paths.is_link(path) or (paths.is_folder(path) and (RUN in names or not names & set(FILES)))


def read_status(folder: Path | str) -> Status:
    """Read ``status.json`` of a run folder, as RunFolder.read_status does."""
    path = f"{folder}/{STATUS}"
    try:
        status = _status_of(small_file(path))
    except (OSError, ValueError) as error:
        raise CaptureError(f"{path} cannot be read: {why(error)}", _PROFILE_AGAIN) from None
    if not status.is_consistent:
        raise CaptureError(
            f"{path} is invalid: outcome is {status.outcome}, exit_code is {status.exit_code}", _PROFILE_AGAIN
        )
    return status


def _fits(key: str, value: object) -> bool:
    if key not in _RUN_KINDS:
        return True
    with suppress(ValueError):
        typed(_RUN_KINDS[key], value)
        return key not in _DURATIONS or value is None or 0 <= float(str(value)) < _END_OF_TIME_S
    return False


def is_page(path: Path) -> bool:
    """Return True for a page that nsyswrap wrote. A link is none."""
    try:
        return paths.is_file(path, follow=False) and _PAGE_MARK in head(path, _PAGE_HEAD)
    except OSError:
        return False


def share_of(path: Path) -> Share | None:
    """Return who may read a folder of this module besides its owner."""
    try:
        facts = paths.status(path)
    except Unreadable:
        return None
    return "group" if facts and facts.st_mode & 0o777 == _folder_mode("group") else None


def existing(path: Path) -> RunFolder:
    """Return a RunFolder for an existing folder, with the sharing that its mode shows."""
    return RunFolder(path, share_of(path))


def run_of(path: Path) -> Path | None:
    """Return the run folder of a folder or capture; None if it is not of a run."""
    folder = path if paths.is_folder(path) else path.parent
    is_of_run = folder == path or path.name in (EXPORT, REPORT)
    return folder if is_of_run and paths.exists(folder / RUN) else None


def ending(path: Path) -> str:
    """Return how the run of a folder or capture failed; empty if it ended well, or if there is no run."""
    folder = run_of(path)
    if folder is None:
        return ""
    if not paths.exists(folder / STATUS):
        return unfinished(folder)
    try:
        status = RunFolder(folder).read_status()
    except CaptureError as error:
        return error.message
    words = _ENDINGS[status.outcome]
    return f"{words}: {status.message}" if words and status.message else words


def unfinished(folder: Path) -> str:
    """Return why a run folder has no status, and where the recording is."""
    if is_locked(folder):
        return "this run has not ended yet"
    kept = ", ".join(map(str, left_recordings(folder)))
    kept = f"its recording, with the environment, is in {kept}" if kept else "it left no recording"
    return f"this run never finished: nsyswrap was killed; {kept}"


def left_recordings(folder: Path) -> list[Path]:
    """Return what a killed run left, the most complete first: nsys removes a .qdstrm that it has imported.

    What may not be looked at is left out.
    """
    patterns = (f"{WORK}*/{name}" for name in (EXPORT, RECORDING, REPORT))
    return [path for pattern in patterns for path in paths.matching(folder, pattern, paths.ignore)]


def rank_folder_name(rank: int, world_size: int) -> str:
    """Return the name of a rank's run folder, padded so that names sort as ranks do: rank-03 of 64."""
    return f"rank-{rank:0{len(str(world_size - 1))}}"


def rank_in(name: str) -> int | None:
    """Return the rank that the name of a file or folder contains, as ``job.rank3.sqlite`` does; or None."""
    match = re.search(_RANK, name)
    return int(match[1]) if match else None


def without_rank(name: str) -> str:
    """Return a name without the rank in it: job for ``job.rank3``."""
    return re.sub(rf"[-_.]?{_RANK}", "", name)


def rank_folders(folder: Path) -> dict[int, Path]:
    """Return the run folder of each profiled rank in the folder of a run, by rank. Empty: it has no ranks."""
    matches = {path: re.fullmatch(_RANK_FOLDER, path.name) for path in paths.matching(folder, "rank-*")}
    return dict(
        sorted((int(match[1]), path) for path, match in matches.items() if match and paths.is_folder(path))
    )


def captures_by_rank(folder: Path) -> dict[int, Path]:
    """Return the capture of each rank in the folder of a run, by rank: an export, or a report without one.

    A rank whose run left no capture is missing. The result is empty for a run without ranks. Raises
    UsageError if two captures are of the same rank.
    """
    captures: dict[int, Path] = {}
    for rank, path in rank_folders(folder).items():
        for name in (EXPORT, REPORT):
            if paths.exists(path / name):
                captures[rank] = path / name
                break
    for path in (path for suffix in _LOOSE for path in paths.matching(folder, f"*{suffix}")):
        named = rank_in(path.name)
        if named is None:
            continue
        if named in captures:
            if captures[named] == path.with_suffix(_LOOSE[0]):  # its own export
                continue
            both = f"{captures[named]} and {path}"
            raise UsageError(f"{both}: both are rank {named}", "keep one of them in the folder of the run")
        captures[named] = path
    return dict(sorted(captures.items()))


def make_folder(path: Path, share: Share | None) -> None:
    """Create a private folder with its parents, or give an existing one the mode of ``share``."""
    RunFolder(path, share).make()
    path.chmod(_folder_mode(share))


def _folder_mode(share: Share | None) -> int:
    return 0o750 if share else 0o700


def _file_mode(name: str, share: Share | None) -> int:
    return 0o640 if share and name not in _HOLDS_ENVIRONMENT else 0o600


def program_name(words: Sequence[str]) -> str:
    """Return the name that run folders and messages have: ``train`` for ``python3 /home/me/train.py``."""
    path = Path(program_word(words))
    return (path.stem if path.suffix in SOURCES else path.name) or Path(words[0]).name


def is_python(executable: str) -> bool:
    """Return True if a path or name is that of a Python interpreter."""
    return re.fullmatch(r"python[\d.]*t?", Path(executable).name) is not None


def program_word(words: Sequence[str]) -> str:
    """Return the word of a command line that is its program: the script or module, where Python runs it."""
    rest = words[1:] if Path(words[0]).name.startswith("python") else []
    while rest and rest[0].startswith("-") and rest[0] not in ("-m", "-c", "-"):  # options of Python
        rest = rest[2 if rest[0] in ("-X", "-W") else 1 :]
    if not rest or rest[0] in ("-c", "-"):
        return words[0]
    return "".join(rest[1:2]) if rest[0] == "-m" or Path(rest[0]).name == CALLER else rest[0]


def default_output(program: str, base: Path = DEFAULT_BASE) -> Path:
    """Return the path of a new folder, ``<base>/<program>-<local time>``, with a number if that exists."""
    name = f"{Path(program).stem or 'program'}-{time.strftime('%Y%m%d-%H%M%S')}"
    taken = (base / (f"{name}-{n}" if n > 1 else name) for n in range(1, 1000))
    return next(path for path in taken if not paths.is_taken(path))


def claim_output(program: str, base: Path = DEFAULT_BASE) -> Path:
    """Create and return the folder of ``default_output``; runs that start together get different ones."""
    while True:
        path = default_output(program, base)
        with paths.writing(path):
            paths.make_folders(path.parent)
            with suppress(FileExistsError):  # another run took this name
                path.mkdir(mode=_folder_mode(None))
                return path


def cache_dir(*names: str) -> Path:
    """Create and return a folder in the user's cache: ``$XDG_CACHE_HOME/nsyswrap`` or ``~/.cache/nsyswrap``.

    Raises OutputError if it cannot be created.
    """
    base = user_folder("XDG_CACHE_HOME", ".cache")
    if base is None:
        raise OutputError("no folder for the cache: the home folder is unknown", "set HOME or XDG_CACHE_HOME")
    path = base.joinpath(*names)
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)  # cached exports hold environments
    except OSError as error:
        raise OutputError(
            f"cannot make the cache folder {path}: {error.strerror}", "set XDG_CACHE_HOME"
        ) from None
    return path


def is_full(path: Path) -> bool:
    """Return True if the file system of ``path`` has no room left for a log."""
    return shutil.disk_usage(path).free < _LOG_ROOM


def free_space_note(path: Path) -> str:
    """Return the free space on the file system of ``path`` as a text, for messages about a full disk."""
    return f"{shutil.disk_usage(path).free / 1e6:,.1f} MB free at {path}"
