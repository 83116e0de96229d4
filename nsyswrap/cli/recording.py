"""The command-line options for recording a program, shared by ``profile`` and ``batch sweep``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from nsyswrap.base.errors import UsageError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.cli.output import note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from nsyswrap.base.nsys.command import Options
    from nsyswrap.base.nsys.find import Nsys

    Decorated = TypeVar("Decorated", bound=Callable[..., Any])

with lazy_imports():
    from nsyswrap.base.nsys import command

_OPTIONS = (
    click.option("--trace", default="cuda,nvtx", show_default=True, help="What nsys traces."),
    click.option("--no-stats", is_flag=True, help="Skip nsys' own tables: export only, for large runs."),
    click.option("--um-faults", is_flag=True, help="Record unified-memory page faults (slows the program)."),
    click.option(
        "--graphs", type=click.Choice(["graph", "node"]), help="Record CUDA graphs whole or node by node."
    ),
    click.option(
        "--capture-range",
        metavar="RANGE",
        help="Record only inside `cudaProfilerApi` or `nvtx:NAME[@DOMAIN]`.",
    ),
    click.option(
        "--delay", type=click.FloatRange(min=0), metavar="S", help="Start recording after S seconds."
    ),
    click.option(
        "--duration",
        type=click.FloatRange(min=0),
        metavar="S",
        help="Record S seconds, then end the program.",
    ),
    click.option(
        "--env", "variables", multiple=True, metavar="K=V", help="Set an environment variable; repeatable."
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        metavar="S",
        help="End the run after S seconds (exit 75).",
    ),
    click.option(
        "--arch",
        metavar="sm_XY",
        help="Compile a .cu PROGRAM for this architecture, not for the GPU here.",
    ),
    click.option(
        "--nsys",
        "nsys_path",
        metavar="PATH",
        help="The nsys to use [$NSYSWRAP_NSYS, PATH, the usual places].",
    ),
    click.option(
        "--nsys-arg",
        "nsys_args",
        multiple=True,
        metavar="ARG",
        help="Hand ARG to nsys as it is; repeatable.",
    ),
    click.option("--keep-environment", is_flag=True, help="Leave the environment variables in the export."),
    click.option("--discard-rep", is_flag=True, help="Delete the .nsys-rep: it cannot be redacted."),
    click.option(
        "--share",
        type=click.Choice(["group"]),
        help="Let your group read the run folder, but not the .nsys-rep [only you].",
    ),
)


def recording_options(function: Decorated) -> Decorated:
    """Add the options for recording a program to a command."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def nsys_options(options: Mapping[str, Any]) -> Options:
    """Return what nsys has to record, from the options of a command."""
    return command.Options(
        trace=options["trace"],
        stats=not options["no_stats"],
        um_faults=options["um_faults"],
        graphs=options["graphs"],
        capture_range=options["capture_range"],
        delay=options["delay"],
        duration=options["duration"],
        extra=options["nsys_args"],
    )


def warn_of_broken(nsys: Nsys) -> None:
    """Warn of an nsys that does not work and was passed over, and say how to repair it."""
    note(f"nsyswrap: {nsys.path} was passed over: {nsys.fault}\n  {nsys.cure}")


def environment(assignments: Iterable[str]) -> dict[str, str]:
    """Return the variables of ``--env K=V``. Raises UsageError if one is not of this form."""
    return dict(map(_variable, assignments))


def _variable(assignment: str) -> tuple[str, str]:
    name, equals, value = assignment.partition("=")
    if not name or not equals:
        raise UsageError(f"--env {assignment!r} is not K=V", "as in --env CUDA_VISIBLE_DEVICES=0")
    return name, value
