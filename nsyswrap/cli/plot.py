"""``nsyswrap plot``: pictures of captures, one a question."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nsyswrap.base.errors import NotInCapture, OutputError, UsageError
from nsyswrap.base.files import write
from nsyswrap.cli.options import open_all, opener, selection_of, selection_options
from nsyswrap.cli.output import note, step
from nsyswrap.render.plots import MOST_CAPTURES, NAMES, find_plot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nsyswrap.capture.capture import Capture
    from nsyswrap.render.plots import Plot

FORMATS = ("png", "svg", "pdf")


@click.command()
@click.argument("captures", nargs=-1, type=click.Path(readable=False, path_type=Path), metavar="[CAPTURE]...")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="Write DIR/<kind>.<format>.",
)
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(NAMES),
    multiple=True,
    help="Draw this; repeatable. Default: all that CAPTURE answers.",
)
@click.option("--format", "form", type=click.Choice(FORMATS), default="png", help="Format of the files.")
@click.option("--force", is_flag=True, help="Overwrite files that exist.")
@selection_options
def command(**options: Any) -> None:  # noqa: ANN401 - one an option
    """Draw captures: the longest kernels, a timeline, launches, copies.

    CAPTURE is a .sqlite export, a .nsys-rep or a run folder; without one, the newest run folder under
    nsyswrap-runs/ is taken. Several are drawn next to one another.
    """
    if len(options["captures"]) > MOST_CAPTURES:
        raise UsageError(
            f"a picture holds {MOST_CAPTURES} captures at most", "`nsyswrap report` takes any number"
        )
    paths = {kind: options["output"] / f"{kind}.{options['form']}" for kind in options["kinds"] or NAMES}
    taken = [path for path in paths.values() if path.exists() and not options["force"]]
    if taken:
        raise OutputError(f"{taken[0]} exists", "overwrite it with --force, or name another folder with -o")
    captures, failed = open_all(options["captures"], opener(selection_of(options)))
    drawn = [kind for kind, path in paths.items() if _draw(find_plot(kind), captures, path, options["form"])]
    if not drawn and captures:
        names = ", ".join(str(capture.source) for capture in captures.values())
        raise NotInCapture(f"nothing to draw in {names}")
    sys.exit(failed)


def _draw(plot: Plot, captures: Mapping[str, Capture], path: Path, form: Any) -> bool:  # noqa: ANN401 - a choice
    """Draw the captures that answer, say which do not, and return whether there was one."""
    from nsyswrap.render.plots.figure import content  # noqa: PLC0415 - matplotlib

    found: dict[str, Any] = {}
    for label, capture in captures.items():
        try:
            with step(f"reading {capture.source} for {plot.name} …"):
                found[label] = plot.read(capture)
        except NotInCapture as error:
            note(f"nsyswrap: no {plot.name}: {error}; {error.hint}")
    if found:
        with step(f"drawing {plot.name} …"):
            picture = content(plot.draw_read(found), form)
        write(path, picture)
        note(f"wrote {path}")
    return bool(found)
