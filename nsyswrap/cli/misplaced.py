"""Options of ours that stand behind PROGRAM: they are passed to the program, and a note says so.

The note is printed before the run if the program can hardly take the option, and after a failed run if its
file does not mention the option. A program that takes an option of the same name gets no note.
"""

from __future__ import annotations

import itertools
import re
import shlex
import shutil
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nsyswrap.base.errors import UsageError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.cli.output import note

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

with lazy_imports():
    from nsyswrap import reports
    from nsyswrap.reports import ranks

_SOURCES = (".py", ".cu")
# Signs in a source that it reads its command line.
_READS_ARGUMENTS = re.compile(
    rb"argv|argc|[Aa]rg_?[Pp]arse|parse_args|optparse|getopt|docopt|gflags"
    rb"|\b(click|typer|fire|absl|hydra|tyro|plac|cyclopts|simple_parsing|runpy)\b"
)
_IMPORTED = re.compile(rb"^\s*(?:from|import)\s+(\.*\w*)", re.MULTILINE)
_READ_BYTES = 50_000_000  # of a program's file


@dataclass(frozen=True)
class Misplaced:
    """An option behind PROGRAM with its value, the program's words, and the command that has the option."""

    option: str
    value: str
    program: Sequence[str]
    command: str

    def note(self) -> None:
        """Print where the option went, and where it belongs."""
        name = self.program[0]
        typed = shlex.join(filter(None, (self.option, self.value, name)))
        note(f"nsyswrap: {self.option} was passed to {name}: options of nsyswrap stand before PROGRAM")
        note(f"  {self.command} {typed}")

    @property
    def is_certain(self) -> bool:
        """True if the program can hardly take the option: before the run, this is known."""
        if self.option in ("-r", "--report") and re.split("[:,]", self.value)[0] in (
            *reports.NAMES,
            *ranks.NAMES,
        ):
            return True
        path = Path(self.program[0])
        content = _content(path)
        return path.suffix in _SOURCES and bool(content) and not _reads_arguments(path, content)

    @property
    def is_likely(self) -> bool:
        """True if the program's file does not mention a long option: a failure can be due to it."""
        content = _content(Path(shutil.which(self.program[0]) or self.program[0]))
        return self.option.startswith("--") and self.option[2:].replace("-", "_").encode() not in (
            content.replace(b"-", b"_")
        )


def note_first(options: Iterable[Misplaced]) -> bool:
    """Print the note of the first of these options. Return False if there is none."""
    first = next(iter(options), None)
    if first:
        first.note()
    return bool(first)


def find_misplaced(program: Sequence[str]) -> list[Misplaced]:
    """Return the options of the running command that stand behind PROGRAM.

    Returns none if the user set the program apart with ``--``.
    """
    if sys.argv[-len(program) - 1 : -len(program)] == ["--"]:
        return []
    context = click.get_current_context()
    options = {
        flag: option
        for option in context.command.params
        if isinstance(option, click.Option) and not option.hidden
        for flag in (*option.opts, *option.secondary_opts)
    }
    words = list(itertools.takewhile(lambda word: word != "--", program[1:]))
    misplaced = []
    for word, following in zip(words, [*words[1:], ""], strict=False):
        flag, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if flag in options:
            value = "" if options[flag].is_flag else value if equals else following
            misplaced.append(Misplaced(flag, value, program, context.command_path))
    return misplaced


def _content(path: Path) -> bytes:
    with suppress(OSError), path.open("rb") as file:
        return file.read(_READ_BYTES)
    return b""


def _reads_arguments(path: Path, content: bytes) -> bool:
    """Return True if a source reads its command line, or imports a file beside it, which may do so."""
    beside = {child.stem for child in path.parent.iterdir() if child.suffix == ".py" or child.is_dir()}
    imported = {name.decode() for name in _IMPORTED.findall(content)}
    return bool(_READS_ARGUMENTS.search(content) or imported & beside)


def _refuse_code(context: click.Context, _option: click.Parameter, code: str | None) -> None:
    if code is not None and not context.resilient_parsing:
        raise UsageError(
            f"{context.command_path} takes a program, not the code of -c",
            f"{context.command_path} -- python3 -c {shlex.quote(code)}",
        )


# As in `python -c`: it names the way that works.
code_option = click.option(
    "-c", "code", hidden=True, is_eager=True, expose_value=False, callback=_refuse_code
)
