"""Run a tool such as nvcc or squeue, and read what it prints: for a limited time, and up to a limited size.

A tool is found by its name, so anything can answer for it, in any bytes and without end.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import tempfile
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

MOST_BYTES = 64 << 20
_READ_BYTES = 1 << 16
_GLANCE_S = 0.2  # between two looks whether it has ended: a child of it can keep its pipes open


class PrintedTooMuch(subprocess.SubprocessError):
    """The tool printed more than was to be read."""


def run_tool(  # noqa: PLR0913 - these of subprocess.run
    argv: Sequence[str | Path],
    timeout_s: float,
    *,
    env: Mapping[str, str] | None = None,
    text: str = "",
    merged: bool = False,
    errors: str = "replace",
    most: int = MOST_BYTES,
) -> subprocess.CompletedProcess[str]:
    """Run a tool with ``text`` as its input; return its exit code, and what it printed as UTF-8.

    ``merged``: what it prints on stderr is part of stdout. Raises OSError if the tool cannot be started,
    TimeoutExpired if it does not end within ``timeout_s`` seconds, PrintedTooMuch if it prints more than
    ``most`` bytes. The tool and its children are then killed.
    """
    with ExitStack() as opened:
        given = opened.enter_context(tempfile.TemporaryFile()) if text else None
        if given:
            given.write(text.encode())
            given.seek(0)
        process = opened.enter_context(
            subprocess.Popen(
                argv,
                stdin=given or subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if merged else subprocess.PIPE,
                env=env,
                start_new_session=True,  # a group of its own, which can be killed
            )
        )
        try:
            printed = _printed(process, time.monotonic() + timeout_s, timeout_s, most)
        except BaseException:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    stdout, stderr = (part.decode("utf-8", errors) for part in printed)
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def fault_of(error: OSError | subprocess.SubprocessError) -> str:
    """Return why a tool gave no answer: ``did not end within 20 s``."""
    if isinstance(error, subprocess.TimeoutExpired):
        return f"did not end within {error.timeout:g} s"
    return f"could not be started: {error.strerror}" if isinstance(error, OSError) else str(error)


def _printed(
    process: subprocess.Popen[bytes], deadline: float, timeout_s: float, most: int
) -> tuple[bytes, bytes]:
    """Return what a process prints on stdout and stderr until it has ended."""
    printed = {process.stdout: bytearray(), process.stderr: bytearray()}
    with selectors.DefaultSelector() as waiting:
        for stream in filter(None, printed):
            waiting.register(stream, selectors.EVENT_READ)
        while waiting.get_map():
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                parts = map(bytes, printed.values())
                raise subprocess.TimeoutExpired(process.args, timeout_s, *parts)
            ready = waiting.select(min(left_s, _GLANCE_S))
            if not ready and process.poll() is not None:
                break
            for key, _ in ready:
                part = os.read(key.fd, _READ_BYTES)
                printed[key.fileobj] += part  # type: ignore[index]
                if not part:
                    waiting.unregister(key.fileobj)
            if sum(map(len, printed.values())) > most:
                raise PrintedTooMuch(f"printed more than {most >> 20} MiB")
    process.wait(max(0, deadline - time.monotonic()))
    return bytes(printed[process.stdout]), bytes(printed[process.stderr])
