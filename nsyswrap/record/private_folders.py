"""The private folders of one run, in which nsys works, and moving nsys' files into the run folder.

``work``, inside the run folder, gets nsys' report. ``temporary``, under TMPDIR, gets all other files. The
program does not learn their names. Both have mode 0700, as nsys' own files may be readable by others.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import IO

from nsyswrap.base import files, paths
from nsyswrap.base.errors import OutputError
from nsyswrap.base.run_folder import (
    CONDITIONS,
    DIGEST,
    EXPORT,
    FILES,
    LOG,
    PROGRAM_ERRORS,
    PROGRAM_OUTPUT,
    RANGE,
    RECORDING,
    REPORT,
    RUN,
    WORK,
    RunFolder,
    make_folder,
)
from nsyswrap.record import guard

STEM = Path(REPORT).stem
_NUMBERED = re.compile(rf"{STEM}\.(\d+)(\.[\w-]+)")  # a file of one of several ranges
_LOG_END = 64 << 20  # of a longer log so much of the beginning and of the end is kept
_NOTES = "hook"  # folder for what the hook in the program notes
_OURS = {RUN, PROGRAM_OUTPUT, PROGRAM_ERRORS}  # our files that exist while the program runs


@dataclass
class WorkFolders:
    """The private folders of a run. ``token`` marks every process of the run."""

    run: RunFolder
    temporary: Path
    token: str
    _guard: IO[bytes] | None = None

    @property
    def work(self) -> Path:
        """The folder for nsys' report, on the run folder's file system."""
        return self.run.path / f"{WORK}{self.token[:12]}"

    @property
    def log(self) -> Path:
        """The file for nsys' output: not in the run folder, which may be full or removed by the program."""
        return self.temporary / LOG

    @property
    def output(self) -> Path:
        """A link to ``work`` with a plain name: nsys fails for some characters in a path."""
        return self.temporary / guard.OUT

    @property
    def notes(self) -> Path:
        """The folder for the notes of the hook in the program."""
        return self.temporary / _NOTES

    def nsys_output(self) -> str:
        """Return what nsys printed, with the final paths of its files."""
        try:
            raw = files.ends(self.log, _LOG_END)
        except OSError:  # the program may have emptied TMPDIR
            raw = b""
        return self.with_final_paths(raw.decode(errors="replace"))

    def with_final_paths(self, text: str) -> str:
        """Return a message with the run folder in place of ``output``."""
        return text.replace(str(self.output), str(self.run.path))

    def make_work(self) -> None:
        """Create ``work``, and the other folders again if the program removed them. Raises OutputError."""
        try:
            if not os.access(self.run.path, os.W_OK | os.X_OK) or not paths.is_folder(self.run.path):
                make_folder(self.run.path, self.run.share)
            for folder in (self.work, self.temporary, self.notes):
                folder.mkdir(exist_ok=True)
                folder.chmod(0o700)
            if not paths.is_link(self.output):
                self.output.symlink_to(self.work, target_is_directory=True)
        except OSError as error:
            kept = [path for path in guard.recordings(self.temporary) if path.suffix != Path(EXPORT).suffix]
            way = f"recording kept in {kept[0]}; to read it: nsyswrap report {kept[0]}" if kept else ""
            raise OutputError(f"cannot write {self.run.path}: {error.strerror}", way) from None

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Run a guard that ends the run and clears these folders if this process is killed."""
        lock = files.descriptor_of(self.run.path)
        with start_guard(self.token, self.work, self.temporary, lock) as process:
            self._guard = process.stdin
            yield  # after an exception the guard ends the run
            guard.remove(self.temporary)  # before the guard ends, in case this process is killed now
            self._tell(guard.DONE)

    def tell_pid(self, nsys_pid: int) -> None:
        """Send the guard the process id of nsys."""
        self._tell(str(nsys_pid).encode())

    def _tell(self, word: bytes) -> None:
        with suppress(BrokenPipeError):  # the guard was killed; the run goes on
            if self._guard:
                self._guard.write(word + b"\n")

    def gather(self) -> str:
        """Move nsys' files into ``work``, and rename files that the program wrote under our names.

        Returns a message on the renamed files. Raises OutputError if ``work`` cannot be created.
        """
        self.make_work()
        guard.gather(self.work, self.temporary, STEM)
        renamed = {name: self.run.set_aside(name) for name in FILES if name not in _OURS}
        return "; ".join(
            f"the program wrote its own {name} into the run folder; renamed to {new}"
            for name, new in renamed.items()
            if new
        )

    def split_ranges(self) -> list[Path]:
        """Give each of the numbered recordings of one run a folder in ``work``; return these in order.

        One without a number is that of which nsys' importer failed: it gets the first number that is free.
        """
        matches = {path: _NUMBERED.fullmatch(path.name) for path in guard.recordings(self.work)}
        numbers = {int(match[1]) for match in matches.values() if match}
        free = next(number for number in count(1) if number not in numbers)
        for recording, match in matches.items() if numbers else ():
            folder = self.work / f"{RANGE}{match[1] if match else free}"
            folder.mkdir(mode=0o700, exist_ok=True)
            recording.rename(folder / f"{STEM}{recording.suffix}")
            numbers.add(free if match is None else int(match[1]))
        return [self.work / f"{RANGE}{number}" for number in sorted(numbers)]

    def discard_recordings(self) -> None:
        """Remove the recordings that cannot be redacted."""
        ranges = paths.matching(self.work, f"{RANGE}*")
        for folder in (self.work, self.temporary, *ranges):
            for recording in guard.recordings(folder):
                if recording.name != EXPORT:
                    recording.unlink()

    def publish(self) -> None:
        """Move nsys' files, the digest and the samples of the GPUs into the run folder."""
        take_files(self.work, self.run)
        guard.remove(self.work)


def discard_export(work: Path) -> None:
    """Remove an export that still holds secrets, and its copies."""
    for name in paths.names(work):
        if EXPORT in name:
            (work / name).unlink()


def take_files(work: Path, run: RunFolder) -> None:
    """Move nsys' files, the digest and the samples of the GPUs into a run folder."""
    for name in (REPORT, RECORDING, EXPORT, DIGEST, CONDITIONS):
        if paths.exists(work / name):
            run.take(work / name, name)


def start_guard(token: str, work: Path, temporary: Path, lock: int | None = None) -> subprocess.Popen[bytes]:
    """Start a guard of the processes with this mark. It clears these folders, and keeps a folder locked.

    ``lock`` is the descriptor of the lock.
    """
    return _started([token, work, temporary, STEM], lock)


def start_command_guard(token: str) -> subprocess.Popen[bytes]:
    """Start a guard of a command: of the processes with this mark."""
    nothing = Path(os.devnull, "none")
    return _started([token, nothing, nothing, ""], None)


def _started(words: Sequence[str | Path], lock: int | None) -> subprocess.Popen[bytes]:
    with files.shielded():  # Slurm signals every process of a job, users signal process groups
        return subprocess.Popen(
            [sys.executable, "-I", "-S", guard.__file__, *words, str(-1 if lock is None else lock)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd="/",
            pass_fds=() if lock is None else (lock,),
            start_new_session=True,  # signals to our process group do not reach it
        )


@contextmanager
def private_folders(run: RunFolder, parent: Path) -> Iterator[WorkFolders]:
    """Create ``temporary`` in ``parent``, and remove it afterwards, except for recordings in it.

    Raises OutputError if it cannot be created.
    """
    try:
        made = Path(tempfile.mkdtemp(prefix="nsyswrap-", dir=parent)).absolute()
        made.chmod(0o700)  # regardless of the umask
    except OSError as error:
        raise OutputError(
            f"cannot make a temporary folder in {parent}: {error.strerror}",
            "check that TMPDIR is writable and has free space",
        ) from None
    try:
        yield WorkFolders(run, made, uuid.uuid4().hex)
    finally:
        guard.remove(made)
