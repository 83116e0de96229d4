"""Running and reading together: where collect and analyse meet, for Python and for the command line."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from nsyswrap import nsys, redact
from nsyswrap.capture import Capture, open_capture
from nsyswrap.folder import EXPORT, REPORT
from nsyswrap.program import resolve
from nsyswrap.run import RunSpec, claim_output, execute
from nsyswrap.supervise import signals_noted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nsyswrap.folder import Status
    from nsyswrap.nsys_install import Nsys


@dataclass(frozen=True)
class Run:
    """A finished run: its folder and how it ended. ``capture`` opens what was recorded."""

    folder: Path
    status: Status

    @cached_property
    def capture(self) -> Capture:
        """The recorded capture; raises CaptureError where nsys left none."""
        return open_capture(self.folder)


def profile(  # noqa: PLR0913 - the options of one run
    command: str | Sequence[str],
    *,
    output: str | Path | None = None,
    module: bool = False,
    arch: str | None = None,
    trace: str = "cuda,nvtx",
    stats: bool = True,
    um_faults: bool = False,
    graphs: str | None = None,
    capture_range: str | None = None,
    delay: float | None = None,
    duration: float | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    nsys_path: str | None = None,
    nsys_args: Sequence[str] = (),
    force: bool = False,
    keep_environment: bool = False,
    discard_rep: bool = False,
) -> Run:
    """Run ``command`` (a script, a .cu file, an executable, or a module with ``module``) under nsys.

    A string is a program without arguments. Times are in seconds. A program that fails, a timeout and a
    failing nsys are told by ``Run.status``; what keeps the run from starting (no program, no nsys,
    ``output`` taken) is raised as NsyswrapError.
    """
    options = nsys.Options(trace, stats, um_faults, graphs, capture_range, delay, duration, tuple(nsys_args))
    program = resolve([command] if isinstance(command, str) else command, module=module, arch=arch)
    folder = Path(output) if output else claim_output(program, nsys_path)
    spec = RunSpec(program, folder, options, nsys_path, env or {}, timeout, force)
    return run(spec, keep_environment=keep_environment, discard_rep=discard_rep)


def run(
    spec: RunSpec,
    *,
    keep_environment: bool = False,
    discard_rep: bool = False,
    on_progress: Callable[[str], None] = lambda _: None,
    on_broken: Callable[[Nsys], None] = lambda _: None,
) -> Run:
    """Execute a RunSpec, then take the environment out of the export it left (not out of the .nsys-rep)."""
    status = execute(spec, on_progress, on_broken)
    export = spec.output / EXPORT
    if not keep_environment and not nsys.check_export(export):
        with signals_noted():  # an interruption would leave the environment where it is
            redact.remove_environment(export)
    if discard_rep:
        (spec.output / REPORT).unlink(missing_ok=True)
    return Run(spec.output, status)
