"""``nsyswrap export``: a capture for other tools: a timeline for Perfetto, events as Parquet."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nsyswrap.base.errors import OutputError, UsageError
from nsyswrap.cli.options import selection_of, selection_options
from nsyswrap.cli.output import note, step

if TYPE_CHECKING:
    from nsyswrap.capture.capture import Capture


@click.command()
@click.argument("capture", type=click.Path(readable=False, path_type=Path))
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
def command(capture: Path, perfetto: Path | None, parquet: Path | None, **options: Any) -> None:  # noqa: ANN401
    """Write a capture as a timeline for Perfetto, or its events as Parquet.

    CAPTURE is a .sqlite export, a .nsys-rep (exported into the cache first) or a run folder. Events of a
    part chosen with --time or --nvtx stay whole unless --clip yes cuts them off. What was written, and what
    was left out and why, is said on stderr.
    """
    if perfetto is None and parquet is None:
        raise UsageError("there is nothing to write", "give --perfetto FILE, --parquet DIR or both")
    force = options["force"]
    if perfetto is not None and not _is_stdout(perfetto):
        _check_free(perfetto, perfetto.exists(), force=force)
    if parquet is not None:
        _check_free(parquet, _in_use(parquet), force=force)
    chosen = _opened(capture, options)
    if perfetto is not None:
        _write_trace(chosen, perfetto)
    if parquet is not None:
        _write_events(chosen, parquet)


def _is_stdout(path: Path) -> bool:
    return str(path) == "-"


def _in_use(folder: Path) -> bool:
    """Whether something is there that is no empty folder."""
    return any(folder.iterdir()) if folder.is_dir() else folder.exists()


def _check_free(path: Path, taken: bool, *, force: bool) -> None:  # noqa: FBT001
    if taken and not force:
        raise OutputError(f"{path} exists", "give another name, or --force to replace it")


def _opened(path: Path, options: dict[str, Any]) -> Capture:
    from nsyswrap.capture.capture import open_capture  # noqa: PLC0415

    capture = open_capture(path).viewed(selection=selection_of(options))
    for remark in capture.remarks:
        note(f"nsyswrap: {path}: {remark}")
    if str(capture.view.selection):
        note(f"nsyswrap: selected: {capture.view.selection}")
    return capture


def _write_trace(capture: Capture, path: Path) -> None:
    from nsyswrap.render import perfetto as trace_events  # noqa: PLC0415

    with step(f"writing {path} …"):
        trace = trace_events.compose(capture)
        if _is_stdout(path):
            trace_events.stream(trace, sys.stdout.buffer)
        else:
            trace_events.write(trace, path)
    note(f"wrote {'stdout' if _is_stdout(path) else path}: {', '.join(trace.contents())}")
    if trace.left_out:
        note(f"left out: {'; '.join(trace.left_out)}")
    for text in trace.notes:
        note(f"nsyswrap: {text}")


def _write_events(capture: Capture, folder: Path) -> None:
    from nsyswrap.capture.schema import EVENTS  # noqa: PLC0415
    from nsyswrap.render import events_parquet as event_files  # noqa: PLC0415

    with step(f"writing {folder} …"):
        rows = event_files.write(capture, folder)
    held = ", ".join(f"{count:,} {EVENTS[kind].title}" for kind, count in rows.items())
    note(f"wrote {len(rows)} Parquet file{'' if len(rows) == 1 else 's'} to {folder}/: {held}")
