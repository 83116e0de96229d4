"""``nsyswrap batch``: many runs of a plan or a sweep, on this machine or a cluster, and one table of them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from nsyswrap.base.lazy import lazy_imports
from nsyswrap.cli.misplaced import code_option, find_misplaced, note_first
from nsyswrap.cli.options import with_options
from nsyswrap.cli.recording import recording_options
from nsyswrap.record.batch import executors

with lazy_imports():  # --help needs none of these
    from nsyswrap.cli import batch_run, batch_status
    from nsyswrap.record.batch import plan as plans

_EXECUTORS = executors.by_name()
_running_options = with_options(
    click.option(
        "--executor",
        type=click.Choice(executors.NAMES),
        default=executors.NAMES[0],
        show_default=True,
        help="Where the runs go.",
    ),
    click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Folder of the batch [nsyswrap-runs/<name>].",
    ),
    *(
        click.option(
            option.flag,
            option.name,
            type=click.IntRange(min=1) if option.is_count else None,
            metavar=option.metavar,
            help=option.help,
        )
        for executor in _EXECUTORS.values()
        for option in executor.options
    ),
    click.option("--retry-failed", is_flag=True, help="Run again what did not end well."),
    click.option("--dry-run", is_flag=True, help="Print every run, and the job script; run nothing."),
    click.option(
        "--by", default="", metavar="COLUMN", help="Which figure the closing table compares [kernel_ns]."
    ),
    click.option(
        "--top",
        type=click.IntRange(min=1),
        default=20,
        metavar="N",
        help="Show at most N rows of that table.",
    ),
)
_settings_options = with_options(
    *(
        click.option(f"--{name}", name, multiple=True, metavar="NAME=VALUE", help=executor.settings_help)
        for name, executor in _EXECUTORS.items()
        if executor.settings_help
    )
)
_FOLDER = click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")


class _InOrder(click.Group):
    """A group whose commands are listed in the order of use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's own signature
        return list(self.commands)


@click.group(cls=_InOrder, no_args_is_help=True)
def command() -> None:
    """Run many variants of programs, here or on a Slurm cluster, and hold them against each other.

    What has been done lies in the batch's folder: the same command again goes on where it was left.
    """


@command.command("run", short_help="Run what a plan file says.")
@click.argument("plan", type=click.Path(path_type=Path), metavar="PLAN.toml")
@_running_options
def run(plan: Path, **options: Any) -> None:
    """Run what a plan says: programs or scenarios, with all combinations of their parameters."""
    sys.exit(batch_run.carry_out(plans.read_plan(plan), options))


@command.command(
    "sweep",
    context_settings={"allow_interspersed_args": False},
    short_help="Run a program with all combinations of parameters.",
)
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED, metavar="[--] PROGRAM [ARGS]...")
@click.option(
    "-p",
    "--parameter",
    "parameters",
    multiple=True,
    metavar="NAME=V,V,...",
    help="Values of a parameter; {NAME} in the arguments is replaced. Repeatable: all combinations are run.",
)
@click.option("--repeat", type=click.IntRange(min=1), default=1, metavar="N", help="Run each N times.")
@code_option
@click.option("-m", "--module", is_flag=True, help="PROGRAM is a Python module, as in `python -m`.")
@_settings_options
@recording_options
@_running_options
def sweep(program: tuple[str, ...], **options: Any) -> None:
    """Run a program with all combinations of parameters: what a plan does, typed.

    nsyswrap batch sweep -p n=1024,1048576 -p sync=both,none -- scenarios/add2.py --n {n} --sync {sync}
    """
    note_first(option for option in find_misplaced(program) if option.is_certain)
    sys.exit(batch_run.carry_out(batch_run.plan_of(program, options), options))


@command.command("status", short_help="Say how the runs stand.")
@_FOLDER
@click.option("--watch", is_flag=True, help="Go on showing it until every run has ended.")
@click.option("--top", type=click.IntRange(min=1), default=20, metavar="N", help="Show at most N runs.")
def status(folder: Path, *, watch: bool, top: int) -> None:
    """Say how the runs of a batch stand: how many, and which are running, lost or failed."""
    batch_status.show_status(folder, watch=watch, top=top)


@command.command("cancel", short_help="End a batch; the reports are written.")
@_FOLDER
def cancel(folder: Path) -> None:
    """End a batch: what is running writes its report, what is waiting is not run."""
    batch_status.cancel(folder)
