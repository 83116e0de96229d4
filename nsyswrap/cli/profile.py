"""``nsyswrap profile``: run a program under nsys and show what the GPU did.

``command`` does three things, each of which raises NsyswrapError for what the user can mend:

1. ``_plan`` checks the options and finds or builds the program. ``--dry-run`` prints the plan and ends here.
2. ``_record`` runs it: once, several times (``repeats``), or as one rank of a launch. On a rank that is not
   profiled, the program takes the place of this process before.
3. ``show_run`` prints what was recorded, and in any case how the run ended and where it is.

The exit code is that of the run. What reads a capture is imported while nsys writes its report, which takes
0.3 s off the time until the screen is there.
"""

from __future__ import annotations

import importlib
import os
import shlex
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nsyswrap.base import paths
from nsyswrap.base.errors import CommandHint, CompileFailed, ProgramNotFound, Unavailable, UsageError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.nsys.options import FOLDER, PROGRAM, RecordingOptions, check_trace
from nsyswrap.base.records import dataclass
from nsyswrap.base.run_folder import (
    DEFAULT_BASE,
    EXPORT,
    RANGE,
    REPORT,
    RUN,
    Status,
    default_output,
    outcome_words,
    ranges_of,
)
from nsyswrap.base.text import counted, quoted
from nsyswrap.cli.help import option
from nsyswrap.cli.options import COUNT, SHOW, csv_option, output_option, report_option, top_option
from nsyswrap.cli.output import (
    check_csv_folder,
    make_tables,
    note,
    note_broken,
    note_problem,
    note_renamed,
    note_silence,
    print_data,
    progress_line,
    say,
    summary_text,
    tables_text,
    terminal_layout,
    write_csv,
)
from nsyswrap.cli.recording import (
    RecordingCommand,
    advice_for_nsys,
    code_option,
    module_option,
    recording_options,
)

if TYPE_CHECKING:
    from nsyswrap.api import Run
    from nsyswrap.record.program import Program, RunSpec

with lazy_imports():
    from nsyswrap import api, reports
    from nsyswrap.base.nsys import command as nsys_command
    from nsyswrap.base.nsys import find
    from nsyswrap.cli import misplaced, repeats
    from nsyswrap.record import hooked, launcher_env, pythons
    from nsyswrap.record import program as record_program
    from nsyswrap.record import run as record_run
    from nsyswrap.reports import ranks


_WITHOUT_RANGES = "cuda"  # to trace

# What reads and shows a capture takes 0.3 s to import.
_SCREEN = (
    "nsyswrap.capture.redact",
    "nsyswrap.api.captures",
    "nsyswrap.reports.summary",
    "nsyswrap.render.summary_screen",
)


@dataclass(frozen=True)
class ProfileOptions:
    """The command line of ``nsyswrap profile``: one field for each option."""

    program: tuple[str, ...]
    module: bool
    output: Path | None
    force: bool
    recording: RecordingOptions
    ranks: str | None
    dry_run: bool
    repeat: int | None
    compare_bare: bool
    confirmed: bool
    reports: tuple[str, ...]
    csv_folder: Path | None
    top: int | None


@dataclass(frozen=True)
class ProfilePlan:
    """What is run: the program, on the rank of this process if there is one. ``notes`` are for the user."""

    options: ProfileOptions
    program: Program
    rank: OneRank | None
    notes: tuple[str, ...]

    @property
    def speaks(self) -> bool:
        """True if this process prints the messages that concern all ranks."""
        return not self.rank or self.rank.speaks

    @property
    def profiled(self) -> bool:
        """True if the program runs under nsys here."""
        return not self.rank or self.rank.profiled

    def spec(self, *, make_folder: bool) -> RunSpec:
        """Return the run. With ``make_folder`` its default folder is made."""
        options, recording = self.options, self.options.recording
        check_trace(recording.trace, recording.nsys_path)
        output = self.rank.folder(self.program, options.output) if self.rank else options.output
        if output is None and make_folder:
            output = record_run.claim_output(self.program, recording.nsys_path)
        return record_program.RunSpec(
            self.program,
            output or default_output(self.program.name),
            recording,
            options.force,
            rank=self.rank.facts if self.rank else {},
        )

    def command_line(self) -> str:
        """Return a shell command that does the same: the run, or the first of several."""
        if not self.profiled:
            return _shell_line(self.program.argv, self.options.recording.env)
        spec = self.spec(make_folder=False)
        return _dry_run(repeats.numbered(spec, 1, self.options.repeat) if self.options.repeat else spec)


@click.command(
    cls=RecordingCommand,
    context_settings={"allow_interspersed_args": False},
    examples=("nsyswrap profile -o run1 --trace cuda,nvtx,osrt -- ./a.out 512",),
)
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED, metavar="[--] PROGRAM [ARGS]...")
@code_option
@module_option
@option(PROGRAM, "--ranks N,N-N", "Profile only these ranks of a launch; run the others.")
@option(PROGRAM, "--repeat N", "Run N times, into DIR/run-1, ...; show the spread.", type=COUNT)
@option(PROGRAM, "--compare-bare", "Run without nsys too (asks first, or --yes).")
@option(PROGRAM, "--yes", "Run without nsys without asking.", name="confirmed", rare=True)
@output_option("Use this folder, not nsyswrap-runs/<program>-<time>.", group=FOLDER)
@option(FOLDER, "--force", "Replace the run in the folder.")
@recording_options
@report_option
@top_option
@csv_option(SHOW)
@option(SHOW, "--dry-run", "Print the command line of nsys, run nothing.")
def command(**values: Any) -> None:
    """Run a program under nsys and show its GPU activity.

    PROGRAM is a script, module, .cu file or executable, after all options.
    """
    options = ProfileOptions(**values)
    try:
        plan = _plan(options)
    except (CompileFailed, Unavailable):
        if options.program[0].endswith(".cu"):  # --arch and --nvcc may be what it lacks
            misplaced.note_misplaced_option(options.program)
        raise
    for text in plan.notes if plan.speaks else ():
        note(text)
    has_options = plan.speaks and any(word.startswith(("-r", "--")) for word in options.program)
    is_noted = has_options and misplaced.note_misplaced_before(options.program, module=options.module)
    if options.dry_run:
        print_data(f"{plan.command_line()}\n")
        return
    if not plan.profiled:
        record_program.execute_bare(plan.program, options.recording.env)
    status = _record(plan)
    if has_options and not is_noted and status.outcome == "program_failed":
        misplaced.note_misplaced_option(options.program, module=options.module)
    sys.exit(status.exit_code)


def _plan(options: ProfileOptions) -> ProfilePlan:
    if os.path.basename(options.program[0]) == "nsys" and options.program[1:2] == ("profile",):  # noqa: PTH119 - of any text
        advice = advice_for_nsys(command, "nsyswrap profile", options.program[2:])
        raise UsageError("nsyswrap profile starts nsys itself", advice)
    check_csv_folder(options.csv_folder)
    one_capture = options.repeat or options.compare_bare or options.reports or options.csv_folder
    if options.recording.capture_range_end and one_capture:
        raise UsageError(
            "--capture-range-end makes several captures: --repeat, --compare-bare, -r and --csv need one",
            "afterwards: nsyswrap report DIR/range-1 -r NAME",
        )
    rank = detect_rank(options.ranks)
    if options.repeat or options.compare_bare:
        repeats.check(
            repeats_run=bool(options.repeat),
            in_launch=bool(rank),
            shows_reports=bool(options.reports or options.csv_folder),
            compares_cut_runs=options.compare_bare and options.recording.may_end_program,
        )
    _check_reports(options.reports, rank)
    program = _program(options)
    options, notes = _without_ranges_of_jax(options, program)
    if program.warning:
        notes = (f"nsyswrap: {program.warning}", *notes)
    return ProfilePlan(options, program, rank, notes)


def _program(options: ProfileOptions) -> Program:
    recording = options.recording
    try:
        return record_program.resolve(
            options.program, module=options.module, arch=recording.arch, nvcc_words=recording.nvcc
        )
    except ProgramNotFound as error:
        flag, rest = sys.argv[-len(options.program) - 1], options.program[1:]
        if error.hint or not rest:
            raise
        if flag == "--modules":
            hint = "the depth of --modules is a number, such as --modules 3"
        elif flag.startswith("--") and flag != "--" and "=" not in flag and rest[0].endswith((".py", ".cu")):
            words = ["nsyswrap", *sys.argv[1 : -len(options.program)], *rest]
            hint = CommandHint.of(words, f"{flag} takes no value: {{}}")
        else:
            raise
        raise ProgramNotFound(error.message, hint) from None


def _without_ranges_of_jax(
    options: ProfileOptions, program: Program
) -> tuple[ProfileOptions, tuple[str, ...]]:
    """Return the options without NVTX for a program that imports JAX, and notes for the user.

    They stay as they are if the user chose what is traced, or options that need ranges.
    The texts of XLA's ranges break the import of nsys 2025.3, and with it all kernels are lost.
    """
    source = click.get_current_context().get_parameter_source("trace")
    recording = options.recording
    if source is not click.core.ParameterSource.DEFAULT or not (
        package := pythons.first_import(program.argv, pythons.JAX)
    ):
        return options, ()
    if recording.marks or (recording.recorded_range or "").startswith("nvtx:"):
        return options, (
            f"nsyswrap: the program imports {package}: with NVTX ranges nsys 2025 loses all kernels of JAX",
            "  if it does, omit the options that need these ranges",
        )
    return replace(options, recording=replace(recording, trace=_WITHOUT_RANGES)), (
        f"nsyswrap: the program imports {package}: recording without NVTX ranges (--trace cuda)",
        "  with them nsys 2025 loses all kernels of JAX; to record them anyway: --trace cuda,nvtx",
    )


def _dry_run(spec: RunSpec) -> str:
    """Return a shell command that does the same run.

    The command creates the run folder if needed: without it nsys would write somewhere else.
    """
    if nsys_command.cannot_write_into(spec.output):
        raise UsageError(
            f"--dry-run has no command line for {str(spec.output)!r}: nsys itself cannot write into it",
            "use another --output, or omit --dry-run",
        )
    env = dict(spec.options.env)
    if spec.options.marks:
        env |= hooked.variables(spec.options)
        env[hooked.PATH] = hooked.python_path({**os.environ, **spec.options.env})
    line = _shell_line(record_run.command_line(spec, _nsys_of(spec)), env)
    return line if paths.is_taken(spec.output) else f"mkdir -p {shlex.quote(str(spec.output))} && {line}"


def _nsys_of(spec: RunSpec) -> find.Nsys:
    """Return the nsys of a run, or the name to type if none works here."""
    try:
        return find.find_nsys(spec.options.nsys_path)[0]
    except Unavailable as error:
        note_problem(error.message, error.hint)
        return find.Nsys(spec.options.nsys_path or os.environ.get(find.VARIABLE) or "nsys", "")


def _shell_line(argv: Sequence[str], env: Mapping[str, str]) -> str:
    assignments = [f"{name}={value}" for name, value in env.items()]
    return shlex.join([*(["env", *assignments] if assignments else []), *argv])


def _record(plan: ProfilePlan) -> Status:
    options = plan.options
    if options.compare_bare and not options.confirmed:
        repeats.confirm_bare_runs(options.repeat or 1)
    spec = plan.spec(make_folder=True)
    progress = (lambda _: None) if plan.rank else _importing(progress_line())
    callbacks = record_program.Callbacks(progress=progress, broken=note_broken, renamed=note_renamed)
    if options.repeat or options.compare_bare:
        repeats.note_pipe()
    if options.repeat:
        return repeats.record_repeats(spec, options.repeat, callbacks, compares=options.compare_bare)
    if options.compare_bare:
        spec, stopped = repeats.run_bare_first(spec)
        if stopped:
            note(f"nsyswrap: {stopped.message}")
            return stopped
    run = api.run(spec, callbacks)
    try:
        if plan.rank:
            plan.rank.show(run, options.reports, options.csv_folder)
        else:
            show_run(run, partial(_show_capture, run, options))
    except OSError:  # stdout is closed, or the disk is full: the program's exit code matters more
        if not run.status.exit_code:
            raise
    return run.status


def _importing(progress: Callable[[str], None]) -> Callable[[str], None]:
    """Return ``progress`` that also imports what reads and shows a capture while nsys writes the report.

    Its first message comes after the end of the program, which the import would disturb. The empty message at
    the end waits for the import: two threads that import the same package can fail.
    """
    thread = threading.Thread(target=_import_screen)

    def importing(message: str) -> None:
        if message and thread.ident is None:
            thread.start()
        progress(message)
        if not message and thread.ident is not None:
            thread.join()

    return importing


def _import_screen() -> None:
    with suppress(ImportError):  # the first use raises it again
        for name in _SCREEN:
            importlib.import_module(name)


def _check_reports(names: tuple[str, ...], rank: OneRank | None) -> None:
    """Raise UsageError for an unknown report, and for a report over ranks outside of a launch.

    The names are compared with the lists of reports. A report is imported only to check its options.
    """
    if not names:
        return
    of_one, over_ranks = ranks.split(names)
    if over_ranks and not rank:
        raise UsageError(
            f"{over_ranks[0]} compares ranks, and this is one program",
            f"after a launch: nsyswrap report DIR -r {over_ranks[0]}",
        )
    for name in of_one:
        if name not in ("all", *reports.NAMES):
            reports.parse_all([name])


def show_run(run: Run, show_capture: Callable[[], None]) -> None:
    """Print what was recorded, how the run ended, its folder, and the commands that show it again."""
    try:
        if paths.exists(run.folder / EXPORT) and run.status.outcome not in (
            "nsys_failed",
            "disk_full",
            "not_started",
        ):
            show_capture()
    finally:
        if run.status.message:
            note_problem(run.status.message, run.status.hint)
        folder = quoted(str(run.folder))
        if paths.exists(run.folder / RUN):
            note(f"\nrun folder  {folder}/")
        if ranges := ranges_of(run.folder):
            note(f"\nrecorded    {counted(len(ranges), 'ranges')}, a run folder each: {folder}/{RANGE}1 ...")
            note(f"one         nsyswrap report {quoted(str(ranges[0]))}")
            note(f"all         nsyswrap collect {folder}")
        if paths.exists(run.folder / EXPORT):
            note(f"again       nsyswrap report {folder}")
        if paths.exists(run.folder / REPORT):
            warning = "contains your environment variables: do not share"
            note(f"timeline    nsys-ui {folder}/{REPORT}   ({warning})")


def _show_capture(run: Run, options: ProfileOptions) -> None:
    layout, capture = terminal_layout(options.top), run.capture
    wanted = options.reports or options.csv_folder
    tables = (
        make_tables({"": capture}, reports.parse_all(options.reports or reports.SUMMARIES))[0]
        if wanted
        else []
    )
    if not options.reports:
        says_ending = run.status.outcome == "program_failed" or not run.status.message
        say(summary_text(capture, layout, with_ending=says_ending), styled=True)
    elif not options.csv_folder:
        say(tables_text(tables, layout), styled=True)
    note_silence(capture, on_screen=not options.reports)
    if options.compare_bare and run.status.outcome == "done":
        repeats.show_cost([run.folder])
    if options.csv_folder and tables:
        write_csv(options.csv_folder, tables, layout)


@dataclass(frozen=True)
class OneRank:
    """The rank of this process, and the ranks that --ranks selects for profiling (None: all).

    A profiled rank writes a run folder of its own and prints one line at the end. Other ranks run without
    nsys.
    """

    rank: launcher_env.Rank
    chosen: tuple[int, ...] | None

    @property
    def profiled(self) -> bool:
        """True if this rank runs under nsys."""
        return self.chosen is None or self.rank.rank in self.chosen

    @property
    def speaks(self) -> bool:
        """True for the lowest profiled rank: it prints the messages that concern all ranks."""
        return self.rank.rank == (self.chosen[0] if self.chosen else 0)

    @property
    def facts(self) -> dict[str, object]:
        """The entry of this rank in run.json."""
        return launcher_env.rank_facts(self.rank, self.chosen)

    def folder(self, program: Program, output: Path | None) -> Path:
        """Return the run folder: below ``output``, or below a default folder that all ranks agree on.

        Raises UsageError if the launcher gives the ranks no common name.
        """
        launch = output or DEFAULT_BASE / f"{program.name}-{launcher_env.session(self.rank)}"
        return launch / self.rank.folder

    def show(self, run: Run, named: Sequence[str], csv_folder: Path | None) -> None:
        """Print one line with the outcome; write the requested CSVs into a folder of the rank's own."""
        status = run.status
        try:
            if csv_folder and paths.exists(run.folder / EXPORT):
                of_one, over_ranks = ranks.split(named)
                requests = reports.parse_all(of_one or reports.SUMMARIES) if of_one or not over_ranks else []
                tables, _ = make_tables({"": run.capture}, requests)
                write_csv(csv_folder / self.rank.folder, tables, terminal_layout())
        finally:
            ended = "; ".join(filter(None, (status.message, status.hint))) or outcome_words(status.outcome)
            folder = quoted(str(run.folder))
            note(f"nsyswrap: rank {self.rank.rank} of {self.rank.world_size}: {ended}  {folder}/")
            if self.speaks:
                reports_asked = [part for name in named for part in ("-r", name)]
                command = ["nsyswrap", "report", str(run.folder.parent), "--by", "rank", *reports_asked]
                note(f"all ranks   {shlex.join(command)}")


def detect_rank(profiled: str | None) -> OneRank | None:
    """Return the rank of this process, or None outside of a launch.

    ``profiled`` is the value of --ranks. Raises UsageError for a wrong one.
    """
    rank = launcher_env.detect()
    if rank:
        chosen = None if profiled is None else launcher_env.parse_ranks(profiled, rank.world_size)
        return OneRank(rank, chosen)
    if profiled is not None:
        raise UsageError(
            "--ranks cannot be used without a launcher",
            "put the launcher first: torchrun --no-python nsyswrap profile ..., mpirun or srun nsyswrap ...",
        )
    return None
