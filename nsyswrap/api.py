"""Running and reading together: where collect and analyse meet, for Python and for the command line."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from nsyswrap import redact
from nsyswrap.capture import Capture, open_capture
from nsyswrap.errors import CaptureError, OutputError
from nsyswrap.folder import EXPORT, check_share
from nsyswrap.nsys import Options
from nsyswrap.planned_run import carry_out
from nsyswrap.program import resolve
from nsyswrap.run import Callbacks, RunSpec, claim_output, execute

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nsyswrap.folder import Share, Status
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
    share: Share | None = None,
) -> Run:
    """Run ``command`` (a script, a .cu file, an executable, or a module with ``module``) under nsys.

    A string is a program without arguments. Times are in seconds. A program that fails, a timeout and a
    failing nsys are told by ``Run.status``; what keeps the run from starting (no program, no nsys,
    ``output`` taken) is raised as NsyswrapError.
    """
    check_share(share, keep_environment=keep_environment)
    options = Options(trace, stats, um_faults, graphs, capture_range, delay, duration, tuple(nsys_args))
    program = resolve([command] if isinstance(command, str) else command, module=module, arch=arch)
    folder = Path(output) if output else claim_output(program, nsys_path)
    spec = RunSpec(
        program,
        folder,
        options,
        nsys_path,
        env or {},
        timeout,
        force,
        keep_environment=keep_environment,
        discard_rep=discard_rep,
        share=share,
    )
    return run(spec)


def run(spec: RunSpec, callbacks: Callbacks | None = None) -> Run:
    """Execute a RunSpec, and take the environment out of the export it left (not out of the .nsys-rep)."""
    callbacks = callbacks or Callbacks()

    def finish(folder: Path) -> None:
        if not spec.keep_environment:
            redact.remove_environment(folder / EXPORT)
        callbacks.finish(folder)

    return Run(spec.output, execute(spec, replace(callbacks, finish=finish)))


def run_planned(
    folder: Path, *, again: bool = False, on_broken: Callable[[Nsys], None] = lambda _: None
) -> Status:
    """Carry out one planned run of a batch, and leave in its folder what collecting them will need.

    Raises OutputError where the folder holds no planned run, or another process is at it.
    """
    from nsyswrap.digest import write_digest  # noqa: PLC0415 - it imports every report

    def finish(work: Path) -> None:
        with suppress(CaptureError, OutputError):  # whoever collects it says what is wrong
            write_digest(work)

    def execute_planned(prepared: RunSpec, on_signal: Callable[[], None]) -> Status:
        callbacks = Callbacks(finish, broken=on_broken, signal=on_signal)
        return run(prepared, callbacks).status

    return carry_out(folder.absolute(), execute_planned, again=again)
