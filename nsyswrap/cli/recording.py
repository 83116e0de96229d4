"""The command-line options for recording a program, shared by ``profile`` and ``batch sweep``."""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import click

from nsyswrap.base.errors import UsageError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.cli.options import with_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from nsyswrap.base.nsys.command import Options
    from nsyswrap.base.run_folder import Share

with lazy_imports():
    from nsyswrap.base.nsys import command as nsys_command


@dataclass(frozen=True)
class RecordingOptions:
    """How a program is recorded: one field for each option of the command line."""

    trace: str
    no_stats: bool
    um_faults: bool
    graphs: str | None
    capture_range: str | None
    delay: float | None
    duration: float | None
    variables: tuple[str, ...]
    timeout: float | None
    arch: str | None
    nsys_path: str | None
    nsys_args: tuple[str, ...]
    keep_environment: bool
    discard_rep: bool
    share: Share | None

    @property
    def nsys(self) -> Options:
        """The options of nsys itself."""
        return nsys_command.Options(
            trace=self.trace,
            stats=not self.no_stats,
            um_faults=self.um_faults,
            graphs=self.graphs,
            capture_range=self.capture_range,
            delay=self.delay,
            duration=self.duration,
            extra=self.nsys_args,
        )

    @property
    def environment(self) -> dict[str, str]:
        """The variables of ``--env K=V``. Raises UsageError if one is not of this form."""
        variables = {}
        for assignment in self.variables:
            name, equals, value = assignment.partition("=")
            if not name or not equals:
                raise UsageError(
                    f"invalid --env {assignment!r}: expected K=V, for example CUDA_VISIBLE_DEVICES=0"
                )
            variables[name] = value
        return variables


_add_options = with_options(
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


def recording_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for recording a program. The command gets one ``recording`` of them."""

    @functools.wraps(command)
    def with_recording(**options: Any) -> None:
        values = {field.name: options.pop(field.name) for field in fields(RecordingOptions)}
        command(recording=RecordingOptions(**values), **options)

    return _add_options(with_recording)
