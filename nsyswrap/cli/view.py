"""``nsyswrap view``: captures as one HTML page."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nsyswrap.base import paths
from nsyswrap.base.errors import (
    CommandHint,
    OutputError,
    UnreadCapture,
    UsageError,
    exit_code_of,
    nothing_read,
)
from nsyswrap.base.files import head, write
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.text import shortest_labels
from nsyswrap.cli.folders import are_ranks, as_file_name, captures_in, check_number, is_batch, name_of
from nsyswrap.cli.help import HelpCommand, around, named_captures, option
from nsyswrap.cli.options import (
    OUTPUT,
    PAGES,
    PATH,
    SHOW,
    check_ending,
    newest_capture,
    no_run_numbers,
    note_replaced,
    open_all,
    opener,
    output_option,
    selection_options,
    steps_option,
)
from nsyswrap.cli.output import note, note_silence, print_data, step

if TYPE_CHECKING:
    from nsyswrap.analysis.ranks.members import RankCapture
    from nsyswrap.capture.capture import Capture
    from nsyswrap.capture.selection import Selection

with lazy_imports():
    import webbrowser

    from nsyswrap.cli import report_ranks
    from nsyswrap.render import page
    from nsyswrap.render.page import html

_MOST = 40  # captures of a page
# Formats of other commands.
_PICTURES, _TEXTS = ("png", "svg", "pdf"), ("text", "csv", "tsv", "json", "brief", "markdown", "parquet")
_HEAD = 2**11  # bytes, in which a page names what wrote it


class _ViewCommand(HelpCommand):
    """A command that writes pages alone: --format is answered with the command for that format."""

    def refuse_option(self, path: str, other: str, typed: Sequence[str]) -> None:
        if other == "--format":
            before, form, after = around("--format", typed)
            if form in _PICTURES:
                words = ["plot", *named_captures(typed), "--format", form]
            elif form in _TEXTS:
                words = ["report", *named_captures(typed), "--format", form]
            else:
                words = ["view", *before, *after]
            raise UsageError(
                "no option named '--format': view writes HTML", CommandHint.of(["nsyswrap", *words], "use {}")
            )
        super().refuse_option(path, other, typed)


@click.command(
    cls=_ViewCommand,
    other_options={"--html": "--output"},
    examples=("nsyswrap view --open     # the newest run", "nsyswrap view before after -o compared.html"),
)
@click.argument("captures", nargs=-1, type=PATH, metavar="[CAPTURE|DIR]...", callback=no_run_numbers)
@option(SHOW, "--by", "Compare the processes of one capture as ranks of a job.", choices=["rank"])
@output_option("Write this file; - is stdout.", metavar="FILE", show_default="<label>.html")
@option(OUTPUT, "--open", "Open the page in the browser.", name="opening")
@option(OUTPUT, "--force", "Replace a file that is not named with -o.")
@selection_options("yes")
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
    """Write captures as one HTML page with a timeline.

    The page begins with the answer and needs no network. CAPTURE is a run folder, a .sqlite or .nsys-rep
    file, or a parquetdir or arrowdir folder; by default the newest run. Several captures, or all in DIR,
    stand side by side. Ranks of a job are compared first.
    """
    check_ending(output, PAGES)
    to_stdout, named = str(output) == "-", output is not None
    if to_stdout and opening:
        raise UsageError("--open cannot be used with -o -", "name a file with -o")
    given = _captures_of(captures) if captures or not by else []
    is_job = bool(by) or are_ranks(given, captures)
    opened, members, left_out = _open_paths(
        given, opener(selection, steps=steps, shared=True), are_members=is_job
    )
    members = members if by or len(members) > 1 else ()  # a single capture is a rank only with --by rank
    name = name_of(captures, list(opened))
    if members:  # the folder or the capture that holds all ranks
        common = os.path.commonpath([capture.source.absolute() for capture in opened.values()])
        [name] = shortest_labels([Path(common)])
    output = output or Path(f"{as_file_name(name)}.html")
    if not (named or force) and paths.is_taken(output) and not _is_page(output):
        raise OutputError(
            f"{output} already exists", "use --force to replace it, or name another file with -o"
        )
    document = _page(opened, members, name if members or is_batch(captures) else "", left_out)
    note_replaced(opened.values())
    for part in dict.fromkeys(map(html.selection_text, opened.values())):
        if part:
            note(f"nsyswrap: selected: {part}")
    if to_stdout:
        print_data(document)
    else:
        write(output, document, follow=named)
        note(f"wrote {output}")
    if opening and not webbrowser.open(output.absolute().as_uri()):
        note(f"no browser found: open {output} in a browser")
    sys.exit(exit_code_of(left_out))


def _is_page(path: Path) -> bool:
    try:
        return not paths.is_link(path) and page.GENERATOR.encode() in head(path, _HEAD)
    except OSError:
        return False


def _page(
    captures: Mapping[str, Capture],
    members: Sequence[RankCapture],
    name: str,
    left_out: Sequence[UnreadCapture],
) -> str:
    for capture in captures.values():
        note_silence(capture)
    with step("making the page …"):
        if members:
            return page.render_ranks(name, members, left_out)
        return page.render(captures, name, left_out)


def _captures_of(given: Sequence[Path]) -> list[Path]:
    captures = captures_in(given or (newest_capture(),))
    check_number(captures, given, _MOST, "a page shows", "name the captures to show")
    return captures


def _open_paths(
    paths: Sequence[Path], open_one: Callable[[Path], Capture], *, are_members: bool
) -> tuple[Mapping[str, Capture], Sequence[RankCapture], Sequence[UnreadCapture]]:
    """Open the captures. Return them by label, the ranks among them, and those that cannot be read.

    One that cannot be read among several is reported on stderr.
    """
    members: Sequence[RankCapture] = ()
    if are_members:
        members, left_out = report_ranks.opened(paths, open_one)
        captures = {member.label: member.capture for member in members}
    else:
        captures, left_out = open_all(paths, open_one)
    if not captures:
        raise nothing_read(left_out)
    return captures, members, left_out
