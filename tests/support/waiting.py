"""Waiting for what a test has begun, also on a busy machine."""

import subprocess
import time
from collections.abc import Callable

from nsyswrap.base import run_tool

PATIENCE_S = 240  # bounds a wait for what goes wrong; it checks nothing


def wait_until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)  # each look may be a process


def give_tools_time() -> None:
    """Let nsyswrap wait longer, in this process, for git, nvcc and what plays them than its users would.

    Limits below 2 s are those of tests.
    """
    printed = run_tool._printed  # noqa: SLF001 - all tools are run by it

    def printed_at_last(
        process: subprocess.Popen[bytes], deadline: float, timeout_s: float, most: int
    ) -> tuple[bytes, bytes]:
        return printed(process, deadline + PATIENCE_S * (timeout_s >= 2), timeout_s, most)

    run_tool._printed = printed_at_last  # noqa: SLF001
