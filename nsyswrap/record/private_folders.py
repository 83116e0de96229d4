"""The private folders of one run: where nsys works, and the way of what it made into the run folder.

``work``, inside the run folder, gets nsys' report; ``temporary``, under TMPDIR, all else. The program is told
of neither. Both are 0700: whatever the modes of nsys' own files, nobody else reads them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import uuid
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from nsyswrap.base.errors import OutputError
from nsyswrap.base.run_folder import (
    DIGEST,
    EXPORT,
    FILES,
    LOG,
    PROGRAM_ERRORS,
    PROGRAM_OUTPUT,
    RECORDING,
    REPORT,
    RUN,
    WORK,
    RunFolder,
    make_folder,
)
from nsyswrap.record import guard

if TYPE_CHECKING:
    from collections.abc import Iterator

STEM = Path(REPORT).stem
_OURS = {RUN, PROGRAM_OUTPUT, PROGRAM_ERRORS}  # files of ours that are there while the program runs


@dataclass
class Private:
    """The private folders of a run; ``token`` marks every process of it."""

    run: RunFolder
    temporary: Path
    token: str
    _guard: IO[bytes] | None = None

    @property
    def work(self) -> Path:
        """Where nsys writes its report, on the run folder's own file system."""
        return self.run.path / f"{WORK}{self.token[:12]}"

    @property
    def log(self) -> Path:
        """What nsys prints: neither a full disk nor the program's removal of the run folder touches it."""
        return self.temporary / LOG

    @property
    def output(self) -> Path:
        """A link to ``work`` with a plain name: nsys trips over some characters in a path."""
        return self.temporary / "out"

    def said(self) -> str:
        """Return what nsys printed, with the paths that its files get."""
        raw = self.log.read_bytes() if self.log.exists() else b""  # the program may have emptied TMPDIR
        return self.named(raw.decode(errors="replace"))

    def named(self, text: str) -> str:
        """Return a message with the run folder in the place of these."""
        return text.replace(str(self.output), str(self.run.path))

    def make_work(self) -> None:
        """Make ``work``, and what the program took away of the others. Raises OutputError."""
        try:
            if not os.access(self.run.path, os.W_OK | os.X_OK) or not self.run.path.is_dir():
                make_folder(self.run.path, self.run.share)
            for folder in (self.work, self.temporary):
                folder.mkdir(exist_ok=True)
                folder.chmod(0o700)
            if not self.output.is_symlink():
                self.output.symlink_to(self.work, target_is_directory=True)
        except OSError as error:
            left = [path for path in guard.recordings(self.temporary) if path.suffix != Path(EXPORT).suffix]
            way = (
                f"what nsys recorded lies in {left[0]}; to read it: nsyswrap report {left[0]}" if left else ""
            )
            raise OutputError(f"cannot write {self.run.path}: {error.strerror}", way) from None

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Have the run ended, and these folders cleared, where we are killed."""
        with subprocess.Popen(
            [sys.executable, "-I", "-S", guard.__file__, self.token, self.work, self.temporary, STEM],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd="/",
            start_new_session=True,  # a signal to our group is not meant for it
        ) as process:
            self._guard = process.stdin
            yield  # where we fail, the guard ends the run
            guard.remove(self.temporary)  # before the guard is let go: who kills us now leaves nothing either
            self._tell(guard.DONE)

    def tell_pid(self, nsys_pid: int) -> None:
        """Tell the guard which process is nsys."""
        self._tell(str(nsys_pid).encode())

    def _tell(self, word: bytes) -> None:
        with suppress(BrokenPipeError):  # somebody ended it: the run goes on
            if self._guard:
                self._guard.write(word + b"\n")

    def gather(self) -> str:
        """Bring all that nsys made into ``work``; return what the program wrote under names of ours.

        That has other names now. Raises OutputError where there is no folder to bring anything to.
        """
        self.make_work()
        guard.gather(self.work, self.temporary, STEM)
        aside = {name: self.run.set_aside(name) for name in FILES if name not in _OURS}
        return "; ".join(
            f"the program wrote its own {name} into the run folder: it is now {new}"
            for name, new in aside.items()
            if new
        )

    def discard_recordings(self) -> None:
        """Remove what cannot be redacted."""
        for recording in (*guard.recordings(self.work), *guard.recordings(self.temporary)):
            if recording != self.work / EXPORT:
                recording.unlink()

    def discard_export(self) -> None:
        """Remove an export that holds what it should not, and any copy of it."""
        for part in self.work.glob(f"*{EXPORT}*"):
            part.unlink()

    def publish(self) -> None:
        """Move what nsys made, and what was made of it, into the run folder."""
        for name in (REPORT, RECORDING, EXPORT, DIGEST):
            if (self.work / name).exists():
                self.run.take(self.work / name, name)
        guard.remove(self.work)


@contextmanager
def private_folders(run: RunFolder, place: Path) -> Iterator[Private]:
    """Make ``temporary`` in ``place``; afterwards it goes, unless what nsys recorded is still in it.

    Raises OutputError.
    """
    try:
        made = Path(tempfile.mkdtemp(prefix="nsyswrap-", dir=place)).absolute()
        made.chmod(0o700)  # whatever the umask
    except OSError as error:
        raise OutputError(
            f"cannot make a temporary folder in {place}: {error.strerror}",
            "is TMPDIR a folder that can be written, with room left?",
        ) from None
    try:
        yield Private(run, made, uuid.uuid4().hex)
    finally:
        guard.remove(made)
