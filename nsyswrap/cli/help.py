"""The help of a command: options under headings, one line for each, and examples at the end.

Options that are wrong and commands that do not exist get a message that suggests the right one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from nsyswrap.base import paths
from nsyswrap.base.errors import CommandHint, Unreadable, UsageError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.text import did_you_mean, unknown

with lazy_imports():
    from click import shell_completion

if TYPE_CHECKING:
    Function = TypeVar("Function", bound=Callable[..., Any])

# Command -> its heading and its line in --help, which imports no command.
_ONE, _MANY, _LEARNING, _OTHER = "One program", "Many runs", "Learning", "Sharing and setup"
COMMANDS = {
    "profile": (_ONE, "Run a program under nsys and show its GPU activity."),
    "report": (_ONE, "Show captures: one screen, or reports in any format."),
    "view": (_ONE, "Write captures as one HTML page with a timeline."),
    "plot": (_ONE, "Draw captures: kernels, timeline, launches, copies."),
    "batch": (_MANY, "Run variants of programs, here or on a Slurm cluster."),
    "collect": (_MANY, "Put many runs into one table and compare them."),
    "compare": (_MANY, "Say whether a change made runs slower, and where."),
    "baseline": (_MANY, "Save figures of runs to commit; follow them over commits."),
    "session": (_ONE, "Record parts of a server's run, without a restart."),
    "runs": (_MANY, "List the runs begun here, open one, remove old ones."),
    "demo": (_LEARNING, "Run two small experiments, or show them recorded."),
    "scenarios": (_LEARNING, "List, explain and run small experiments."),
    "export": (_OTHER, "Write captures for Perfetto, as Parquet, as metrics."),
    "redact": (_OTHER, "Remove secrets from a capture before sharing it."),
    "doctor": (_OTHER, "Check this machine for recording, or check a capture."),
}
HIDDEN = ("run-folder",)  # the tasks of a batch run it

GENERAL = "General"  # the heading of options without one
_RARE = "Less common"  # the heading of those in --help-all
_ALSO_RARE = "Show this message; --help-all: more options."
_NO = ("false", "no", "off", "0")  # values that people give a flag
_WIDEST = 26  # columns of an option and its value
EAGER_FLAG: dict[str, Any] = {"is_flag": True, "is_eager": True, "expose_value": False}  # acts at once


class HelpOption(click.Option):
    """An option with a heading, ``group``. The help shows its default if ``show_default`` is set.

    ``left_out``: the number that counts if none follows the option. ``rare``: only --help-all shows it.
    ``elsewhere``: values that another option or command takes -> the hint that names it.
    """

    def __init__(
        self,
        *args: Any,
        group: str = GENERAL,
        left_out: int | None = None,
        rare: bool = False,
        elsewhere: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(*args, **settings)
        self.elsewhere = elsewhere or {}
        self.hidden = self.hidden or rare
        self.group = group
        self.left_out = left_out
        self.rare = rare

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the option with its metavar, and its help."""
        shows_rare = self.rare and ctx.meta.get(_RARE)
        self.hidden, hidden = self.hidden and not shows_rare, self.hidden
        record = super().get_help_record(ctx)
        self.hidden = hidden
        if record is None:
            return None
        shown = self.show_default if isinstance(self.show_default, str) else self.default
        return record[0], f"{self.help}{f' [default: {shown}]' if self.show_default else ''}"

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:  # noqa: ANN401 - click's own signature
        """Convert the value. Raises UsageError that says what is expected."""
        try:
            return super().type_cast_value(ctx, value)
        except click.BadParameter as error:
            values = value if self.multiple else [value]
            wrong = next((text for text in values if not self._accepts(text, ctx)), value)
            raise _invalid(self, str(wrong), error) from None

    def _accepts(self, text: str, ctx: click.Context) -> bool:
        try:
            self.type(text, self, ctx)
        except click.BadParameter:
            return False
        return True


def _invalid(option: HelpOption, text: str, error: click.BadParameter) -> UsageError:
    """Return the error for a value that an option does not take."""
    if isinstance(option.type, click.Choice):
        choices = [str(choice) for choice in option.type.choices]
        expected, hint = ", ".join(choices), did_you_mean(text, choices)
        hint = option.elsewhere.get(text, hint)
        if option.multiple and set(text.split(",")) <= set(choices):
            hint = f"repeat it: {' '.join(f'{max(option.opts, key=len)} {one}' for one in text.split(','))}"
    else:
        expected, hint = _expected(option.type) or error.message, ""
    return UsageError(f"invalid {max(option.opts, key=len)} {text!r}: expected {expected}", hint)


def _expected(kind: object) -> str:
    """Return the numbers that a type takes in words; empty for a type without numbers."""
    if not isinstance(kind, (click.types.IntParamType, click.types.FloatParamType)):
        return ""
    noun = "a whole number" if isinstance(kind, click.types.IntParamType) else "a number"
    if not isinstance(kind, (click.IntRange, click.FloatRange)) or kind.min is None:
        return noun
    return f"{noun} {'above' if kind.min_open else 'from'} {kind.min}"


def option(
    group: str, usage: str, help_text: str, *, name: str = "", choices: Sequence[str] = (), **settings: Any
) -> Callable[[Function], Function]:
    """Return a decorator that adds an option under the heading ``group``.

    ``usage`` is what the help shows, as in ``-o, --output FILE``; without a value it is a flag. ``name`` is
    that of the parameter, if it differs. ``choices`` are the only values.
    """
    *short, long = usage.split(", ")
    flag, _, metavar = long.partition(" ")
    if choices:
        settings["type"] = click.Choice(choices)
    elif not metavar:
        settings["is_flag"] = True
    names = (*short, flag, *filter(None, [name]))
    return click.option(
        *names, cls=HelpOption, group=group, metavar=metavar or None, help=help_text, **settings
    )


def around(option: str, words: Sequence[str]) -> tuple[Sequence[str], str, Sequence[str]]:
    """Return the words before an option, its value behind ``=`` or as the next word, and the words after."""
    place = next(place for place, word in enumerate(words) if word.split("=")[0] == option)
    if "=" in words[place]:
        return words[:place], words[place].partition("=")[2], words[place + 1 :]
    return words[:place], "".join(words[place + 1 : place + 2]), words[place + 2 :]


def named_captures(words: Sequence[str]) -> list[str]:
    """Return the words that name a capture: what exists or cannot be reached, without values of options."""
    return [word for before, word in pairwise(("", *words)) if before[:1] != "-" and _may_exist(word)]


def _may_exist(path: str) -> bool:
    try:
        return paths.exists(path, follow=False)
    except Unreadable:
        return True


def completes(names: Callable[[], Iterable[str]]) -> Callable[..., list[str]]:
    """Return a ``shell_complete`` of click. It completes each of several names between commas."""

    def complete(_context: click.Context, _parameter: click.Parameter, text: str) -> list[str]:
        before, comma, begun = text.rpartition(",")
        return [f"{before}{comma}{name}" for name in names() if name.startswith(begun)]

    return complete


def _show_all(context: click.Context, _option: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's own signature
    context.meta[_RARE] = value
    if (help_option := context.command.get_help_option(context)) and help_option.callback:
        help_option.callback(context, help_option, value)


class HelpCommand(click.Command):
    """A command whose help has headings and examples."""

    def __init__(
        self,
        *args: Any,
        examples: Sequence[str] = (),
        other_options: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        """``other_options``: options of other tools or commands -> the one that this command has for it."""
        super().__init__(*args, **settings)
        self.examples = tuple(examples)
        self.other_options = other_options or {}
        self.has_rare = any(getattr(parameter, "rare", False) for parameter in self.params)
        if self.has_rare:
            self.params.append(click.Option(["--help-all"], callback=_show_all, hidden=True, **EAGER_FLAG))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. click would take the program for the number that is left out before it."""
        typed = tuple(args)
        args, _ = self.parted(args)
        try:
            return super().parse_args(ctx, args)
        except click.BadOptionUsage as error:
            word = next((word for word in typed if word.startswith(f"{error.option_name}=")), "")
            if not word:
                raise
            flag, _, value = word.partition("=")
            before, _, after = around(flag, typed)
            kept = [] if value in _NO else [flag]
            hint = CommandHint.of([*ctx.command_path.split(), *before, *kept, *after], "use {}")
            raise UsageError(f"{flag} takes no value", hint) from None
        except click.NoSuchOption as error:
            self.refuse_option(ctx.command_path, error.option_name, typed)
            raise

    def refuse_option(self, path: str, other: str, typed: Sequence[str]) -> None:
        """Raise UsageError for an option that another tool or command has, if there is a word on it."""
        if ours := self.other_options.get(other):
            meant = [word.replace(other, ours, 1) if word.split("=")[0] == other else word for word in typed]
            hint = CommandHint.of([*path.split(), *meant], "use {}")
            raise UsageError(f"no option named {other!r}", hint)

    def parted(self, args: Sequence[str]) -> tuple[list[str], int]:
        """Return the words with the numbers that are left out, and the place of the first that is no option.

        Options that are not known take no value.
        """
        options = {flag: one for one in self.params if isinstance(one, click.Option) for flag in one.opts}
        args, position = [*args], 0
        while position < len(args) and args[position].startswith("-") and args[position] != "--":
            known, following = options.get(args[position]), args[position + 1 : position + 2]
            number = getattr(known, "left_out", None)
            if number is not None and not (following and following[0].isdecimal()):
                args[position] += f"={number}"
            elif known and not known.is_flag:
                position += 1
            position += 1
        return args, position

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[shell_completion.CompletionItem]:
        """Return what completes a word: an option of --help-all where no other thing does."""
        rare = [one for one in self.params if isinstance(one, HelpOption) and one.rare]
        return super().shell_complete(ctx, incomplete) or [
            shell_completion.CompletionItem(flag, help=one.help)
            for one in rare
            for flag in one.opts
            if incomplete.startswith("--") and flag.startswith(incomplete)
        ]

    def sections(self, ctx: click.Context) -> dict[str, dict[str, str]]:
        """Return heading -> option -> its help, with the general options last."""
        groups: dict[str, dict[str, str]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record and isinstance(parameter, click.Option):
                is_rare = getattr(parameter, "rare", False)
                title = _RARE if is_rare else getattr(parameter, "group", GENERAL)
                groups.setdefault(title, {}).update([record])
        general = groups.pop(GENERAL, {})
        if self.has_rare and _RARE not in groups:
            general = {term: _ALSO_RARE if "--help" in term else text for term, text in general.items()}
        rare = {_RARE: groups.pop(_RARE)} if _RARE in groups else {}
        return {**groups, **rare, GENERAL: general}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under their headings without blank lines, all in columns of the same width."""
        sections = self.sections(ctx)
        width = min(_WIDEST, max(len(term) for terms in sections.values() for term in terms))
        formatter.write_paragraph()
        for title, terms in sections.items():
            formatter.write_heading(title)
            with formatter.indentation():
                formatter.write_dl([(f"{term:{width}}", text) for term, text in terms.items()], col_max=width)

    def format_epilog(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the epilog and the examples as they are."""
        formatter.write(self.epilog or "")
        if self.examples:
            formatter.write("".join(["Examples:\n", *(f"  {line}\n" for line in self.examples)]))


class CommandGroup(HelpCommand, click.Group):
    """A group that lists its commands in the order of use. Without arguments it prints its help.

    A group with ``invoke_without_command`` is run instead.
    """

    command_class = HelpCommand

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments of the group."""
        if not args and not self.invoke_without_command and not ctx.resilient_parsing:
            args = ["--help"]
        return super().parse_args(ctx, args)

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Return the names of the commands in the order of use."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments name. Raises UsageError with similar names."""
        if not ctx.resilient_parsing and not args[0].startswith("-") and not self.get_command(ctx, args[0]):
            self.refuse(ctx, *args)
        return super().resolve_command(ctx, args)

    def refuse(self, ctx: click.Context, name: str, *_rest: str) -> NoReturn:
        """Raise UsageError for a command that does not exist, and the words behind it."""
        raise UsageError(*unknown("command", name, self.list_commands(ctx)))

    def sections(self, ctx: click.Context) -> dict[str, dict[str, str]]:
        """Return the sections of the commands, then those of the options."""
        return {**self.command_sections(ctx), **super().sections(ctx)}

    def command_sections(self, ctx: click.Context) -> dict[str, dict[str, str]]:
        """Return heading -> command -> the first sentence of its help."""
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        return {"Commands": {name: one.get_short_help_str(80) for name, one in commands.items() if one}}
