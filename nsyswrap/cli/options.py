"""Options that several commands share, and opening the captures that a command is about."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nsyswrap.base import paths
from nsyswrap.base.errors import UnreadCapture, UsageError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.text import quoted, replaced_note, shortest_labels
from nsyswrap.cli.help import completes, option
from nsyswrap.cli.output import note, note_not_read, note_remarks, unreadable_noted

if TYPE_CHECKING:
    from pathlib import Path

    from nsyswrap.capture.capture import Capture

    Command = TypeVar("Command", bound=Callable[..., Any])

with lazy_imports():  # pathlib, too: a completion of an option needs no path
    import pathlib

    from nsyswrap import reports
    from nsyswrap.analysis import steps
    from nsyswrap.base import errors, limits, recent_runs, run_folder
    from nsyswrap.capture import capture as captures
    from nsyswrap.capture import selection as selections
    from nsyswrap.cli import folders
    from nsyswrap.reports import ranks


def with_options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return a decorator that adds click options in this order."""

    def add(command: Command) -> Command:
        for add_one in reversed(options):
            command = add_one(command)
        return command

    return add


class _PathType(click.Path):
    """The type of a path, which becomes a pathlib.Path."""

    def coerce_path_result(self, value: str | os.PathLike[str]) -> Path:
        """Return the path."""
        return pathlib.Path(value)


COUNT = click.IntRange(min=1)
PATH = _PathType(readable=False)
PATH_OR_STDOUT = _PathType(readable=False, allow_dash=True)
SHOW, PART, OUTPUT = "What to show", "Part of the capture", "Output"  # headings of the help


def _report_names() -> tuple[str, ...]:
    return (*reports.NAMES, *ranks.NAMES, "all")


report_option = option(
    SHOW,
    "-r, --report NAME",
    "Show this report; all: every report. Repeatable.",
    name="reports",
    multiple=True,
    shell_complete=completes(_report_names),
)
top_option = option(SHOW, "--top N", "Show at most N rows per table and capture.", type=COUNT)


def csv_option(group: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds --csv."""
    return option(group, "--csv DIR", "Write each report to DIR/<report>.csv.", name="csv_folder", type=PATH)


csv_safe_option = option(OUTPUT, "--csv-safe", "Guard CSV cells: formulas, control characters.")


def check_csv_safe(form: str, *, csv_safe: bool) -> None:
    """Raise UsageError for --csv-safe with another format than CSV."""
    if csv_safe and form != "csv":
        raise UsageError(
            f"--csv-safe cannot be used with --format {form}", "omit --csv-safe, or use --format csv"
        )


def output_option(
    help_text: str, *, metavar: str = "DIR", group: str = OUTPUT, is_folder: bool = True, **settings: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds -o. With the metavar ``FILE`` it also takes ``-`` for stdout.

    ``is_folder``: with the metavar ``DIR``, a new folder with the name of a file is refused.
    """
    path = PATH_OR_STDOUT if metavar == "FILE" else PATH
    if metavar == "DIR" and is_folder:
        settings["callback"] = _check_folder_name
    return option(group, f"-o, --output {metavar}", help_text, type=path, **settings)


written_option = output_option(  # None is stdout
    "Write into this file; its ending is the format.",
    metavar="FILE",
    callback=lambda _context, _option, path: None if str(path) == "-" else path,
)

PAGES = (".html", ".htm")
_OF_NSYS = (".nsys-rep", ".qdrep", ".sqlite")
# What the ending of a file promises, and the command that writes such a file.
_WRITERS = {
    **dict.fromkeys((".txt", ".json", ".md"), "report -o"),
    **dict.fromkeys((".csv", ".tsv", ".parquet"), "report -r NAME -o"),
    **dict.fromkeys(PAGES, "view -o"),
    **dict.fromkeys((".png", ".svg", ".pdf"), "plot --kind KIND -o"),
}


_PROGRAMS = (".py", ".ipynb", ".cu", ".cuh", ".c", ".cc", ".cpp", ".h", ".hpp", ".sh", ".toml", ".yaml")
# Endings of files that nsyswrap never writes, and the nearest one that it does.
_NEAREST = {
    **dict.fromkeys((".xls", ".xlsx", ".ods"), ".csv"),
    **dict.fromkeys((".gif", ".jpg", ".jpeg", ".webp"), ".png"),
}


def check_ending(output: Path | None, endings: Collection[str], hint: str = "") -> None:
    """Raise UsageError for an output file whose ending promises what only another command writes."""
    ending = output.suffix.lower() if output else ""
    if output and ending in _PROGRAMS:  # the file of -o is replaced
        raise UsageError(
            f"this command does not write {ending} files: {output}",
            hint or f"name a file that ends in {', '.join(endings)}",
        )
    if output and ending in _NEAREST:
        near = output.with_suffix(_NEAREST[ending])
        raise UsageError(
            f"nsyswrap does not write {ending} files: {output}",
            hint or f"{_writer(near)} writes {'a table' if near.suffix == '.csv' else 'a picture'}",
        )
    if output and ending in _WRITERS and ending not in endings:
        raise UsageError(
            f"this command does not write {ending} files: {output}", hint or f"{_writer(output)} writes one"
        )


def _writer(output: Path) -> str:
    """Return the command that writes such a file, of the captures that are typed."""
    name, options = _WRITERS[output.suffix.lower()].split(" ", 1)
    captures = click.get_current_context().params.get("captures") or ()
    words = ["nsyswrap", name, *(quoted(str(capture)) for capture in captures), options, quoted(str(output))]
    return " ".join(words)


def _check_folder_name(_context: click.Context, _option: click.Parameter, output: Path | None) -> Path | None:
    """Return the folder of -o. Raises UsageError for a new one that is named as a file."""
    if output and output.suffix.lower() in (*_WRITERS, *_OF_NSYS) and not paths.is_folder(output):
        raise UsageError(
            f"-o takes a folder, and {output} is the name of a file",
            f"use -o {quoted(str(output.with_suffix('')))}",
        )
    return output


def is_given(name: str) -> bool:
    """Return True if an option is on the command line, not a default or a setting."""
    return click.get_current_context().get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def no_run_numbers(
    context: click.Context, _argument: click.Parameter, given: tuple[Path, ...]
) -> tuple[Path, ...]:
    """Return the captures that are given; raises NotACapture for the number of a run."""
    if given and not context.resilient_parsing:
        folders.check_no_run_numbers(given)
    return given


captures_argument = click.argument(
    "captures", nargs=-1, type=PATH, metavar="[CAPTURE]...", callback=no_run_numbers
)
explain_option = option(
    SHOW,
    "--explain NAME",
    "Explain a report, its options and its columns.",
    shell_complete=completes(_report_names),
)

_window_options = with_options(
    option(PART, "--time START/END", "Read only this time: 2.6s/2.7s, 10ms/ or /300us.", name="window"),
    option(PART, "--nvtx RANGE", "Read only NVTX ranges: NAME[@DOMAIN], NAME/N or NAME/N-M."),
    option(PART, "--device N", "Read only this GPU; repeatable.", name="devices", type=int, multiple=True),
    option(
        PART,
        "--process PID",
        "Read only this process; repeatable.",
        name="processes",
        type=int,
        multiple=True,
    ),
)


def selection_options(clip_default: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds --time, --nvtx, --device, --process and --clip.

    The command gets one ``selection`` of them. A value that is not valid raises UsageError before the command
    runs. ``clip_default`` is the help on what the command does without --clip.
    """

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_selection(
            *,
            window: str | None,
            nvtx: str | None,
            devices: tuple[int, ...],
            processes: tuple[int, ...],
            clip: str | None,
            **rest: Any,
        ) -> None:
            selection = selections.parse_selection(
                window or "",
                nvtx or "",
                devices=devices,
                processes=processes,
                clip=None if clip is None else clip == "yes",
            )
            command(selection=selection, **rest)

        clip = option(
            PART, "--clip", "Cut events at edges.", choices=["no", "yes"], show_default=clip_default
        )
        return _window_options(clip(with_selection))

    return add


steps_option = option(
    PART, "--steps STEPS", "Judge these steps: NAME, 10-13 or NAME/10-13, from 0.", default=""
)


def opener(selection: selections.Selection, **view: object) -> Callable[[Path], Capture]:
    """Return a function that opens a capture with this selection and these fields of ViewOptions.

    The function raises CaptureError, and NotInCapture for an NVTX range, a GPU, a process or steps that the
    capture lacks.
    Steps of a selected time raise UsageError.
    """
    if view.get("steps") and selection.windowed:
        raise UsageError(
            "--steps cannot be used with --time or --nvtx",
            "omit one of them: a selected time is judged whole",
        )

    def open_one(path: Path) -> Capture:
        limits.keep_freed_memory()
        capture = captures.open_capture(path).viewed(**view, selection=selection)
        _ = capture.window  # finds the NVTX range, or raises
        captures.check_owners(capture)
        if capture.view.steps:
            steps.steps_of(capture)
        return capture

    return open_one


def newest_capture(*, by_rank: bool = False) -> Path:
    """Return the folder of the newest run begun in this folder or below, and print which one that is.

    ``by_rank`` returns the folder of all ranks. Raises CaptureError if there is none.
    """
    with unreadable_noted() as skip:
        folder, start, failed = recent_runs.newest_run(skip=skip)
    run = run_folder.RunFolder(folder).read_run()
    rank = f"rank {run['rank'].get('rank')}" if run.get("rank") else ""
    if rank and by_rank:
        folder, rank = folder.parent, "all ranks"
    about = filter(None, (recent_runs.program_of(run), rank, recent_runs.ago(start)))
    note(f"nsyswrap: newest run: {folder} ({', '.join(about)})")
    if failed:
        note(f"nsyswrap: newer, without a capture: {', '.join(map(str, failed))}")
    return folder


def open_all(
    given: Sequence[Path], open_one: Callable[[Path], Capture], *, as_screens: bool = False
) -> tuple[dict[str, Capture], list[UnreadCapture]]:
    """Open captures, or the newest run if there are no paths.

    Return them by label, and those that cannot be read, which are also reported on stderr. A single one
    raises its error. The remarks of each capture are printed. With ``as_screens`` the ending of its run is
    not, because a screen begins with it.
    """
    opened: dict[str, Capture] = {}
    wanted = given or (newest_capture(),)
    labels = shortest_labels(wanted)
    left_out = []
    for label, path in zip(labels, wanted, strict=True):
        try:
            capture = open_one(path)
        except errors.UNREADABLE as error:
            if len(wanted) == 1:
                raise
            left_out.append(errors.not_read(label, path, error))
            continue
        shown = (text for text in capture.remarks if not as_screens or text != capture.ending)
        note_remarks(path, shown)
        opened[label] = capture
    note_not_read(left_out)
    return opened, left_out


def note_replaced(opened: Iterable[Capture]) -> None:
    """Print how many names of captures are written without what others must not see."""
    if names := frozenset[str]().union(*(capture.replaced for capture in opened)):
        note(f"nsyswrap: {replaced_note(len(names))}")
