"""``nsyswrap batch``: many runs of a plan or a sweep, on this machine or a cluster, and one table of them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.nsys.options import BATCH, PROGRAM
from nsyswrap.cli.help import CommandGroup, option
from nsyswrap.cli.options import COUNT, PATH, SHOW, output_option, with_options
from nsyswrap.cli.recording import (
    RecordingCommand,
    code_option,
    module_option,
    recording_options,
    table_options,
)
from nsyswrap.record.batch import executors

with lazy_imports():  # --help needs none of these
    from nsyswrap.cli import batch_run, batch_status
    from nsyswrap.record.batch import plan as plans

_EXECUTORS = executors.by_name()
_LIMITED = next(name for name, executor in _EXECUTORS.items() if "max_running" in executor.options)
_by_option = option(BATCH, "--by COLUMN", "Compare by this column.", default="", show_default="kernel_ns")
_top_option = option(
    BATCH, "--top N", "Show at most N rows of the table.", type=COUNT, default=20, show_default=True
)
_running_options = with_options(
    option(
        BATCH,
        "--executor WHERE",
        f"Run here or elsewhere: {', '.join(executors.NAMES)}.",
        choices=executors.NAMES,
        default=executors.NAMES[0],
    ),
    *(table_options(executor.options) for executor in _EXECUTORS.values()),
    output_option("Use this folder.", group=BATCH, show_default="nsyswrap-runs/<name>"),
    option(BATCH, "--retry-failed", "Run failed runs again."),
    option(BATCH, "--dry-run", "Print runs and scripts; --write-only writes them."),
    _by_option,
    _top_option,
)
_settings_options = with_options(
    *(
        option(BATCH, f"--{name} NAME=VALUE", executor.settings_help, multiple=True)
        for name, executor in _EXECUTORS.items()
        if executor.settings_help
    )
)
_FOLDER = click.argument("folder", type=PATH, metavar="DIR")


@click.group(
    cls=CommandGroup,
    examples=(
        "nsyswrap batch run plan.toml --dry-run",
        "nsyswrap batch sweep -p n=1024,4096 -- add.py --n {n}",
    ),
)
def command() -> None:
    """Run variants of programs, here or on a Slurm cluster.

    The folder of the batch keeps every finished run. The same command again runs only the rest.
    """


@command.command(
    "run",
    examples=(
        "nsyswrap batch run plan.toml --gpus 0,1",
        f"nsyswrap batch run plan.toml --executor {_LIMITED} --max-running 4",
    ),
)
@click.argument("plan", type=PATH, metavar="PLAN.toml")
@_running_options
def run(plan: Path, **options: Any) -> None:
    """Run the programs or scenarios of a plan file.

    Each [[runs]] of the plan is run with all combinations of its parameters.
    """
    sys.exit(batch_run.carry_out(plans.read_plan(plan), options))


@command.command(
    "sweep",
    cls=RecordingCommand,
    context_settings={"allow_interspersed_args": False},
    examples=("nsyswrap batch sweep -p n=1,2 -p s=yes,no -- add.py --n {n} --sync {s}",),
)
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED, metavar="[--] PROGRAM [ARGS]...")
@option(
    PROGRAM,
    "-p, --parameter NAME=V,V",
    "Replace {NAME} by each value; repeatable.",
    name="parameters",
    multiple=True,
)
@option(BATCH, "--name NAME", "Name the batch.", default="", rare=True)
@option(PROGRAM, "--repeat N", "Run each N times.", type=COUNT, default=1)
@code_option
@module_option
@recording_options
@_running_options
@_settings_options
def sweep(program: tuple[str, ...], **options: Any) -> None:
    """Run a program with all combinations of parameters."""
    sys.exit(batch_run.carry_out(batch_run.plan_of(program, options), options))


for _parameter in sweep.params:  # the help has no line for a heading of one option
    if _parameter.name == "share":
        vars(_parameter)["group"] = BATCH


@command.command("wait", examples=("nsyswrap batch wait nsyswrap-runs/sweep",))
@_FOLDER
@_by_option
@_top_option
def wait(folder: Path, *, by: str, top: int) -> None:
    """Wait for a batch, and show the table of its results.

    DIR is the folder of the batch. Runs that are left to submit get their jobs. Ctrl-C ends the waiting and
    no job.
    """
    sys.exit(batch_run.wait(folder, by=by, top=top))


@command.command("status", examples=("nsyswrap batch status nsyswrap-runs/sweep --watch",))
@_FOLDER
@option(SHOW, "--watch", "Refresh until every run has ended.")
@option(SHOW, "--top N", "Show at most N runs.", type=COUNT, default=20, show_default=True)
def status(folder: Path, *, watch: bool, top: int) -> None:
    """Show the state of the runs of a batch.

    DIR is the folder of the batch. Running, lost and failed runs are listed.
    """
    batch_status.show_status(folder, watch=watch, top=top)


@command.command("cancel", examples=("nsyswrap batch cancel nsyswrap-runs/sweep",))
@_FOLDER
def cancel(folder: Path) -> None:
    """End a batch. Running programs write their reports.

    DIR is the folder of the batch. Waiting runs are not started.
    """
    batch_status.cancel(folder)
