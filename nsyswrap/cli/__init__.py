"""The command line. One file per command: parse, call, print. A command is imported when it is used."""

from __future__ import annotations

import importlib
import math
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise, takewhile
from types import FrameType
from typing import Any, NamedTuple, NoReturn

import click

from nsyswrap.base import limits, paths
from nsyswrap.base.errors import CommandHint, NsyswrapError, OutputError, Unreadable, UsageError
from nsyswrap.base.lazy import import_numpy_without_threads, lazy_imports
from nsyswrap.base.text import did_you_mean, printable, unknown
from nsyswrap.cli.help import COMMANDS, EAGER_FLAG, HIDDEN, CommandGroup
from nsyswrap.cli.output import HelpContext, add_color_option, note, note_warning, print_data, say

with lazy_imports():  # other names than those of the modules, which are attributes of this package
    import json
    import shutil
    import traceback

    from click import shell_completion

    from nsyswrap.base import settings
    from nsyswrap.base import version as versions
    from nsyswrap.cli import recording

# Words of other tools and of sub-commands -> the command to use.
_OTHER_WORDS = {
    "analyze": "nsyswrap report --advice",
    "cancel": "nsyswrap batch cancel DIR",
    "diff": "nsyswrap compare BASE NEW",
    "launch": "nsyswrap profile PROGRAM",
    "list": "nsyswrap runs",
    "ncu": "nsyswrap report --ncu",
    "open": "nsyswrap view",
    "record": "nsyswrap profile PROGRAM",
    "run": "nsyswrap profile PROGRAM",
    "show": "nsyswrap report",
    "stats": "nsyswrap report",
    "status": "nsyswrap batch status DIR",
    "summary": "nsyswrap report",
    "sweep": "nsyswrap batch sweep",
    "timeline": "nsyswrap view",
    "ui": "nsyswrap view",
    "version": "nsyswrap --version",
}
_OTHER_ARGUMENTS = ("ncu", "version")  # what follows these words is not for us
# Other forms of options.
_OTHER_FLAGS = {"-V": "--version", "-v": "--version", "-?": "--help", "-help": "--help"}
_OF_NSYS = {"-f": "--format names a format;", "-t": "nsyswrap profile --trace says what to record;"}
_PROGRAMS, _CAPTURES = (".py", ".cu"), (".sqlite", ".nsys-rep", ".qdrep")
_EPILOG = """\
Exit codes:
  0 success; 1 a check failed; 2 wrong usage; 3 gate undecided; 65 no capture;
  69 no nsys or GPU; 70 nsys failed; 73 cannot write; 75 timed out; 78 wrong
  plan; 126/127 not executed/found; 129/130/143 interrupted; else the program's
Completion of commands, reports and scenarios in bash (zsh: zsh_source):
  eval "$(_NSYSWRAP_COMPLETE=bash_source nsyswrap)"
  fish: _NSYSWRAP_COMPLETE=fish_source nsyswrap | source
"""
_SIGINT, _SIGPIPE = 130, 141  # exit codes
_AGAIN_S = 0.01
_MOST_BYTES = 4096  # of an error as an object, as of a packet
_CHARACTERS = (1000, 500, 200, 90)  # of a text in it: the first that fits; escaped, each has up to 12 bytes
_REPEAT_S = 2  # launchers and shells signal twice: only a later second signal is the user's


class LazyGroup(CommandGroup):
    """A group of commands that are imported when they are used."""

    context_class = HelpContext

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the arguments; this prints --help."""
        typed = tuple(args)
        with _stdout_errors():
            try:
                return super().make_context(info_name, args, parent, **extra)
            except click.NoSuchOption as error:
                self._refuse_before_command(error, typed)
                raise

    def _refuse_before_command(self, error: click.NoSuchOption, typed: tuple[str, ...]) -> None:
        """Raise UsageError for an option that belongs behind a command, if that command has it."""
        flag = error.option_name
        if typed[0] in _OTHER_FLAGS:
            raise UsageError(
                f"no option named {typed[0]!r}", f"use nsyswrap {_OTHER_FLAGS[typed[0]]}"
            ) from None
        name = next((word for word in typed if word in COMMANDS), "") or _command_for_all(typed)
        command = self.get_command(error.ctx, name) if error.ctx else None
        options = [flag for parameter in command.params for flag in parameter.opts] if command else []
        if flag in options:
            rest = list(typed)
            if name in rest:
                rest.remove(name)
            raise UsageError(
                f"no option named {flag!r} before the command",
                CommandHint.of(["nsyswrap", name, *rest], "options follow the command: {}"),
            ) from None
        if error.ctx and recording.option_of_nsys(flag):
            advice = self._advice_for_nsys(error.ctx, typed)
            raise UsageError(f"{flag} is an option of nsys, not of nsyswrap", advice) from None

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        try:
            with _stdout_errors():
                return super().invoke(ctx)
        except _Ended as ended:  # click would print an empty line, also to a terminal that is gone
            sys.exit(ended.exit_code)

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Return the names of the commands in the order of use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command; None if there is none of this name."""
        if cmd_name not in (*COMMANDS, *HIDDEN):
            return None
        command: click.Command = importlib.import_module(f"nsyswrap.cli.{cmd_name.replace('-', '_')}").command
        _prepare(command)
        if ctx.resilient_parsing:  # a completion in the shell
            return command
        noted: set[str] = ctx.meta.setdefault(f"{__name__}.noted", set())  # click gets a command twice
        for text in settings.apply(ctx, cmd_name, command):
            if text not in noted:
                note(f"nsyswrap: {text}")
            noted.add(text)
        return command

    def refuse(self, ctx: click.Context, name: str, *rest: str) -> NoReturn:
        """Raise UsageError for a command that does not exist, and the words behind it."""
        message, hint = unknown("command", name, self.list_commands(ctx))
        if (name, *rest[:1]) == ("nsys", "profile"):
            raise UsageError(message, self._advice_for_nsys(ctx, rest[1:]))
        known, *behind = rest if name == "nsys" and rest else (name, *rest)
        is_similar = did_you_mean(name, self.list_commands(ctx))
        if name == "help":
            hint = CommandHint.of(["nsyswrap", *rest, "--help"], "use {}")
        elif known in COMMANDS:  # behind nsys
            hint = CommandHint.of(["nsyswrap", known, *behind], "use {}")
        elif known in _OTHER_WORDS:
            given = [] if known in _OTHER_ARGUMENTS else behind
            words = [word for word in _OTHER_WORDS[known].split() if not (given and word.isupper())]
            hint = CommandHint.of([*words, *given], "use {}")
        elif command := _command_for(name, by_file=not is_similar):
            hint = CommandHint.of(["nsyswrap", command, name, *rest], "use {}")
        raise UsageError(message, hint)

    def _advice_for_nsys(self, ctx: click.Context, words: Sequence[str]) -> str:
        command = self.get_command(ctx, "profile")
        return recording.advice_for_nsys(command, "nsyswrap profile", words) if command else ""

    def command_sections(self, _ctx: click.Context) -> dict[str, dict[str, str]]:
        """Return the commands with their lines, without importing them."""
        sections: dict[str, dict[str, str]] = {}
        for name, (heading, line) in COMMANDS.items():
            sections.setdefault(heading, {})[name] = line
        return sections

    def shell_complete(
        self, ctx: click.Context, incomplete: str
    ) -> list[shell_completion.CompletionItem[str]]:
        """Return the commands and options that begin like this, without importing the commands."""
        items = [shell_completion.CompletionItem(name, help=line) for name, (_, line) in COMMANDS.items()]
        begun = [item for item in items if item.value.startswith(incomplete)]
        return [*begun, *click.Command.shell_complete(self, ctx, incomplete)]


def _command_for(name: str, *, by_file: bool = True) -> str:
    """Return the command for a program or a capture; empty for another word.

    With ``by_file`` a program is also what can be executed, on PATH or here.
    """
    with suppress(Unreadable):
        if name.endswith(_CAPTURES) or paths.is_folder(name):
            return "report"
    can_run = by_file and (name.startswith("./") or shutil.which(name) or shutil.which(f"./{name}"))
    return "profile" if can_run or name.endswith(_PROGRAMS) else ""


def _command_for_all(words: Sequence[str]) -> str:
    """Return the command for a command line without one. A word behind an option is more likely its value."""
    before_each = pairwise(("", *words))
    alone = [word for before, word in before_each if not before.startswith("-") or "=" in before]
    otherwise = "profile" if "-m" in words else "report"
    return next(filter(None, map(_command_for, (*alone, *words))), otherwise)


def _show_config(context: click.Context, _option: click.Parameter, given: bool) -> None:  # noqa: FBT001 - click's own signature
    if not given or context.resilient_parsing:
        return
    values, notes = settings.current()
    for text in notes:
        note(f"nsyswrap: {text}")
    rows = [
        (key, str(value).lower() if isinstance(value, bool) else str(value), source)
        for key, (value, source) in values.items()
    ]
    width = max(len(text) for _, text, _ in rows)
    lines = [f"{key:10}{text:{width}}  {source}" for key, text, source in rows]
    project, user = settings.project_file(), settings.user_file()
    absent = "" if user and settings.is_there(user) else " (not there)"
    lines += ["", f"{'project':10}{project or 'no pyproject.toml here or in the repository'}"]
    lines += [f"{'user':10}{user or 'no home folder'}{absent}"]
    say("\n".join(lines) + "\n")
    context.exit()


def _show_version(context: click.Context, _option: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's own signature
    if value and not context.resilient_parsing:
        say(f"nsyswrap, version {versions.version()}")
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
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    examples=("nsyswrap profile train.py --epochs 1", "nsyswrap report -r cuda_gpu_kern_sum --top 5"),
    epilog=_EPILOG,
)
@click.option("--version", callback=_show_version, help="Show the version and exit.", **EAGER_FLAG)
@click.option(
    "--show-config", callback=_show_config, help="Show each setting and where it came from.", **EAGER_FLAG
)
def cli() -> None:
    """Run CUDA and PyTorch programs under NVIDIA Nsight Systems.

    See how busy the GPU was, why it was idle, and what to change. Start with
    `nsyswrap profile PROGRAM`, or without a GPU with `nsyswrap demo`.
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and end the process. Only here errors become messages and exit codes.

    Signals are those of the program that gives ``arguments``: it may go on.
    """
    _open_closed_streams()
    import_numpy_without_threads()
    warnings.showwarning = note_warning
    sys.excepthook = lambda *error: _print_error("".join(traceback.format_exception(*error)))
    handled = _own_process() if arguments is None else []
    code: str | int | None
    refusal: _Refusal | None = None
    try:
        code = cli.main(args=arguments, prog_name="nsyswrap", standalone_mode=False)
    except SystemExit as end:
        code = end.code
    except NsyswrapError as error:
        code, refusal = error.exit_code, _refusal(error)
    except click.ClickException as error:
        code, refusal = error.exit_code, _usage_refusal(error)
    except (click.Abort, KeyboardInterrupt) as interrupt:
        code = getattr(interrupt.__cause__ or interrupt, "exit_code", _SIGINT)
    except (OSError, MemoryError, RuntimeError) as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # Python 3.11 wraps what comes as a class is made
            code = getattr(error.__cause__, "exit_code", _SIGINT)
        elif (lack := limits.lack(error)) is None:
            raise
        else:
            code, refusal = lack.exit_code, _refusal(lack)
    if refusal:  # now that the traceback holds no file and no memory any more
        _print_refusal(refusal, code, sys.argv[1:] if arguments is None else arguments)
    code = _flushed(code)
    for number in handled:
        signal.signal(number, signal.SIG_IGN)  # Python would set the default before it ends
    sys.exit(code)


def _own_process() -> list[signal.Signals]:
    """Set what concerns the whole process; return the signals that raise an exception."""
    limits.collect_garbage_rarely()
    return _end_like_ctrl_c()


class _Ended(KeyboardInterrupt):
    """SIGTERM or SIGHUP ends the command as Ctrl-C does: temporary files are removed."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number, self.exit_code = number, 128 + number


def _end_like_ctrl_c() -> list[signal.Signals]:
    """Let SIGTERM and SIGHUP raise an exception as SIGINT does; without those that the caller ignores.

    Return the signals that raise one.
    """
    came_at = -math.inf

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal came_at
        if _is_inside(dropped, frame):  # what is raised there, Python drops, too
            _signal_again(number)
            return
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        before, came_at = came_at, time.monotonic()
        if came_at > before + _REPEAT_S:
            raise _Ended(number)

    def dropped(what: sys.UnraisableHookArgs) -> None:
        """Raise once more what Python drops, as it finalizes an object."""
        nonlocal came_at
        if not isinstance(what.exc_value, KeyboardInterrupt):
            sys.__unraisablehook__(what)
            return
        came_at = -math.inf
        _signal_again(getattr(what.exc_value, "number", signal.SIGINT))

    known = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]  # as of Linux
    handled = [number for number in known if signal.getsignal(number) is signal.SIG_DFL]
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        handled.append(signal.SIGINT)
    for number in handled:
        signal.signal(number, end)
    sys.unraisablehook = dropped
    return handled


def _is_inside(function: Callable[..., object], frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code is not function.__code__:
        frame = frame.f_back
    return frame is not None


def _signal_again(number: int) -> None:
    """Send a signal to the main thread in a moment: one to another thread would not wake it."""

    def send() -> None:
        if hasattr(signal, "pthread_kill"):
            signal.pthread_kill(threading.main_thread().ident or 0, number)
        else:  # on Windows
            signal.raise_signal(number)

    threading.Timer(_AGAIN_S, send).start()


@contextmanager
def _stdout_errors() -> Iterator[None]:
    """Turn errors of writing to stdout into exit codes and messages.

    click would exit with 1 for a closed pipe. Python would print a traceback for a full disk, and for a
    current folder that was removed.
    """
    try:
        yield
    except BrokenPipeError:  # as in `nsyswrap ... | head`
        sys.exit(_SIGPIPE)
    except OSError as error:
        if error.filename is not None or limits.lack(error):
            raise
        paths.check_current()
        raise OutputError(f"cannot write to stdout: {error.strerror}") from None


class _Refusal(NamedTuple):
    """Why a command ended: the class of the error, what is wrong and where, and what to do next."""

    kind: str
    what: str
    do: str
    remedy: Sequence[str] = ()
    retryable: bool = False

    @property
    def text(self) -> str:
        return f"nsyswrap: {self.what}" + (f"\n  {self.do}" if self.do else "")


def _print_refusal(refusal: _Refusal, code: str | int | None, words: Sequence[str]) -> None:
    """Print an error for people; also as an object if the command line asks for JSON."""
    _print_error(refusal.text)
    own = list(takewhile("--".__ne__, words))
    forms = {
        *(word.partition("=")[2] for word in own if word.startswith("--format=")),
        *[word for before, word in pairwise(own) if before == "--format"],
    }
    if own[:1] != ["profile"] and ("--json" in own or not forms.isdisjoint(("json", "brief"))):
        with suppress(OSError):
            print_data(f"{_as_object(refusal, code)}\n")


def _as_object(refusal: _Refusal, code: str | int | None) -> str:
    """Return an error as JSON of at most _MOST_BYTES: texts are cut, a long remedy is left out."""
    fields = {"format": "nsyswrap-error", "version": 1, "code": code, **refusal._asdict()}
    whole = json.dumps(fields)
    if len(whole) <= _MOST_BYTES:
        return whole
    if len(json.dumps(refusal.remedy)) > _MOST_BYTES // 3:
        fields["remedy"] = []
    for characters in _CHARACTERS:
        fields |= {name: _cut(getattr(refusal, name), characters) for name in ("what", "do")}
        whole = json.dumps(fields)
        if len(whole) <= _MOST_BYTES:
            break
    return whole


def _cut(text: str, characters: int) -> str:
    """Cut the middle of a text that has more characters: its ends tell what failed and why."""
    half = characters // 2
    return text if len(text) <= characters else f"{text[:half]}…{text[-half:]}"


def _refusal(error: NsyswrapError) -> _Refusal:
    message = error.message if error.has_lines else printable(error.message)
    hint = printable(error.hint)
    return _Refusal(type(error).__name__, message, hint, error.remedy, error.retryable)


def _usage_refusal(error: click.ClickException) -> _Refusal:
    """Return the message for arguments that click refuses, and what to type next."""
    message, hint = error.format_message().rstrip("."), ""
    remedy: list[str] = []
    context = error.ctx if isinstance(error, click.UsageError) else None
    if isinstance(error, click.NoSuchOption) and context:
        options = [flag for one in context.command.get_params(context) for flag in one.opts]
        message, hint = (f"no option named {error.option_name!r}", did_you_mean(error.option_name, options))
        hint = hint or _OF_NSYS.get(error.option_name, "")
    if context:
        flag = "--help-all" if getattr(context.command, "has_rare", False) else "--help"
        hint = f"{hint} {context.command_path} {flag} shows all options"
        remedy = [*context.command_path.split(), flag]
    return _Refusal("UsageError", f"{message[:1].lower()}{message[1:]}", hint.strip(), remedy)


def _print_error(message: str) -> None:
    with suppress(OSError):
        note(message)


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
