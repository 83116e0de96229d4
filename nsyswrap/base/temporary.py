"""Temporary folders that are removed also if a signal ends the command, and the signals that do."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from nsyswrap.base.lazy import lazy_imports

with lazy_imports():  # none of these for completion
    import shutil
    import tempfile

ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextmanager
def shielded() -> Iterator[None]:
    """Block the signals that end a command: they come after the block. What it starts inherits this."""
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def temporary_folder(parent: Path | None = None, prefix: str = "nsyswrap-") -> Iterator[Path]:
    """Yield a new private folder in ``parent``, by default in TMPDIR, and remove it. Raises OSError."""
    with ExitStack() as folders:
        with shielded():  # no signal comes between the making and the callback
            folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
            folders.callback(_remove, folder)
        yield folder


def _remove(folder: Path) -> None:
    with shielded():
        shutil.rmtree(folder, ignore_errors=True)
