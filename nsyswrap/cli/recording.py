"""The command-line options for recording a program, shared by ``profile`` and ``batch sweep``."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import click

from nsyswrap.base.errors import UsageError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.run_folder import check_share
from nsyswrap.cli.help import Command, completes, option
from nsyswrap.cli.options import with_options

if TYPE_CHECKING:
    from nsyswrap.base.nsys.command import Options
    from nsyswrap.base.run_folder import Share

with lazy_imports():
    from nsyswrap.base.nsys import command as nsys_command
    from nsyswrap.base.nsys import translation
    from nsyswrap.record import nvcc_options


@dataclass(frozen=True)
class RecordingOptions:
    """How a program is recorded: one field for each option of the command line."""

    trace: str
    no_stats: bool
    um_faults: bool
    follow_forks: bool
    graphs: str | None
    capture_range: str | None
    delay: float | None
    duration: float | None
    steps: str | None
    step_at: str | None
    then_stop: bool
    modules: int | None
    variables: tuple[str, ...]
    timeout: float | None
    arch: str | None
    nvcc: str | None
    nsys_path: str | None
    nsys_args: tuple[str, ...]
    keep_environment: bool
    discard_rep: bool
    share: Share | None

    @property
    def nsys(self) -> Options:
        """The options of nsys itself."""
        named_alike = {
            field.name: getattr(self, field.name)
            for field in fields(nsys_command.Options)
            if field.name not in ("stats", "extra")
        }
        return nsys_command.Options(**named_alike, stats=not self.no_stats, extra=self.nsys_args)

    def check(self) -> None:
        """Raise UsageError for values that are wrong, or that do not fit."""
        _ = self.environment, self.nvcc_words, self.nsys
        check_share(self.share, keep_environment=self.keep_environment)

    @property
    def nvcc_words(self) -> tuple[str, ...]:
        """The options of ``--nvcc``. Raises UsageError for a quote that is not closed."""
        return nvcc_options.split(self.nvcc) if self.nvcc else ()

    @property
    def environment(self) -> dict[str, str]:
        """The variables of ``--env K=V``. Raises UsageError if one is not of this form."""
        variables = {}
        for assignment in self.variables:
            name, equals, value = assignment.partition("=")
            if not name or not equals:
                raise UsageError(
                    f"invalid --env {assignment!r}: expected K=V, for example CUDA_VISIBLE_DEVICES=0"
                )
            variables[name] = value
        return variables


PROGRAM, RECORDING, FOLDER = "Program", "Recording", "Run folder"  # headings of the help
module_option = option(PROGRAM, "-m", "--module", is_flag=True, help="Run PROGRAM as a module: python -m.")
_add_options = with_options(
    option(
        PROGRAM,
        "--env",
        "variables",
        multiple=True,
        metavar="K=V",
        help="Set an environment variable; repeatable.",
    ),
    option(
        PROGRAM,
        "--nvcc",
        metavar="OPTIONS",
        rare=True,
        help="Compile a .cu PROGRAM with these options of nvcc.",
    ),
    option(PROGRAM, "--arch", metavar="SM", rare=True, help="Compile a .cu PROGRAM for this GPU: sm_90."),
    option(
        PROGRAM,
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        metavar="S",
        help="End the run after S seconds (exit code 75).",
    ),
    option(
        RECORDING, "--trace", default="cuda,nvtx", show_default=True, metavar="APIS", help="Trace these APIs."
    ),
    option(
        RECORDING,
        "--um-faults",
        is_flag=True,
        rare=True,  # the reports that need it name it
        help="Record unified-memory page faults (slow).",
    ),
    option(
        RECORDING,
        "--follow-forks",
        is_flag=True,
        rare=True,
        help="Record forked workers, too (may deadlock them).",
    ),
    option(
        RECORDING,
        "--graphs",
        type=click.Choice(["graph", "node"]),
        help="Record CUDA graphs whole or by node.",
    ),
    option(
        RECORDING,
        "--capture-range",
        metavar="RANGE",
        help="Record only inside cudaProfilerApi or nvtx:NAME.",
        shell_complete=completes(lambda: ("cudaProfilerApi", "nvtx:")),
    ),
    option(
        RECORDING,
        "--delay",
        type=click.FloatRange(min=0),
        metavar="S",
        help="Start recording after S seconds.",
    ),
    option(
        RECORDING,
        "--duration",
        type=click.FloatRange(min=0),
        metavar="S",
        help="Record S seconds, then end the program.",
    ),
    option(RECORDING, "--steps", metavar="N-N", help="Record training steps 10-13, counted from 0."),
    option(
        RECORDING,
        "--step-at",
        metavar="WHERE",
        help="End steps at module, nvtx:NAME, call:MOD:FUNC.",
        shell_complete=completes(lambda: ("module", "nvtx:", "call:")),
    ),
    option(RECORDING, "--then-stop", is_flag=True, help="End the program after --steps."),
    option(
        RECORDING,
        "--modules",
        type=click.IntRange(min=1),
        left_out=4,
        metavar="[DEPTH]",
        help="Label GPU work by PyTorch module (4 levels).",
    ),
    option(RECORDING, "--no-stats", is_flag=True, help="Skip the tables of nsys; faster for large runs."),
    option(
        RECORDING,
        "--nsys",
        "nsys_path",
        metavar="PATH",
        show_default="$NSYSWRAP_NSYS, PATH",
        rare=True,
        help="Use this nsys.",
    ),
    option(
        RECORDING,
        "--nsys-arg",
        "nsys_args",
        multiple=True,
        metavar="ARG",
        help="Pass ARG to nsys unchanged; repeatable.",
    ),
    option(
        FOLDER,
        "--keep-environment",
        is_flag=True,
        rare=True,
        help="Keep environment variables in the export.",
    ),
    option(
        FOLDER,
        "--discard-rep",
        is_flag=True,
        rare=True,
        help="Delete the .nsys-rep, which cannot be redacted.",
    ),
    option(
        FOLDER, "--share", type=click.Choice(["group"]), help="Let your group read all but the .nsys-rep."
    ),
)


def recording_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for recording a program. The command gets one ``recording`` of them, checked."""

    @functools.wraps(command)
    def with_recording(**options: Any) -> None:
        values = {field.name: options.pop(field.name) for field in fields(RecordingOptions)}
        recording = RecordingOptions(**values)
        recording.check()
        command(recording=recording, **options)

    return _add_options(with_recording)


class RecordingCommand(Command):
    """A command that records a program. Options of nsys get the command line that nsyswrap has for them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. Raises UsageError for an option of nsys."""
        typed = tuple(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if quoted := _quoted_for_nvcc(typed, error.option_name):
                raise UsageError(
                    f"no option named {error.option_name!r}: --nvcc takes one word",
                    f"quote it: {ctx.command_path} {shlex.join(quoted)}",
                ) from None
            if not translation.option_of_nsys(error.option_name):
                raise
            advice = advice_for_nsys(self, ctx.command_path, typed)
            raise UsageError(f"{error.option_name} is an option of nsys, not of nsyswrap", advice) from None


def _quoted_for_nvcc(words: Sequence[str], unknown: str) -> list[str]:
    """Return the words with all options of nvcc as one, if ``unknown`` is one of them; else none."""
    start = words.index("--nvcc") + 1 if "--nvcc" in words else len(words)
    end = next((i for i, word in enumerate(words) if i >= start and word.endswith(".cu")), len(words))
    options = words[start : end - 1 if words[end - 1 : end] == ("--",) else end]
    is_of_nvcc = end < len(words) and any(word.startswith(unknown) for word in options[1:])
    return [*words[:start], " ".join(options), *words[start + len(options) :]] if is_of_nvcc else []


def advice_for_nsys(command: click.Command, path: str, words: Sequence[str]) -> str:
    """Return the command line of ours that says the same as the words of `nsys profile`."""
    options = (one for one in command.params if isinstance(one, click.Option))
    own = {flag: not one.is_flag for one in options for flag in one.opts}
    ours = translation.translate(words, own)
    advice = f"omit {', '.join(ours.defaults)} (default here):" if ours.defaults else "use"
    return f"{advice} {path} {shlex.join(ours.words) or 'PROGRAM'}"


def _refuse_code(context: click.Context, _option: click.Parameter, code: str | None) -> None:
    if code is not None and not context.resilient_parsing:
        if translation.is_range(code):
            raise UsageError("-c is an option of nsys, not of nsyswrap", f"use --capture-range {code}")
        raise UsageError(
            f"{context.command_path} takes a program, not the code of -c",
            f"{context.command_path} -- python3 -c {shlex.quote(code)}",
        )


# As in `python -c`: it names the way that works.
code_option = click.option(
    "-c", "code", hidden=True, is_eager=True, expose_value=False, callback=_refuse_code
)
