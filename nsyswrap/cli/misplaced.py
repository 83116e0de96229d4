"""Options of ours behind PROGRAM: they are passed to the program, and one note says so."""

from __future__ import annotations

import itertools
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import click

from nsyswrap.base.files import small_file
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.cli.output import note

with lazy_imports():
    from nsyswrap import reports
    from nsyswrap.base import run_folder
    from nsyswrap.reports import ranks


# Options whose names hardly another program has.
_DISTINCTIVE = frozenset(
    (
        *("capture-range", "compare-bare", "discard-rep", "follow-forks", "keep-environment", "modules"),
        *("no-stats", "nsys", "nsys-arg", "nvcc", "step-at", "then-stop", "um-faults"),
    )
)
# What a script mentions that may read them, also through a module or another process.
_READS_ARGUMENTS = rb"arg|absl|click|config|docopt|fire|flags|hydra|main\(\)|runpy|subprocess|typer|import \*"


def note_misplaced_before(program: Sequence[str], *, module: bool = False) -> bool:
    """Print a note if an option behind PROGRAM is certainly ours. Return False if none is.

    That is ``-r`` with the name of a report, a distinctive option that PROGRAM's file does not mention, and
    any long option behind a script that reads no arguments.
    """
    names = (*reports.NAMES, *ranks.NAMES)
    for option, words in _own_options(program):
        value = words[-1].rpartition("=")[2] if len(words) == 1 else words[-1]
        if option in ("-r", "--report") and re.split("[:,]", value)[0] in names:
            _note([(option, words)], program)
            return True
    script = _script(program, module=module)
    ignores = script.endswith(".py") and not re.search(_READS_ARGUMENTS, _content(script))
    return note_misplaced_option(program, module=module, certain=not ignores)


def note_misplaced_option(program: Sequence[str], *, module: bool = False, certain: bool = False) -> bool:
    """Print a note if long options are behind PROGRAM, whose file does not mention them. Return False if not.

    With ``certain`` one of them has to be distinctive. ``module``: PROGRAM is a module.
    """
    content = _content(_script(program, module=module)).replace(b"-", b"_")
    unknown = [
        (option, words)
        for option, words in _own_options(program)
        if content and option.startswith("--") and option[2:].replace("-", "_").encode() not in content
    ]
    if not unknown or (certain and not any(option[2:] in _DISTINCTIVE for option, _ in unknown)):
        return False
    _note(unknown, program)
    return True


def _script(program: Sequence[str], *, module: bool) -> str:
    """Return the file that reads the options: script or module of a Python, or else the program itself."""
    words = [sys.executable, "-m", *program] if module else program
    name = run_folder.program_word(words) if run_folder.is_python(words[0]) else program[0]
    folder = Path(*name.split("."))
    in_module = next(filter(_content, (f"{folder}.py", str(folder / "__main__.py"))), "")
    return name if name.endswith(".py") else in_module or program[0]


def _content(program: str) -> bytes:
    with suppress(OSError):
        return small_file(shutil.which(program) or program)
    return b""


def _note(options: Sequence[tuple[str, Sequence[str]]], program: Sequence[str]) -> None:
    """Print where the first of these options went, and the command with their words in front of PROGRAM."""
    given = sys.argv[2 : -len(program)]  # behind the name of the command
    rest = [*program]
    for _, words in options:
        start = next(i for i in range(1, len(rest)) if rest[i : i + len(words)] == [*words])
        del rest[start : start + len(words)]
    moved = [word for _, words in options for word in words]
    note(f"nsyswrap: {options[0][0]} was passed to {program[0]}: options of nsyswrap go before PROGRAM")
    note(f"  {click.get_current_context().command_path} {shlex.join([*given, *moved, *rest])}")


def _own_options(program: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the options of the running command that are behind PROGRAM, with the words of each as typed.

    There are none if the user set the program apart with ``--``.
    """
    if sys.argv[-len(program) - 1 : -len(program)] == ["--"]:
        return
    options = {
        flag: option
        for option in click.get_current_context().command.params
        if isinstance(option, click.Option) and option.help
        for flag in option.opts
    }
    words = list(itertools.takewhile(lambda word: word != "--", program[1:]))
    for word, following in itertools.zip_longest(words, words[1:], fillvalue=""):
        flag, equals, _ = word.partition("=") if word.startswith("--") else (word, "", "")
        if flag in options:
            is_value = following.isdecimal() or getattr(options[flag], "left_out", None) is None
            has_value = following and is_value and not equals and not options[flag].is_flag
            yield flag, [word, following] if has_value else [word]
