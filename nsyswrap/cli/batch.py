"""``nsyswrap batch``: many runs of a plan or a sweep, here or on a Slurm cluster, and one table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nsyswrap.cli.recording import recording_options

if TYPE_CHECKING:
    from collections.abc import Callable

    Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--executor",
        type=click.Choice(["local", "slurm"]),
        default="local",
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
    click.option(
        "--gpus",
        metavar="N,N,...",
        help="local: one run at a time on each of these GPUs, as nvidia-smi counts.",
    ),
    click.option(
        "--max-running", type=click.IntRange(min=1), metavar="N", help="slurm: at most N runs at a time."
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
_FOLDER = click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")


def _running_options(function: Decorated) -> Decorated:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


class _InOrder(click.Group):
    """A group whose commands are listed in the order of use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.commands)


@click.group(cls=_InOrder, no_args_is_help=True)
def command() -> None:
    """Run many variants of programs, here or on a Slurm cluster, and hold them against each other.

    What has been done lies in the batch's folder: the same command again goes on where it was left.
    """


@command.command("run", short_help="Run what a plan file says.")
@click.argument("plan", type=click.Path(path_type=Path), metavar="PLAN.toml")
@_running_options
def run(plan: Path, **options: Any) -> None:  # noqa: ANN401 - one an option
    """Run what a plan says: programs or scenarios, with all combinations of their parameters."""
    from nsyswrap.cli.batch_run import carry_out  # noqa: PLC0415
    from nsyswrap.record.batch.plan import read_plan  # noqa: PLC0415

    sys.exit(carry_out(read_plan(plan), options))


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
@click.option("-m", "--module", is_flag=True, help="PROGRAM is a Python module, as in `python -m`.")
@click.option(
    "--slurm", "slurm", multiple=True, metavar="NAME=VALUE", help="A setting of sbatch, as it is; repeatable."
)
@recording_options
@_running_options
def sweep(program: tuple[str, ...], **options: Any) -> None:  # noqa: ANN401 - one an option
    """Run a program with all combinations of parameters: what a plan does, typed.

    nsyswrap batch sweep -p n=1024,1048576 -p sync=both,none -- scenarios/add2.py --n {n} --sync {sync}
    """
    from nsyswrap.cli.batch_run import carry_out, plan_of  # noqa: PLC0415

    sys.exit(carry_out(plan_of(program, options), options))


@command.command("status", short_help="Say how the runs stand.")
@_FOLDER
@click.option("--watch", is_flag=True, help="Go on showing it until every run has ended.")
@click.option("--top", type=click.IntRange(min=1), default=20, metavar="N", help="Show at most N runs.")
def status(folder: Path, *, watch: bool, top: int) -> None:
    """Say how the runs of a batch stand: how many, and which are running, lost or failed."""
    from nsyswrap.cli.batch_status import show_status  # noqa: PLC0415

    show_status(folder, watch=watch, top=top)


@command.command("cancel", short_help="End a batch; the reports are written.")
@_FOLDER
def cancel(folder: Path) -> None:
    """End a batch: what is running writes its report, what is waiting is not run."""
    from nsyswrap.cli.batch_status import cancel  # noqa: PLC0415

    cancel(folder)
