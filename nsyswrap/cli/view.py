"""``nsyswrap view``: captures as one HTML page."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nsyswrap.base.errors import NotACapture, OutputError, UsageError
from nsyswrap.base.files import write
from nsyswrap.cli.options import open_all, opener, selection_of, selection_options
from nsyswrap.cli.output import note, note_silence, step

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nsyswrap.analysis.ranks.members import Member
    from nsyswrap.capture.capture import Capture
    from nsyswrap.capture.selection import Selection

_SUFFIXES = (".qdrep", ".nsys-rep", ".sqlite")  # the last of those that tell of one run is taken
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
def command(**options: Any) -> None:  # noqa: ANN401 - one an option
    """Write captures as one HTML page: verdicts, timeline, tables; it needs no network and nothing else.

    CAPTURE is a .sqlite export, a .nsys-rep (exported into the cache first) or a run folder; without one, the
    newest run folder under nsyswrap-runs/ is taken. Several, and all that lie in DIR, stand side by side;
    where they are the ranks of a launch, the page compares these first.
    """
    given, by_rank, to_stdout = options["captures"], bool(options["by"]), str(options["output"]) == "-"
    if to_stdout and options["opening"]:
        raise UsageError("--open opens a file, and -o - writes none", "name a file with -o")
    selection = selection_of(options)
    paths = _found(given) if given or not by_rank else []
    captures, members, failed = _opened(paths, opener(selection), by_rank=by_rank)
    name = _job(captures) if members else _name(given, captures)
    output = options["output"] or Path(f"{name.replace('/', '-').strip('.') or 'captures'}.html")
    if not to_stdout and output.exists() and not options["force"]:
        raise OutputError(f"{output} exists", "give another --output, or --force")
    page = _page(captures, members, name)
    _note_part(selection)
    if to_stdout:
        click.echo(page.encode("utf-8", "surrogateescape"), nl=False)
    else:
        write(output, page)
        note(f"wrote {output}")
    if options["opening"]:
        _open(output)
    sys.exit(failed)


def _page(captures: Mapping[str, Capture], members: Sequence[Member], name: str) -> str:
    from nsyswrap.render.page import render, render_ranks  # noqa: PLC0415

    for capture in captures.values():
        note_silence(capture, _run(capture))
    with step("making the page …"):
        return render_ranks(name, members) if members else render(captures)


def _note_part(selection: Selection) -> None:
    from nsyswrap.render.page.subject import part_shown  # noqa: PLC0415

    if part := part_shown(selection):
        note(f"nsyswrap: selected: {part}")


def _run(capture: Capture) -> dict[str, Any]:
    from nsyswrap.base.run_folder import RunFolder  # noqa: PLC0415

    return RunFolder(capture.source).read_run()


def _found(given: Sequence[Path]) -> list[Path]:
    """Return the captures that were named, and for a folder that is none all that lie in it."""
    from nsyswrap.base.run_folder import newest_run  # noqa: PLC0415

    return [path for one in given or (newest_run(),) for path in _in(one)]


def _in(path: Path) -> list[Path]:
    from nsyswrap.analysis.ranks.members import places  # noqa: PLC0415
    from nsyswrap.base.run_folder import EXPORT, FILES, REPORT  # noqa: PLC0415

    if not path.is_dir() or any((path / name).exists() for name in FILES):
        return [path]
    ranks = [place.path for place in places([path])]
    if ranks != [path]:
        return ranks
    found: dict[Path, Path] = {}
    for file in (file for suffix in _SUFFIXES for file in path.rglob(f"*{suffix}")):
        run = file.name in (EXPORT, REPORT)
        found[file.parent if run else file.with_suffix("")] = file.parent if run else file
    if not found:
        raise NotACapture(f"there is no capture in {path}", "give a run folder, a .sqlite or a .nsys-rep")
    if len(found) > _MOST:
        raise UsageError(
            f"{path} holds {len(found)} captures, and a page {_MOST} at most", "name those that it is to show"
        )
    return sorted(found.values())


def _opened(
    paths: Sequence[Path], open_one: Callable[[Path], Capture], *, by_rank: bool
) -> tuple[Mapping[str, Capture], Sequence[Member], int]:
    """Open the captures, by label, and return them, the ranks that they are, and the exit code of bad ones.

    Of several, one that is bad is said, and the others are shown. What is left of ranks may be one alone,
    which is a rank only where that was asked for.
    """
    if not by_rank and not _are_ranks(paths):
        captures, failed = open_all(paths, open_one)
        if not captures:
            raise NotACapture("none of them can be read", "see above")
        return captures, (), failed
    from nsyswrap.cli import report_ranks as ranks  # noqa: PLC0415

    members, failed = ranks.opened(paths, open_one)
    if not members:
        raise NotACapture("none of them can be read", "see above")
    found = {member.label: member.capture for member in members}
    return found, members if by_rank or len(members) > 1 else (), failed


def _are_ranks(paths: Sequence[Path]) -> bool:
    """Whether each of several captures says which rank it is, no two the same."""
    from nsyswrap.analysis.ranks.members import places  # noqa: PLC0415

    if len(paths) <= 1:
        return False
    try:
        return all(place.number is not None for place in places(paths))
    except UsageError:  # ranks of several launches: side by side they may still stand
        return False


def _name(given: Sequence[Path], captures: Mapping[str, Capture]) -> str:
    """Return the capture's label, or for several that of the folder they were found in."""
    first, *others = captures
    if others and len(given) > 1:
        return f"{first}-and-{len(others)}-more"
    return given[0].absolute().name if others else first


def _job(captures: Mapping[str, Capture]) -> str:
    """Return the name of what holds all ranks: the folder of a launch, or a capture of several processes."""
    from nsyswrap.base.text import shortest_labels  # noqa: PLC0415

    return shortest_labels(
        [Path(os.path.commonpath([capture.source.absolute() for capture in captures.values()]))]
    )[0]


def _open(path: Path) -> None:
    import webbrowser  # noqa: PLC0415

    if not webbrowser.open(path.absolute().as_uri()):
        note(f"no browser was found: open {path} in one")
