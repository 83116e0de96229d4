"""One case of the fuzz: a command on mutated files, and what it may print.

A subject module (``raw``, ``sql``, ``files``, ``hostile``, ``tables``, ``baselines``) has
``case(random, folder)``, which writes the inputs into the empty ``folder`` and returns a ``Case``. It draws
from ``random`` only, so that a seed gives the same case on every machine. What it imports of nsyswrap the
server has imported before it forks.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


def no_problem(_code: int, _stdout: str, _stderr: str) -> str:
    return ""


class Case(NamedTuple):
    """A command, its files, and what the server holds against its answer.

    ``argv`` are the arguments of nsyswrap, which runs in the folder. ``problem(code, stdout, stderr)`` says
    what is wrong with what it printed, or returns an empty text; bytes that are no UTF-8 are surrogates.
    ``made`` says in words what was mutated. ``inputs`` may not change. The command may write ``outputs`` (and
    what is below them) if it succeeds, and nothing else. ``codes`` are the exit codes that are right.
    ``names_each``: it may say more than one line, as each of several captures that is left out is named.
    ``must_answer``: the mutation is harmless, so that only exit code 0 is right. ``before`` is called in the
    child before the command. ``after`` is called at the end, to give back a lock that ``case`` holds.
    """

    argv: list[str]
    inputs: list[Path]
    problem: Callable[[int, str, str], str]
    made: str
    outputs: tuple[Path, ...] = ()
    codes: tuple[int, ...] = (0, 65)
    names_each: bool = False
    must_answer: bool = False
    before: Callable[[], object] = lambda: None
    after: Callable[[], object] = lambda: None
