"""Run a tool such as nvcc or squeue, and read what it prints: for a limited time, and up to a limited size.

A tool is found by its name, so anything can answer for it, in any bytes and without end.
"""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from nsyswrap.base.lazy import lazy_imports

with lazy_imports():  # used for commits alone
    from nsyswrap.base import run_facts

MOST_BYTES = 64 << 20
_READ_BYTES = 1 << 16
_GLANCE_S = 0.2  # between two looks whether it has ended: a child of it can keep its pipes open

GIT_LIMIT_S = 3.0
_RUNS_CODE = r"^(filter\..*\.(clean|process)|extensions\.worktreeconfig)$"
_NOT_SET = 1  # exit code of `git config` if no name matches
_SAFE = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_STATUS = ("status", "--porcelain=v2", "--branch", "--untracked-files=no", "--ignore-submodules=dirty")
_CALM = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_TERMINAL_PROMPT": "0",
}
# Set for hooks of git, these name another repository than the program's.
_ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY")


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
            has_ended = process.poll() is not None  # before the look at what it printed, which is then all
            if left_s <= 0 and not has_ended:
                parts = map(bytes, printed.values())
                raise subprocess.TimeoutExpired(process.args, timeout_s, *parts)
            ready = waiting.select(0 if has_ended else min(left_s, _GLANCE_S))
            if not ready and has_ended:
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


def git_state(
    folder: Path, environment: Mapping[str, str], limit_s: float = GIT_LIMIT_S
) -> run_facts.Git | None:
    """Return the commit of a folder, and whether tracked files differ from it.

    Returns None if it is not in a repository of this user with a commit, if the repository configures its own
    filters, or if git is missing or takes longer than ``limit_s`` seconds.
    """
    calm = {name: value for name, value in environment.items() if name not in _ELSEWHERE} | _CALM
    command = ["git", "-C", str(folder), *_SAFE]
    listing = ("config", "--local", "--includes", "--name-only", "--get-regexp", _RUNS_CODE)
    try:
        if run_tool([*command, *listing], limit_s, env=calm).returncode != _NOT_SET:
            return None
        done = run_tool([*command, *_STATUS], limit_s, env=calm)
    except (OSError, subprocess.SubprocessError):
        return None
    commit = re.search(r"(?m)^# branch\.oid ([0-9a-f]{40,64})$", done.stdout)
    if done.returncode or not commit:
        return None
    return run_facts.Git(commit[1], dirty=bool(re.search(r"(?m)^[^#]", done.stdout)))
