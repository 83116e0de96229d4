"""``nsyswrap export``: a capture as a timeline for Perfetto, or its events as Parquet."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nsyswrap.base.errors import OutputError, UsageError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.cli.options import newest_capture, selection_options
from nsyswrap.cli.output import note, step

if TYPE_CHECKING:
    from nsyswrap.capture.capture import Capture
    from nsyswrap.capture.selection import Selection

with lazy_imports():
    from nsyswrap.capture import capture as captures
    from nsyswrap.capture import schema
    from nsyswrap.render import events_parquet
    from nsyswrap.render import perfetto as perfetto_trace


@click.command()
@click.argument("capture", required=False, type=click.Path(readable=False, path_type=Path))
@click.option(
    "--perfetto",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE",
    help="Write a timeline for ui.perfetto.dev and chrome://tracing; compressed if FILE ends in .gz; "
    "- is stdout.",
)
@click.option(
    "--parquet",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write the events of each kind to DIR/<kind>.parquet, with the columns of Capture.events().",
)
@selection_options
@click.option("--force", is_flag=True, help="Replace what an earlier export wrote.")
def command(
    capture: Path | None, *, perfetto: Path | None, parquet: Path | None, selection: Selection, force: bool
) -> None:
    """Write a capture as a timeline for Perfetto, or its events as Parquet.

    CAPTURE is a .sqlite export, a .nsys-rep (exported into the cache first) or a run folder. Events of a
    part chosen with --time or --nvtx stay whole unless --clip yes cuts them off. What was written, and what
    was left out and why, is said on stderr.
    """
    if perfetto is None and parquet is None:
        raise UsageError("no output is named", "use --perfetto FILE, --parquet DIR or both")
    taken = [perfetto] if perfetto is not None and not _is_stdout(perfetto) and perfetto.exists() else []
    taken += [parquet] if parquet is not None and _in_use(parquet) else []
    if taken and not force:
        raise OutputError(f"{taken[0]} already exists", "use --force to replace it, or use another name")
    selected = _open_selected(capture or newest_capture(), selection)
    if perfetto is not None:
        _write_trace(selected, perfetto)
    if parquet is not None:
        _write_events(selected, parquet)


def _is_stdout(path: Path) -> bool:
    return str(path) == "-"


def _in_use(folder: Path) -> bool:
    """Return True unless the folder is empty or does not exist."""
    return any(folder.iterdir()) if folder.is_dir() else folder.exists()


def _open_selected(path: Path, selection: Selection) -> Capture:
    capture = captures.open_capture(path).viewed(selection=selection)
    for remark in capture.remarks:
        note(f"nsyswrap: {path}: {remark}")
    if capture.selected:
        note(f"nsyswrap: selected: {capture.selected}")
    return capture


def _write_trace(capture: Capture, path: Path) -> None:
    with step(f"writing {path} …"):
        trace = perfetto_trace.compose(capture)
        if _is_stdout(path):
            perfetto_trace.stream(trace, sys.stdout.buffer)
        else:
            perfetto_trace.write(trace, path)
    note(f"wrote {'stdout' if _is_stdout(path) else path}: {', '.join(trace.contents())}")
    if trace.left_out:
        note(f"left out: {'; '.join(trace.left_out)}")
    for text in trace.notes:
        note(f"nsyswrap: {text}")


def _write_events(capture: Capture, folder: Path) -> None:
    with step(f"writing {folder} …"):
        rows = events_parquet.write(capture, folder)
    held = ", ".join(f"{count:,} {schema.EVENTS[kind].title}" for kind, count in rows.items())
    note(f"wrote {len(rows)} Parquet file{'' if len(rows) == 1 else 's'} to {folder}/: {held}")
