"""``nsyswrap run-folder``: run one planned run of a batch. Executors start this command."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.run_folder import outcome_words
from nsyswrap.cli.help import HelpCommand, option
from nsyswrap.cli.output import note_broken, note_problem

with lazy_imports():  # --help needs none of these
    from nsyswrap import api
    from nsyswrap.record import launcher_env


@click.command(cls=HelpCommand, examples=("nsyswrap run-folder nsyswrap-runs/sweep/runs/0001",))
@click.argument("path", type=click.Path(readable=False, path_type=Path), metavar="DIR")
@option("Run folder", "--again", "Run it even if it is done.")
@option("Run folder", "--rank", "A launcher starts this.", name="is_rank", hidden=True)
def command(path: Path, *, again: bool, is_rank: bool) -> None:
    """Run one planned run of a batch. The tasks of a batch call this command.

    DIR is a folder under runs/ of the batch. A run that is done is left as it is. The output of the program
    goes into DIR. The exit code is that of `nsyswrap profile`.
    """
    status = api.run_planned(path, again=again, is_rank=is_rank, on_broken=note_broken)
    message = f": {status.message}" if status.message else ""
    rank = launcher_env.detect(least=1) if is_rank else None
    whose = f"{path}: rank {rank.rank}" if rank else f"{path}"
    note_problem(f"{whose}: {outcome_words(status.outcome)}{message}", status.hint)
    sys.exit(status.exit_code)
