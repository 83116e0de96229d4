"""``nsyswrap view``: captures as one HTML page."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nsyswrap.base.errors import NotACapture, OutputError, UsageError
from nsyswrap.base.files import write
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.run_folder import EXPORT, FILES, REPORT, RunFolder
from nsyswrap.base.text import shortest_labels
from nsyswrap.cli.options import newest_capture, open_all, opener, selection_options, steps_option
from nsyswrap.cli.output import note, note_silence, print_data, step

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nsyswrap.analysis.ranks.members import Member
    from nsyswrap.capture.capture import Capture
    from nsyswrap.capture.selection import Selection

with lazy_imports():
    import webbrowser

    from nsyswrap.analysis.ranks import members as rank_members
    from nsyswrap.cli import report_ranks
    from nsyswrap.render import page
    from nsyswrap.render.page import subject

_SUFFIXES = (".qdrep", ".nsys-rep", ".sqlite")  # of several files of one run the last kind is read
_MOST = 40  # captures of a folder


@click.command()
@click.argument(
    "captures", nargs=-1, type=click.Path(readable=False, path_type=Path), metavar="[CAPTURE|DIR]..."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE",
    help="Write this file; - is stdout. [<label>.html]",
)
@click.option("--by", type=click.Choice(["rank"]), help="Take a capture of several processes for ranks.")
@click.option("--open", "opening", is_flag=True, help="Open the page in the browser.")
@click.option("--force", is_flag=True, help="Replace the file where it exists.")
@selection_options
@steps_option
def command(
    captures: tuple[Path, ...],
    *,
    output: Path | None,
    by: str | None,
    opening: bool,
    force: bool,
    selection: Selection,
    steps: str,
) -> None:
    """Write captures as one HTML page: the answer, timeline, tables; it needs no network and nothing else.

    CAPTURE is a .sqlite export, a .nsys-rep (exported into the cache first) or a run folder; without one, the
    newest run folder under nsyswrap-runs/ is taken. Several, and all that lie in DIR, stand side by side;
    where they are the ranks of a launch, the page compares these first.
    """
    to_stdout = str(output) == "-"
    if to_stdout and opening:
        raise UsageError("--open opens a file, and -o - writes none", "name a file with -o")
    paths = _captures_below(captures) if captures or not by else []
    opened, members, exit_code = _open_paths(paths, opener(selection, steps=steps), by_rank=bool(by))
    name = _job_name(opened) if members else _page_name(captures, opened)
    output = output or Path(f"{name.replace('/', '-').strip('.') or 'captures'}.html")
    if not to_stdout and output.exists() and not force:
        raise OutputError(f"{output} exists", "give another --output, or --force")
    html = _page(opened, members, name)
    for part in dict.fromkeys(map(subject.part_shown, opened.values())):
        if part:
            note(f"nsyswrap: selected: {part}")
    if to_stdout:
        print_data(html)
    else:
        write(output, html)
        note(f"wrote {output}")
    if opening and not webbrowser.open(output.absolute().as_uri()):
        note(f"no browser was found: open {output} in one")
    sys.exit(exit_code)


def _page(captures: Mapping[str, Capture], members: Sequence[Member], name: str) -> str:
    for capture in captures.values():
        note_silence(capture, RunFolder(capture.source).read_run())
    with step("making the page …"):
        return page.render_ranks(name, members) if members else page.render(captures)


def _captures_below(paths: Sequence[Path]) -> list[Path]:
    """Return the captures that are named, and all below each folder that is not a capture itself."""
    return [capture for path in paths or (newest_capture(),) for capture in _captures_of(path)]


def _captures_of(path: Path) -> list[Path]:
    if not path.is_dir() or any((path / name).exists() for name in FILES):
        return [path]
    ranks = [place.path for place in rank_members.places([path])]
    if ranks != [path]:
        return ranks
    captures: dict[Path, Path] = {}
    for file in (file for suffix in _SUFFIXES for file in path.rglob(f"*{suffix}")):
        in_run_folder = file.name in (EXPORT, REPORT)
        captures[file.parent if in_run_folder else file.with_suffix("")] = (
            file.parent if in_run_folder else file
        )
    if not captures:
        raise NotACapture(f"there is no capture in {path}", "give a run folder, a .sqlite or a .nsys-rep")
    if len(captures) > _MOST:
        raise UsageError(
            f"{path} holds {len(captures)} captures, and a page {_MOST} at most",
            "name those that it is to show",
        )
    return sorted(captures.values())


def _open_paths(
    paths: Sequence[Path], open_one: Callable[[Path], Capture], *, by_rank: bool
) -> tuple[Mapping[str, Capture], Sequence[Member], int]:
    """Open the captures. Return them by label, the ranks among them, and the exit code of damaged ones.

    A damaged capture among several is reported on stderr. A single capture is a rank only with --by rank.
    """
    if not by_rank and not _are_ranks(paths):
        captures, exit_code = open_all(paths, open_one)
        if not captures:
            raise NotACapture("none of them can be read", "see above")
        return captures, (), exit_code
    members, exit_code = report_ranks.opened(paths, open_one)
    if not members:
        raise NotACapture("none of them can be read", "see above")
    captures = {member.label: member.capture for member in members}
    return captures, members if by_rank or len(members) > 1 else (), exit_code


def _are_ranks(paths: Sequence[Path]) -> bool:
    """Return True if several captures each name their rank, and no two name the same."""
    if len(paths) <= 1:
        return False
    try:
        return all(place.number is not None for place in rank_members.places(paths))
    except UsageError:  # ranks of several launches can still be shown side by side
        return False


def _page_name(given: Sequence[Path], captures: Mapping[str, Capture]) -> str:
    """Return the label of the only capture, or a name for several."""
    first, *others = captures
    if others and len(given) > 1:
        return f"{first}-and-{len(others)}-more"
    return given[0].absolute().name if others else first


def _job_name(captures: Mapping[str, Capture]) -> str:
    """Return the name of the folder or capture that holds all ranks."""
    return shortest_labels(
        [Path(os.path.commonpath([capture.source.absolute() for capture in captures.values()]))]
    )[0]
