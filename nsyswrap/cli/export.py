"""``nsyswrap export``: a capture as a timeline for Perfetto, or its events as Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nsyswrap.base.errors import OutputError, UsageError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.cli.help import Command, option
from nsyswrap.cli.options import OUTPUT, newest_capture, selection_options
from nsyswrap.cli.output import data_stream, note, step

if TYPE_CHECKING:
    from nsyswrap.capture.capture import Capture
    from nsyswrap.capture.selection import Selection

with lazy_imports():
    from nsyswrap.capture import capture as captures
    from nsyswrap.capture import schema
    from nsyswrap.render import events_parquet
    from nsyswrap.render import perfetto as perfetto_trace


@click.command(
    cls=Command,
    examples=(
        "nsyswrap export run1 --perfetto trace.json.gz",
        "nsyswrap export run1 --parquet events --time 1s/2s",
    ),
)
@click.argument("capture", required=False, type=click.Path(readable=False, path_type=Path))
@option(
    OUTPUT,
    "--perfetto",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE",
    help="Write a timeline as JSON; - is stdout, .gz compresses.",
)
@option(
    OUTPUT,
    "--parquet",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write the events of each kind to DIR/<kind>.parquet.",
)
@option(OUTPUT, "--force", is_flag=True, help="Replace the files of an earlier export.")
@selection_options("no")
def command(
    capture: Path | None, *, perfetto: Path | None, parquet: Path | None, selection: Selection, force: bool
) -> None:
    """Write a capture for Perfetto, or as Parquet.

    CAPTURE is a run folder, a .sqlite or a .nsys-rep file; by default the newest run. Open the timeline in
    ui.perfetto.dev or chrome://tracing. The Parquet files have the columns of Capture.events(). Messages on
    stderr list all that was written and left out.
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
            perfetto_trace.stream(trace, data_stream())
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
