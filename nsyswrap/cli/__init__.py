"""The command line. One file per command: parse, call, print. A command is imported when it is used."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
import warnings
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from nsyswrap.base import settings
from nsyswrap.base.errors import NsyswrapError, OutputError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.version import __version__
from nsyswrap.cli.color import add_color_option
from nsyswrap.cli.commands import COMMANDS
from nsyswrap.cli.output import HelpContext, note, note_warning, say, usage_error_text

if TYPE_CHECKING:
    from collections.abc import Iterator

with lazy_imports():  # another name than that of the module, which is an attribute of this package
    from nsyswrap.cli import show_config as _config

_SIGPIPE = 141


class LazyGroup(click.Group):
    """A group of commands that are imported when they are used."""

    context_class = HelpContext

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Parse the arguments; this prints --help."""
        with _stdout_errors():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        with _stdout_errors():
            return super().invoke(ctx)

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Return the names of the commands in the order of use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command; None if there is none of this name."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"nsyswrap.cli.{cmd_name.replace('-', '_')}").command
        _prepare(command)
        for text in settings.apply(ctx, cmd_name, command):
            note(f"nsyswrap: {text}")
        return command

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _show_config(context: click.Context, _option: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's own signature
    if value and not context.resilient_parsing:
        say(_config.show_config())
        context.exit()


def _prepare(command: click.Command) -> None:
    """Give a command and those below it what all commands have: --color, and help for this terminal."""
    add_color_option(command)
    command.context_class = HelpContext
    if isinstance(command, click.Group):
        for one in command.commands.values():
            _prepare(one)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 fine; the program's own when it failed; 65 not a capture; 69 nsys or GPU missing; "
    "70 nsys failed; 73 output exists or cannot be written; 75 timed out; 78 wrong plan; "
    "126/127 not executable/not found; 129/130/143 interrupted.",
)
@click.version_option(__version__, prog_name="nsyswrap")
@click.option(
    "--show-config",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_config,
    help="Show each setting and where it came from.",
)
def cli() -> None:
    """Run CUDA and PyTorch programs under NVIDIA Nsight Systems, and read what the GPU did."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and end the process. Only here errors become messages and exit codes."""
    _open_closed_streams()
    warnings.showwarning = note_warning
    sys.excepthook = _note_traceback
    code: str | int | None
    try:
        code = cli.main(args=arguments, prog_name="nsyswrap", standalone_mode=False)
    except SystemExit as end:
        code = end.code
    except NsyswrapError as error:
        _print_error(f"nsyswrap: {error}" + (f"\n  {error.hint}" if error.hint else ""))
        code = error.exit_code
    except click.ClickException as error:
        _print_error(usage_error_text(error))
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = 130
    sys.exit(_flushed(code))


@contextmanager
def _stdout_errors() -> Iterator[None]:
    """Turn errors of writing to stdout into exit codes and messages.

    click would exit with 1 for a closed pipe. Python would print a traceback for a full disk.
    """
    try:
        yield
    except BrokenPipeError:  # as in `nsyswrap ... | head`
        sys.exit(_SIGPIPE)
    except OSError as error:
        if error.filename is not None:
            raise
        raise OutputError(f"cannot write to stdout: {error.strerror}") from None


def _print_error(message: str) -> None:
    with suppress(OSError):
        note(message)


def _note_traceback(*error: Any) -> None:
    _print_error("".join(traceback.format_exception(*error)))


def _flushed(code: str | int | None) -> str | int | None:
    """Flush stdout and stderr; return the exit code, which changes from 0 if that fails."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # Python flushes again at exit
            code = code or (_SIGPIPE if isinstance(error, BrokenPipeError) else OutputError.exit_code)
    return code


def _open_closed_streams() -> None:
    """Open /dev/null in place of stdin, stdout or stderr if the caller closed them (``>&-``)."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor, which is this one
            setattr(sys, name, os.fdopen(number, "w" if number else "r"))
