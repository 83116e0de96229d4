"""``nsyswrap run-folder``: run one planned run of a batch. Executors start this command."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from nsyswrap.base.lazy import lazy_imports
from nsyswrap.cli.output import note, note_broken

with lazy_imports():  # --help needs none of these
    from nsyswrap import api


@click.command()
@click.argument("path", type=click.Path(path_type=Path), metavar="PATH")
@click.option("--again", is_flag=True, help="Run it even if it is done.")
def command(path: Path, *, again: bool) -> None:
    """Carry out one planned run: PATH is a folder under runs/ of a batch.

    This is what the tasks of a batch are. What is done already is left as it is. The program's output goes
    into the folder; the exit code is the one `nsyswrap profile` would have.
    """
    status = api.run_planned(path, again=again, on_broken=note_broken)
    message = f": {status.message}" if status.message else ""
    note(f"nsyswrap: {path}: {status.outcome}{message}" + (f"\n  {status.hint}" if status.hint else ""))
    sys.exit(status.exit_code)
