"""``nsyswrap compare``: two sides of runs, and whether the new one is slower.

With --run two command lines are recorded in turns first, into two folders of equal runs.
"""

from __future__ import annotations

import json
import logging
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import click

from nsyswrap.base import paths
from nsyswrap.base.errors import CaptureError, CommandHint, OutputError, UsageError, exit_code_of
from nsyswrap.base.files import locked, write
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.run_folder import PROGRAM_ERRORS, PROGRAM_OUTPUT, claim_output, make_folder, outcome_words
from nsyswrap.base.text import ascii_layout, counted, printable, quoted
from nsyswrap.cli import gate
from nsyswrap.cli.folders import check_no_run_numbers, expanded
from nsyswrap.cli.help import HelpCommand, option
from nsyswrap.cli.options import (
    COUNT,
    OUTPUT,
    PAGES,
    PATH,
    check_csv_safe,
    check_ending,
    csv_safe_option,
    is_given,
    top_option,
    with_options,
    written_option,
)
from nsyswrap.cli.output import (
    note,
    note_broken,
    note_problem,
    note_renamed,
    print_data,
    progress_line,
    say,
    step,
    terminal_layout,
)
from nsyswrap.cli.plot import FORMATS as PICTURES

if TYPE_CHECKING:
    from nsyswrap.analysis.compare.gate import GateLimits, GateResult
    from nsyswrap.analysis.compare.model import Comparison, Side, SlowdownLimits
    from nsyswrap.base.nsys.options import RecordingOptions
    from nsyswrap.render.plots.figure import Format
    from nsyswrap.reports.compare.sides import Source

with lazy_imports():
    from nsyswrap import api
    from nsyswrap.analysis import no_gpu_work
    from nsyswrap.analysis.compare import compare as comparing
    from nsyswrap.analysis.compare import model
    from nsyswrap.base import units
    from nsyswrap.base.nsys import find
    from nsyswrap.base.nsys import options as nsys_options
    from nsyswrap.capture import capture as captures
    from nsyswrap.cli import recording as cli_recording
    from nsyswrap.cli import repeats
    from nsyswrap.record import nvcc as compiler
    from nsyswrap.record import program as programs
    from nsyswrap.render import comparison as comparisons
    from nsyswrap.render.formats import csv
    from nsyswrap.render.page import compare as compare_pages
    from nsyswrap.render.plots import comparison as comparison_plots
    from nsyswrap.render.plots import figure
    from nsyswrap.reports import brief
    from nsyswrap.reports.compare import as_data, baseline, conclusion, sides, tables

RUN = "Record both sides first"  # a heading of the help
SIDES = ("base", "new")
# After the first run of a side, the series goes on without a run that ends so.
_LOST = ("program_failed", "timed_out", "nsys_failed")

run_options = with_options(
    option(RUN, "--run N", "Run each command N times, in turns.", name="runs", type=COUNT),
    option(RUN, "--into DIR", "Record into DIR/base/run-1, DIR/new/run-1, ...", type=PATH),
    option(RUN, "--trace APIS", "Trace these APIs.", default="cuda,nvtx", show_default=True),
    option(RUN, "--nvcc OPTIONS", "Compile .cu files with these options of nvcc.", rare=True),
    option(RUN, "--arch SM", "Compile .cu files for this GPU: sm_90.", rare=True),
    option(RUN, "--force", "Replace runs in DIR, and files."),
)


def split_commands(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return both command lines of ``A... -- B...``. Raises UsageError for another number of them."""
    places = [place for place, word in enumerate(words) if word == "--"]
    if len(places) != 1 or places[0] in (0, len(words) - 1):
        found = "one command line" if words and not places else f"{len(places) + 1} parts"
        raise UsageError(
            f"--run needs two command lines with -- before each: got {found if words else 'none'}",
            "nsyswrap compare --run 5 -- python old.py -- python new.py",
        )
    return tuple(words[: places[0]]), tuple(words[places[0] + 1 :])


def in_turns(runs: int) -> Iterator[tuple[int, str]]:
    """Yield number and side of each run in their order: base, new, new, base, base, new, ...

    A GPU that gets warm or a machine that gets busy slows both sides alike. With all runs of one side first,
    a drift would look like a change of the program.
    """
    for number in range(1, runs + 1):
        yield from ((number, side) for side in (SIDES if number % 2 else reversed(SIDES)))


def record(
    words: Sequence[str], runs: int, *, into: Path | None, recording: RecordingOptions, force: bool
) -> tuple[Path, Path, int]:
    """Make the runs. Return the folders of both sides, and the exit code of the first run that failed, or 0.

    What the programs print goes to the run folders. A first run of a side that is not done ends the process
    with its exit code, and so does an interruption or a full disk. Raises CaptureError for a first run
    without GPU work, UsageError for wrong command lines or a wrong trace, and Unavailable, OutputError or
    ProgramNotFound before anything is run.
    """
    nsys_options.check_trace(recording.trace)
    commands = split_commands(words)
    is_cuda = [command[0].endswith(".cu") for command in commands]
    resolved = [
        programs.resolve(
            command, arch=recording.arch, nvcc_words=recording.nvcc if compiles or not any(is_cuda) else ()
        )
        for command, compiles in zip(commands, is_cuda, strict=True)
    ]
    find.find_nsys(None)
    if into and not force and paths.is_filled(into):
        raise OutputError(
            f"{into} exists and is not empty", "use another --into, or --force to replace its runs"
        )
    folder = into or claim_output("compare")
    specs = {
        side: programs.RunSpec(
            program, folder / side, recording, force=force, keep_output=True, keep_errors=True
        )
        for side, program in zip(SIDES, resolved, strict=True)
    }
    with paths.writing(folder, "use another --into"):
        make_folder(folder, None)
    with locked(folder, "another series", "use another --into, or wait"):
        for spec in specs.values():
            if spec.program.warning:
                note(f"nsyswrap: {spec.program.warning}")
            repeats.make_series_folder(spec)
        code = _record_each(specs, runs)
    note(f"nsyswrap: {runs * len(SIDES):,} runs in {folder}/")
    return specs[SIDES[0]].output, specs[SIDES[1]].output, code


def _record_each(specs: dict[str, programs.RunSpec], runs: int) -> int:
    """Make the runs in turns and return the exit code of the first that failed, or 0."""
    code, rewind = 0, repeats.stdin_rewinder()
    callbacks = programs.Callbacks(progress=progress_line(), broken=note_broken, renamed=note_renamed)
    for number, side in in_turns(runs):
        rewind()
        label = f"{side}, run {number:,} of {runs:,}"
        note(f"nsyswrap: {label}")
        spec = repeats.numbered(specs[side], number, runs)
        status = api.run(spec, callbacks).status
        callbacks = replace(callbacks, broken=lambda _: None, renamed=lambda _: None)  # told once
        if status.exit_code:
            note_problem(f"{label}: {status.message or outcome_words(status.outcome)}", status.hint)
            for name in (PROGRAM_OUTPUT, PROGRAM_ERRORS):
                if paths.size(spec.output / name):
                    note(f"  it printed  {quoted(str(spec.output / name))}")
            if number == 1 or status.outcome not in _LOST:
                done = spec.output.parent.parent
                note(f"nsyswrap: the other runs were not started; what is done is in {done}/")
                sys.exit(status.exit_code)
            code = code or status.exit_code
        elif number == 1:
            _check_gpu_work(spec.output)
    return code


def _check_gpu_work(run: Path) -> None:
    """Raise CaptureError if a run has no GPU work: the others would have none either."""
    if not no_gpu_work.has_gpu_work(captures.open_capture(run)):
        raise CaptureError(
            f"no GPU work was recorded in {run}: the other runs were not started",
            f"see why: nsyswrap report {quoted(str(run))}",
        )


_PICTURE = click.Path(dir_okay=False, readable=False, path_type=Path)
picture_options = with_options(
    option(OUTPUT, "--view FILE", "Write an HTML page as well.", type=_PICTURE),
    option(OUTPUT, "--plot FILE", "Draw a .png, .svg or .pdf as well.", type=_PICTURE),
)
LIMITS = "When a row is slower"  # a heading of the help
FORMATS = ("text", "csv", "json", "brief", "markdown")
_ENDINGS = {".txt": "text", ".csv": "csv", ".json": "json", ".md": "markdown"}  # of files -> the format
_BREAK = "\0"  # stands for the first `--`: no path has it


def check_pictures(view: Path | None, plot: Path | None, *, force: bool) -> None:
    """Raise UsageError for a picture without a known format, OutputError for a file that exists."""
    check_ending(view, PAGES, "name a file that ends in .html with --view, or use --plot for a picture")
    if plot and _form(plot) not in PICTURES:
        raise UsageError(
            f"invalid --plot {plot}: unknown format", f"name a file that ends in .{', .'.join(PICTURES)}"
        )
    for path in (view, plot):
        if path and paths.is_taken(path) and not force:
            raise OutputError(f"{path} already exists", "use --force to replace it, or name another file")


def write_pictures(comparison: Comparison, view: Path | None, plot: Path | None) -> None:
    """Write the page and the picture that were asked for."""
    if view:
        write(view, compare_pages.compare_page(comparison))
        note(f"wrote {view}")
    if plot:
        logging.getLogger("matplotlib").setLevel(logging.ERROR)  # a read-only HOME is not worth a warning
        with step(f"drawing {plot} …"):
            picture = figure.content(
                comparison_plots.draw_comparison(comparison), cast("Format", _form(plot))
            )
        write(plot, picture)
        note(f"wrote {plot}")


def _chosen_form(output: Path | None, form: str) -> str:
    """Return the format that is asked for, or that the ending of the output file names.

    Raises UsageError for an ending of files that other options write.
    """
    if output is None or is_given("form"):
        return form
    name = quoted(str(output))
    others = {**dict.fromkeys(PAGES, "--view"), **{f".{ending}": "--plot" for ending in PICTURES}}
    other = others.get(output.suffix.lower())
    hint = f"use {other} {name} for it" if other else f"name a file that ends in {', '.join(_ENDINGS)}"
    check_ending(output, _ENDINGS, hint)
    return _ENDINGS.get(output.suffix.lower(), form)


def _form(path: Path) -> str:
    return path.suffix.removeprefix(".").lower()


class CompareCommand(HelpCommand):
    """A command whose ``--`` separates the sides; options may stand before and behind it.

    With --run the first ``--`` ends the options, and the second one separates two command lines.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Replace the ``--``, which click would swallow. Raises UsageError for one too many or too few."""
        if "--" in args:
            at = args.index("--")
            if any(word == "--run" or word.startswith("--run=") for word in args[:at]):
                _, program = self.parted(args)
                if program < at:
                    meant = [*ctx.command_path.split(), *args[:program], "--", *args[program:]]
                    raise UsageError(
                        f"no -- before {args[program]}, the first command", CommandHint.of(meant, "use {}")
                    )
                return self._parse_run(ctx, args)
            if "--" in args[at + 1 :]:
                raise UsageError("more than one --", "put one -- between BASE and NEW")
            args = [*args[:at], _BREAK, *args[at + 1 :]]
        return super().parse_args(ctx, args)

    def _parse_run(self, ctx: click.Context, args: list[str]) -> list[str]:
        typed = tuple(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            cli_recording.check_nvcc_quotes(ctx.command_path, typed, error.option_name)
            raise


@click.command(
    cls=CompareCommand,
    examples=(
        "nsyswrap compare before1 before2 before3 -- after1 after2 after3",
        "nsyswrap compare --run 5 -- python old.py -- python new.py",
    ),
    other_options={"--html": "--view", "--json": "--format=json"},
)
@click.argument("paths", nargs=-1, metavar="BASE... [--] NEW...")
@option(LIMITS, "--max-slower SHARE", "Tolerate this much more time.", show_default="5%")
@option(LIMITS, "--min-time TIME", "Ignore less time than this in a run.", show_default="10us")
@option(LIMITS, "--anyway", "Show unequal sides; verdicts if only the command differs.")
@run_options
@gate.gate_options
@top_option
@option(
    OUTPUT,
    "--format FORMAT",
    "Write text, csv, json, brief or markdown.",
    name="form",
    choices=FORMATS,
    default="text",
    elsewhere={
        "html": "use --view FILE.html for a page",
        **{form: f"use --plot FILE.{form} for a picture" for form in PICTURES},
    },
)
@csv_safe_option
@written_option
@picture_options
def command(
    paths: Sequence[str],
    *,
    anyway: bool,
    top: int | None,
    form: str,
    csv_safe: bool,
    output: Path | None,
    runs: int | None,
    into: Path | None,
    trace: str,
    nvcc: str | None,
    arch: str | None,
    force: bool,
    view: Path | None,
    plot: Path | None,
    **options: Any,
) -> None:
    """Say whether NEW is slower than BASE, and which part of it.

    A side is a capture, a run folder, a folder of equal runs (profile --repeat), a
    batch folder, BATCH:LABEL for one combination of a batch, or a saved baseline.
    Separate several paths of a side with --. A verdict takes 3 runs a side.
    """
    check_pictures(view, plot, force=force)
    form = _chosen_form(output, form)
    check_csv_safe(form, csv_safe=csv_safe)
    gated = gate.gate_limits(options)
    limits = gated.limits if gated else limits_of(options["max_slower"], options["min_time"])
    with gate.errors_annotated() if gated else nullcontext():
        lost = 0
        if runs:
            words = compiler.split(nvcc) if nvcc else ()
            recording = nsys_options.RecordingOptions(trace=trace, stats=False, nvcc=words, arch=arch)
            *recorded, lost = record(paths, runs, into=into, recording=recording, force=force)
            base, new = load_sides(*([str(path)] for path in recorded))
        else:
            _refuse_programs(paths)
            of_run = {"--into": into, "--nvcc": nvcc, "--arch": arch, "--force": force and not (view or plot)}
            if lonely := next(filter(of_run.get, of_run), ""):
                raise UsageError(f"{lonely} belongs to --run", "add --run N")
            base, new = load_sides(*split_sides(paths))
            _note_same_runs(base, new)
        comparison = comparing.compare(base, new, limits, anyway=anyway or bool(runs))
        if runs:  # the user gave two command lines
            wanted = tuple(one for one in comparison.obstacles if not one.is_deliberate)
            comparison = replace(comparison, obstacles=wanted)
        refuse(comparison, anyway=anyway)
        result = gate.check_gate(comparison, gated, anyway=anyway) if gated else None
        judged = (result, gated) if result and gated else None
        show(comparison, Output(form, output, top, csv_safe=csv_safe), judged)
        write_pictures(comparison, view, plot)
        left_out, code = comparison.left_out, 0
        if judged:
            code = gate.finish(*judged, lambda: comparisons.markdown(comparison), left_out)
        sys.exit(code or lost or exit_code_of(left_out))


def _refuse_programs(paths: Sequence[str]) -> None:
    """Raise UsageError for two programs in place of captures: --run records them first."""
    sides = [path for path in paths if path != _BREAK]
    if [path.endswith((".py", ".cu")) for path in sides] == [True, True]:
        base, new = sides
        context = click.get_current_context()
        options = [
            w for name in ("nvcc", "arch") if (value := context.params[name]) for w in (f"--{name}", value)
        ]
        words = ["nsyswrap", "compare", "--run", "5", *options, "--", base, "--", new]
        meant = CommandHint.of(words, "use {}")
        raise UsageError(f"{base} and {new} are programs: --run records them first", meant)


def split_sides(paths: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the paths of both sides. Raises UsageError if it is not clear which is which."""
    if _BREAK in paths:
        at = list(paths).index(_BREAK)
        base, new = list(paths[:at]), list(paths[at + 1 :])
    else:
        base, new = list(paths[:1]), list(paths[1:])
        if len(new) > 1:
            half = len(paths) // 2
            example = f"{shlex.join(paths[:half])} -- {shlex.join(paths[half:])}"
            raise UsageError(
                f"{len(paths)} paths without --: not clear where the base ends",
                f"put -- between the sides: nsyswrap compare {example}",
            )
    if not base or not new:
        missing = "BASE" if not base else "NEW"
        raise UsageError(f"{missing} is missing", "name two sides: nsyswrap compare BASE NEW")
    return base, new


def limits_of(max_slower: str | None, min_time: str | None) -> SlowdownLimits:
    """Return the limits that are typed: ``5%`` and ``10us``, else the defaults. Raises UsageError."""
    default = model.SlowdownLimits()
    try:
        share = units.parse_share(max_slower) if max_slower else default.max_slower
    except ValueError:
        raise UsageError(f"invalid --max-slower {max_slower!r}: expected a percentage such as 5%") from None
    try:
        return model.SlowdownLimits(share, units.parse_ns(min_time) if min_time else default.min_time_ns)
    except ValueError:
        raise UsageError(f"invalid --min-time {min_time!r}: expected a time such as 10us or 0.1ms") from None


def load_sides(base: Sequence[str], new: Sequence[str]) -> tuple[Side, Side]:
    """Return both sides, with progress and notes on what is left out.

    Raises UsageError if a run is on both sides, and CaptureError if a side has no run.
    """
    check_no_run_numbers((*base, *new))
    sources = [_source(base), _source(new)]
    if shared := sources[0].real_paths & sources[1].real_paths:
        raise UsageError(f"{min(shared)} is on both sides", "name different runs")
    show_progress = progress_line()
    loaded = [sides.load(source, lambda text: note(f"nsyswrap: {text}"), show_progress) for source in sources]
    return loaded[0], loaded[1]


def _note_same_runs(base: Side, new: Side) -> None:
    """Print which runs a baseline was saved from that are on the other side, too."""
    saved, given = (
        {(run.label, run.setup.started) for run in side.runs if run.setup.started} for side in (base, new)
    )
    if shared := sorted(label for label, _ in saved & given):
        note(f"nsyswrap: {counted(len(shared), 'runs')} on both sides: {printable(', '.join(shared))}")


def load_side(texts: Sequence[str]) -> Side:
    """Return one side, with progress and notes on what is left out. Raises as ``load_sides`` does."""
    return sides.load(_source(texts), lambda text: note(f"nsyswrap: {text}"), progress_line())


def _source(texts: Sequence[str]) -> Source:
    paths = [path for text in texts for path in expanded(baseline_path(text))]
    name = sides.name_of([Path(text) for text in texts])
    return sides.source_of(paths, name, lambda text: note(f"nsyswrap: {text}"))


def baseline_path(text: str) -> str:
    """Return the path of a baseline for its name, unless a file or folder has that name; else the text."""
    named = baseline.FOLDER / f"{text}.json"
    is_name = named.parent == baseline.FOLDER and not paths.exists(text)
    return str(named) if is_name and paths.is_file(named) else text


def refuse(comparison: Comparison, *, anyway: bool) -> None:
    """Raise CaptureError with the obstacles, unless the comparison is shown anyway."""
    if comparison.obstacles and not anyway:
        lines = [f"  {printable(text)}" for text in conclusion.obstacle_texts(comparison)]
        are_deliberate = all(one.is_deliberate for one in comparison.obstacles)
        effect = "compares them nevertheless" if are_deliberate else "shows the figures without verdicts"
        raise CaptureError.of_lines(["BASE and NEW cannot be compared:", *lines], f"--anyway {effect}")


class Output(NamedTuple):
    """Where a comparison goes, and how: one of FORMATS, so many rows of text, guarded cells of CSV."""

    form: str
    path: Path | None
    top: int | None
    csv_safe: bool


def show(comparison: Comparison, output: Output, judged: tuple[GateResult, GateLimits] | None = None) -> None:
    """Print a comparison, or write it into a file; JSON holds what the gate said, too."""
    text = _screen(comparison, output) if output.form == "text" else _data(comparison, output, judged)
    if output.path:
        write(output.path, text)
        note(f"wrote {output.path}")
    elif output.form == "text":
        say(text, styled=True)
    else:
        print_data(text, for_people=output.form == "markdown")


def _screen(comparison: Comparison, output: Output) -> str:
    layout = terminal_layout(output.top)
    color, ascii_only = (False, False) if output.path else (layout.color, layout.ascii)
    with ascii_layout(active=ascii_only):
        return comparisons.screen(comparison, width=layout.width, color=color, top=output.top)


def _data(comparison: Comparison, output: Output, judged: tuple[GateResult, GateLimits] | None) -> str:
    if output.form in ("json", "brief"):
        whole = as_data.as_dict(comparison, judged)
        if output.form == "brief":
            return brief.as_text(brief.brief_of_comparison(whole)) + "\n"
        return json.dumps(whole, indent=1, allow_nan=False) + "\n"
    if output.form == "csv":
        return csv.delimited(tables.all_rows(comparison), ",", "ns", safe=output.csv_safe)
    return comparisons.markdown(comparison)
