"""``nsyswrap runs``: list the runs begun here, open the page of one, remove old ones."""

from __future__ import annotations

import difflib
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click

from nsyswrap.base import paths
from nsyswrap.base.errors import CommandHint, NotACapture, NsyswrapError, OutputError, UsageError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.recent_runs import ago, captures_hint, program_of, repeats_in, short_path
from nsyswrap.base.run_folder import BATCH, EXPORT, PAGE, RUN, STATUS, RunFolder, is_page, outcome_words
from nsyswrap.base.text import counted, printable, screen_width, shorten
from nsyswrap.base.units import Unit, human
from nsyswrap.cli.folders import listed
from nsyswrap.cli.help import CommandGroup, option
from nsyswrap.cli.options import COUNT, newest_capture
from nsyswrap.cli.output import note, say, terminal_layout, unreadable_noted

with lazy_imports():
    from nsyswrap.analysis import gpu_operations
    from nsyswrap.capture import capture as captures
    from nsyswrap.cli import view
    from nsyswrap.record import stored_runs

_HEADER = ("N", "Program", "Begun", "Outcome", "Size", "GPU events", "Run folder")
_TO_THE_RIGHT = {"N", "Size", "GPU events"}
_PROGRAM = _HEADER.index("Program")
_PROGRAM_WIDTH, _LEAST_WIDTH = 20, 8  # of the column of programs
_GAP = "  "
_AGE = re.compile(r"(\d{1,9})([hdw])")
_SECONDS = {"h": 3600, "d": 86_400, "w": 604_800}
_UNKNOWN = "-"
_LISTED = 3  # files that are left of a run, and runs with such a name

_RUNS = "Runs"  # a heading of the help
_everywhere = option(_RUNS, "--all", "Include runs begun in any folder.", name="everywhere")


def _age(_context: click.Context, _option: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    age = _AGE.fullmatch(value)
    if not age:
        raise UsageError(f"invalid --older-than {value!r}: expected a number and h, d or w, for example 30d")
    return float(age[1]) * _SECONDS[age[2]]


class _RunsGroup(CommandGroup):
    """The group, which takes the options of the list, and answers the number of a run."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments: an option of the list begins those of ``runs list``."""
        if args and args[0].partition("=")[0] in {name for one in list_runs.params for name in one.opts}:
            args = ["list", *args]
        return super().parse_args(ctx, args)

    def refuse(self, ctx: click.Context, name: str, *rest: str) -> NoReturn:
        if name.isdecimal():
            hint = CommandHint.of(["nsyswrap", "runs", "open", name, *rest], "use {}")
            raise UsageError(f"no command named {name!r}", hint)
        super().refuse(ctx, name, *rest)


@click.group(
    cls=_RunsGroup,
    invoke_without_command=True,
    subcommand_metavar="[COMMAND] [ARGS]...",  # click 8.1 says that a command has to be named
    examples=("nsyswrap runs", "nsyswrap runs prune --older-than 30d"),
)
@click.pass_context
def command(context: click.Context) -> None:
    """List the runs begun here, open one, remove old ones.

    Without a command, the runs begun in this folder or below are listed. The ranks of a launch, equal
    runs and the runs of a batch are one line.
    """
    if context.invoked_subcommand is None:
        context.invoke(list_runs)


@command.command("list", examples=("nsyswrap runs list --top 5", "nsyswrap runs list --all"))
@_everywhere
@option(_RUNS, "--top N", "Show at most N runs.", type=COUNT, default=20, show_default=True)
def list_runs(*, everywhere: bool, top: int) -> None:
    """List runs, newest first.

    The columns are program, begin, outcome, size, GPU events and folder.
    """
    runs = _stored(everywhere=everywhere)
    if not runs:
        note("nsyswrap: no run was begun " + ("yet" if everywhere else "in this folder or below"))
        if hint := "" if everywhere else captures_hint(Path.cwd()):
            note(f"  {printable(hint)}")
        return
    say("\n".join(_table(runs[:top], events=True)))
    if len(runs) > top:
        note(f"nsyswrap: {len(runs) - top:,} more (--top)")


@command.command("open", examples=("nsyswrap runs open", "nsyswrap runs open 3"))
@click.argument("run", required=False, metavar="[RUN|N]")
@_everywhere
def open_run(run: str | None, *, everywhere: bool) -> None:
    """Open the page of a run in the browser.

    RUN is a run folder, N a number in the list; by default the newest run. The page is written into the
    folder.
    """
    if run is None:
        folder = newest_capture(by_rank=True)
    else:
        folder = _numbered(int(run), everywhere=everywhere) if run.isdecimal() else Path(run)
    if not paths.exists(folder):
        near = _near(folder.name, [_short(one.path) for one in _stored(everywhere=everywhere)])
        raise NotACapture(f"no run named {run!r}", near or "list the runs: nsyswrap runs")
    is_run = any(paths.exists(folder / mark) for mark in (RUN, STATUS, BATCH))
    if not (is_run or any(paths.matching(folder, "rank-*")) or repeats_in(folder)):
        raise NotACapture(f"{folder} is not a run folder: {RUN} is missing", "list the runs: nsyswrap runs")
    page = folder / PAGE
    if paths.exists(page, follow=False) and not is_page(page):
        raise OutputError(f"{page} was not written by nsyswrap", "write a page with nsyswrap view -o FILE")
    click.get_current_context().invoke(
        view.command, captures=(folder,), output=page, opening=True, force=True
    )


@command.command(
    "prune", examples=("nsyswrap runs prune --older-than 30d", "nsyswrap runs prune --keep 10 --yes")
)
@option(_RUNS, "--older-than AGE", "Remove only runs older than 12h, 30d or 8w.", name="age_s", callback=_age)
@option(_RUNS, "--keep N", "Keep the N newest runs.", type=click.IntRange(min=0))
@option(_RUNS, "--yes", "Remove the runs, not only list them.", name="confirmed")
@_everywhere
def prune(*, age_s: float | None, keep: int | None, confirmed: bool, everywhere: bool) -> None:
    """List old runs, and remove them with --yes.

    With --older-than and --keep, a run has to meet both. Only files that nsyswrap wrote are removed. Runs
    that are in use and unfinished batches stay. The tables of a batch stay, too.
    """
    if age_s is None and keep is None:
        raise UsageError("nothing selected", "give --older-than AGE, --keep N or both")
    begun_before = time.time() - (age_s or 0)
    runs = [run for run in _stored(everywhere=everywhere)[keep or 0 :] if run.newest <= begun_before]
    kept = {run.path: obstacle for run in runs if (obstacle := run.obstacle())}
    for path, obstacle in kept.items():
        note(f"nsyswrap: {_short(path)} stays: {obstacle}")
    runs = [run for run in runs if run.path not in kept]
    if not runs:
        note("nsyswrap: no run to remove")
    elif confirmed:
        sys.exit(_remove(runs))
    else:
        say("\n".join(_table(runs)))
        size = human(sum(run.size_bytes for run in runs), Unit.BYTES)
        note(f"nsyswrap: {counted(len(runs), 'runs')} to remove, {size}; use --yes to remove")


def _remove(runs: Sequence[stored_runs.StoredRun]) -> int:
    freed, removed, exit_code = 0, 0, 0
    for run in runs:
        try:
            size, left = run.remove()
        except OutputError as error:
            note(f"nsyswrap: {error.message}")
            exit_code = error.exit_code
            continue
        freed, removed = freed + size, removed + 1
        say(f"removed {_short(run.path)} ({human(size, Unit.BYTES)})")
        if left:
            kept = [short_path(path, Path.cwd()) for path in left]
            note(f"nsyswrap: kept other files: {listed(kept, _LISTED)}")
    note(f"nsyswrap: {counted(removed, 'runs')} removed, {human(freed, Unit.BYTES)} freed")
    return exit_code


def _stored(*, everywhere: bool) -> list[stored_runs.StoredRun]:
    with unreadable_noted() as skip:
        return stored_runs.stored_runs(None if everywhere else Path.cwd(), skip)


def _numbered(number: int, *, everywhere: bool) -> Path:
    """Return the folder of the run with this number. Raises UsageError if there is none."""
    runs = _stored(everywhere=everywhere)
    if not 1 <= number <= len(runs):
        raise UsageError(
            f"no run number {number}: the list has {counted(len(runs), 'runs')}", "see nsyswrap runs"
        )
    return short_path(runs[number - 1].path, Path.cwd())


def _near(name: str, known: Sequence[str]) -> str:
    """Return ``did you mean 'x'?`` with the newest run folders of such a name, or an empty text."""
    by_name = {Path(path).name.casefold(): path for path in reversed(known)}
    holding = [path for one, path in reversed(by_name.items()) if name.casefold() in one]
    similar = difflib.get_close_matches(name.casefold(), by_name, _LISTED)
    meant = holding[:_LISTED] or [by_name[one] for one in similar]
    return f"did you mean {' or '.join(map(repr, meant))}?" if meant else ""


def _short(path: Path) -> str:
    return printable(str(short_path(path, Path.cwd())))


def _table(runs: Sequence[stored_runs.StoredRun], *, events: bool = False) -> list[str]:
    """Return the runs as lines of a table. ``events`` adds the number of GPU events, which takes longer.

    Programs are shortened to the width of the terminal. The folders at the end stay whole, to be copied.
    """
    header = _HEADER if events else tuple(name for name in _HEADER if name != "GPU events")
    rows = [header, *(_row(number, run, events=events) for number, run in enumerate(runs, 1))]
    widths = [max(map(screen_width, column)) for column in zip(*rows, strict=True)]
    too_wide = sum(widths) + len(_GAP) * (len(widths) - 1) - terminal_layout().width
    least = min(widths[_PROGRAM], _LEAST_WIDTH)
    widths[_PROGRAM] -= min(max(too_wide, 0), widths[_PROGRAM] - least)
    return [_line(header, row, widths) for row in rows]


def _line(header: Sequence[str], row: Sequence[str], widths: Sequence[int]) -> str:
    cells = []
    for name, text, width in zip(header, row, widths, strict=True):
        fitting = shorten(text, width)
        blanks = " " * (width - screen_width(fitting))
        cells.append(blanks + fitting if name in _TO_THE_RIGHT else fitting + blanks)
    return _GAP.join(cells).rstrip()


def _row(number: int, run: stored_runs.StoredRun, *, events: bool) -> tuple[str, ...]:
    facts = RunFolder(run.members[0]).read_run() if run.members else {}
    counts = run.states.items()
    words = [(outcome_words(state), n) for state, n in counts]
    outcome = ", ".join(f"{n:,} {state}" if run.kind != "run" else state for state, n in words)
    size = human(run.size_bytes, Unit.BYTES)
    program = shorten(printable(program_of(facts)), _PROGRAM_WIDTH)
    row = (str(number), program, ago(run.began), outcome or _UNKNOWN, size)
    return (*row, *([_events(run)] if events else []), _short(run.path))


def _events(run: stored_runs.StoredRun) -> str:
    exports = [member / EXPORT for member in run.members if paths.is_file(member / EXPORT)]
    if run.kind == "batch" or not exports:
        return _UNKNOWN
    try:
        opened = [captures.open_capture(export) for export in exports]
        return f"{sum(one.count(kind) for one in opened for kind in gpu_operations.KINDS):,}"
    except NsyswrapError:
        return _UNKNOWN
