"""``nsyswrap compare --view FILE --plot FILE``: a comparison as a page and as a picture."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from nsyswrap.base import paths
from nsyswrap.base.errors import OutputError, UsageError
from nsyswrap.base.files import write
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.cli.help import option
from nsyswrap.cli.options import OUTPUT, with_options
from nsyswrap.cli.output import note, step
from nsyswrap.cli.plot import FORMATS

if TYPE_CHECKING:
    from nsyswrap.analysis.compare.model import Comparison
    from nsyswrap.render.plots.figure import Format

with lazy_imports():
    from nsyswrap.render.page import compare as compare_pages
    from nsyswrap.render.plots import comparison as comparison_plots
    from nsyswrap.render.plots import figure


_FILE = click.Path(dir_okay=False, readable=False, path_type=Path)
picture_options = with_options(
    option(OUTPUT, "--view", type=_FILE, metavar="FILE", help="Write an HTML page as well."),
    option(OUTPUT, "--plot", type=_FILE, metavar="FILE", help="Draw a .png, .svg or .pdf as well."),
)


def check_pictures(view: Path | None, plot: Path | None, *, force: bool) -> None:
    """Raise UsageError for a picture without a known format, OutputError for a file that exists."""
    if plot and _form(plot) not in FORMATS:
        raise UsageError(
            f"invalid --plot {plot}: unknown format", f"name a file that ends in .{', .'.join(FORMATS)}"
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


def _form(path: Path) -> str:
    return path.suffix.removeprefix(".").lower()
