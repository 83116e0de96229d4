"""``nsyswrap plot``: pictures of captures, one a question."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from nsyswrap.base import paths
from nsyswrap.base.errors import CommandHint, NotInCapture, OutputError, UsageError, exit_code_of
from nsyswrap.base.files import write
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.text import shortest_labels
from nsyswrap.cli.folders import as_file_name, captures_in, name_of
from nsyswrap.cli.help import HelpCommand, around, named_captures, option
from nsyswrap.cli.options import (
    OUTPUT,
    SHOW,
    captures_argument,
    check_ending,
    is_given,
    newest_capture,
    note_replaced,
    open_all,
    opener,
    output_option,
    selection_options,
)
from nsyswrap.cli.output import note, step
from nsyswrap.render.plots import MOST_CAPTURES, NAMES, Plot, find_plot

if TYPE_CHECKING:
    from nsyswrap.capture.capture import Capture
    from nsyswrap.capture.selection import Selection
    from nsyswrap.render.plots.figure import Format

with lazy_imports():
    from nsyswrap.render.plots import figure

_DEFAULT_OUTPUT = Path("nsyswrap-plots")
FORMATS = ("png", "svg", "pdf")


class _PlotCommand(HelpCommand):
    """A command whose pictures show a fixed number of kernels: --top is answered with the report."""

    def refuse_option(self, path: str, other: str, typed: Sequence[str]) -> None:
        if other == "--top":
            _, count, _ = around("--top", typed)
            named = named_captures(typed)
            words = ["nsyswrap", "report", *named, "-r", "cuda_gpu_kern_sum", "--top", count or "N"]
            raise UsageError(
                "no option named '--top': the number of kernels in a picture is fixed",
                CommandHint.of(words, "as a table: {}"),
            )
        super().refuse_option(path, other, typed)


@click.command(
    cls=_PlotCommand,
    other_options=dict.fromkeys(("-r", "--report"), "--kind"),
    examples=(
        "nsyswrap plot -o pictures     # of the newest run",
        "nsyswrap plot before after -o pictures --kind top-kernels --format svg",
    ),
)
@captures_argument
@option(SHOW, "--kind KIND", "Draw this kind; repeatable.", name="kinds", choices=NAMES, multiple=True)
@output_option("Write here: DIR or FILE.png [nsyswrap-plots/<label>].", is_folder=False)
@option(
    OUTPUT,
    "--format FORMAT",
    f"Write {', '.join(FORMATS[:-1])} or {FORMATS[-1]}.",
    name="form",
    choices=FORMATS,
    default="png",
    show_default=True,
)
@option(OUTPUT, "--force", "Replace files that exist.")
@selection_options("yes")
def command(
    captures: tuple[Path, ...],
    *,
    output: Path | None,
    kinds: tuple[str, ...],
    form: Format,
    force: bool,
    selection: Selection,
) -> None:
    """Draw captures: kernels, timeline, launches, copies, roofline.

    CAPTURE is a run folder, a .sqlite or .nsys-rep file, or a parquetdir or arrowdir folder; by default the
    newest run. Several captures are drawn next to one another. Kinds: top-kernels, histogram, timeline,
    launch, copies, roofline. Without --kind, every kind with data is drawn.
    """
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # a read-only HOME is not worth a warning
    to_draw = captures_in(captures or (newest_capture(),))
    if len(to_draw) > MOST_CAPTURES:
        raise UsageError(
            f"a plot shows at most {MOST_CAPTURES} captures, not {len(to_draw)}",
            "name the captures to draw; `nsyswrap collect` takes any number",
        )
    check_ending(output, [f".{ending}" for ending in FORMATS])
    if output and (ending := output.suffix[1:].lower()) in FORMATS:
        if len(kinds) != 1:
            raise UsageError(
                f"{output} is one picture", "name its kind with --kind, or a folder for several with -o"
            )
        if is_given("form") and form != ending:
            raise UsageError(f"{output} cannot be used with --format {form}", "omit --format")
        form, files = cast("Format", ending), {kinds[0]: output}
    else:
        folder = output or _DEFAULT_OUTPUT / as_file_name(name_of(captures, shortest_labels(to_draw)))
        paths.check_target(folder)
        files = {kind: folder / f"{kind}.{form}" for kind in kinds or NAMES}
    taken = [path for path in files.values() if paths.is_taken(path) and not force]
    if taken:
        raise OutputError(f"{taken[0]} already exists", "use --force to replace it, or another name with -o")
    opened, left_out = open_all(to_draw, opener(selection, shared=True))
    drawn = [
        kind
        for kind, path in files.items()
        if _draw(find_plot(kind), opened, path, form, is_named=bool(kinds))
    ]
    note_replaced(opened.values())
    if not drawn and opened:
        names = ", ".join(str(capture.source) for capture in opened.values())
        raise NotInCapture(f"nothing to draw in {names}")
    sys.exit(exit_code_of(left_out))


def _draw(plot: Plot, captures: Mapping[str, Capture], path: Path, form: Format, *, is_named: bool) -> bool:
    """Draw the captures that have the events for it. Return False if none has."""
    quantities: dict[str, object] = {}
    for label, capture in captures.items():
        try:
            with step(f"reading {capture.source} for {plot.name} …"):
                quantities[label] = plot.compute(capture.decided())
        except NotInCapture as error:
            if is_named or not plot.if_possible:
                note(f"nsyswrap: no {plot.name}: {error.message}; {error.hint}")
    if quantities:
        with step(f"drawing {plot.name} …"):
            picture = figure.content(plot.draw_data(quantities, captures), form)
        write(path, picture, follow=False)
        note(f"wrote {path}")
    return bool(quantities)
