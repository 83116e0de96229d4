"""``nsyswrap run-folder``: one planned run of a batch, as its tasks start it."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from nsyswrap.cli.output import note


@click.command()
@click.argument("path", type=click.Path(path_type=Path), metavar="PATH")
@click.option("--again", is_flag=True, help="Run it even if it is done.")
def command(path: Path, *, again: bool) -> None:
    """Carry out one planned run: PATH is a folder under runs/ of a batch.

    This is what the tasks of a batch are. What is done already is left as it is. The program's output goes
    into the folder; the exit code is the one `nsyswrap profile` would have.
    """
    from nsyswrap import api  # noqa: PLC0415
    from nsyswrap.cli.recording import warn_of_broken  # noqa: PLC0415

    status = api.run_planned(path, again=again, on_broken=warn_of_broken)
    said = f": {status.message}" if status.message else ""
    note(f"nsyswrap: {path}: {status.outcome}{said}" + (f"\n  {status.hint}" if status.hint else ""))
    sys.exit(status.exit_code)
