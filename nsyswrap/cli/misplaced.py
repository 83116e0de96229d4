"""Options of ours behind PROGRAM: they are passed to the program, and one note says so."""

from __future__ import annotations

import itertools
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress

import click

from nsyswrap.base.files import small_file
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.cli.output import note

with lazy_imports():
    from nsyswrap import reports
    from nsyswrap.reports import ranks


def note_misplaced_report(program: Sequence[str]) -> bool:
    """Print a note if ``-r`` with the name of a report is behind PROGRAM. Return False if it is not."""
    names = (*reports.NAMES, *ranks.NAMES)
    for option, words in _own_options(program):
        value = words[-1].rpartition("=")[2] if len(words) == 1 else words[-1]
        if option in ("-r", "--report") and re.split("[:,]", value)[0] in names:
            _note(option, words, program)
            return True
    return False


def note_misplaced_option(program: Sequence[str]) -> None:
    """Print a note if a long option is behind PROGRAM, whose file does not mention it: why a run failed."""
    content = b""
    with suppress(OSError):
        content = small_file(shutil.which(program[0]) or program[0]).replace(b"-", b"_")
    for option, words in _own_options(program):
        if content and option.startswith("--") and option[2:].replace("-", "_").encode() not in content:
            _note(option, words, program)
            return


def _note(option: str, words: Sequence[str], program: Sequence[str]) -> None:
    """Print where the option went, and the command with the option's words in front of PROGRAM."""
    given = sys.argv[2 : -len(program)]  # behind the name of the command
    start = next(i for i in range(1, len(program)) if [*program[i : i + len(words)]] == [*words])
    rest = [*program[:start], *program[start + len(words) :]]
    note(f"nsyswrap: {option} was passed to {program[0]}: options of nsyswrap go before PROGRAM")
    note(f"  {click.get_current_context().command_path} {shlex.join([*given, *words, *rest])}")


def _own_options(program: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the options of the running command that are behind PROGRAM, with the words of each as typed.

    There are none if the user set the program apart with ``--``.
    """
    if sys.argv[-len(program) - 1 : -len(program)] == ["--"]:
        return
    options = {
        flag: option
        for option in click.get_current_context().command.params
        if isinstance(option, click.Option) and not option.hidden
        for flag in option.opts
    }
    words = list(itertools.takewhile(lambda word: word != "--", program[1:]))
    for word, following in itertools.zip_longest(words, words[1:], fillvalue=""):
        flag, equals, _ = word.partition("=") if word.startswith("--") else (word, "", "")
        if flag in options:
            has_value = following and not equals and not options[flag].is_flag
            yield flag, [word, following] if has_value else [word]
