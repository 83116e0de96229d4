"""Runs that reach their time limit."""

import subprocess
from pathlib import Path

from conftest import Cli

_LIMITS_S = (1, 5, 25, 100)


def timed_out(cli: Cli, *words: str | Path, **variables: str) -> tuple[subprocess.CompletedProcess[str], int]:
    """Profile a program that would go on; return the end of the command and the time limit in s.

    The limit counts from the start of nsys. On a busy machine nsys can take as long to start the program: it
    then gets a longer limit.
    """
    for limit_s in _LIMITS_S:
        done = cli("profile", "--force", "--timeout", str(limit_s), *words, **variables)
        if "nsys had not started the program" not in done.stderr:
            break
    return done, limit_s
