"""Runs: profile a program from Python, or as the commands do, and redact the export that the run left."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from nsyswrap.base.errors import CaptureError, OutputError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.nsys.options import RecordingOptions, check_trace
from nsyswrap.base.records import dataclass
from nsyswrap.base.run_folder import EXPORT, Share, Status
from nsyswrap.base.text import printable
from nsyswrap.record.program import Callbacks, RunSpec

if TYPE_CHECKING:
    from nsyswrap.api.captures import CaptureReader
    from nsyswrap.base.nsys.find import Nsys
    from nsyswrap.record.session import Session

with lazy_imports():
    from nsyswrap.api import captures
    from nsyswrap.capture import redact
    from nsyswrap.record import nvcc as compiler
    from nsyswrap.record import program
    from nsyswrap.record import run as record_run
    from nsyswrap.record import session as sessions
    from nsyswrap.record.batch import run_task
    from nsyswrap.reports.runs import digest


@dataclass(frozen=True)
class Run:
    """A finished run: its folder and how the run ended."""

    folder: Path
    status: Status

    def __repr__(self) -> str:
        """Return the folder, and how the run ended."""
        ending = ": ".join(filter(None, (self.status.outcome, self.status.message)))
        return f"<Run {printable(f'{self.folder}: {ending}')}>"

    @cached_property
    def capture(self) -> CaptureReader:
        """The recorded capture; raises CaptureError if nsys left none."""
        return captures.open_capture(self.folder)


def profile(  # noqa: PLR0913 - one parameter for each option of the command
    command: str | Sequence[str],
    *,
    output: str | Path | None = None,
    module: bool = False,
    arch: str | None = None,
    nvcc: str | Sequence[str] = (),
    trace: str = "cuda,nvtx",
    stats: bool = True,
    um_faults: bool = False,
    memory: bool = False,
    gpu_metrics: bool = False,
    python_lines: bool = False,
    follow_forks: bool = False,
    graphs: str | None = None,
    capture_range: str | None = None,
    capture_range_end: str | None = None,
    delay: float | None = None,
    duration: float | None = None,
    steps: str | None = None,
    step_at: str | None = None,
    then_stop: bool = False,
    modules: int | None = None,
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

    A string is a program without arguments. ``nvcc`` has options of nvcc for a .cu file. ``delay``,
    ``duration`` and ``timeout`` are in seconds. ``steps`` records these steps of a training, such as "10-13",
    and ``modules`` marks PyTorch's modules down to this depth of their names, such as 3.
    ``Run.status`` says if the program failed, timed out or was lost to a failing nsys. Raises NsyswrapError
    if the run cannot start: no program, no nsys, or ``output`` exists.
    """
    given = locals()  # a test compares the parameters with the table of options
    given |= {"nvcc": compiler.split(nvcc), "env": env or {}, "nsys_args": tuple(nsys_args)}
    options = RecordingOptions.of_python(given)
    check_trace(trace, nsys_path)
    words = [command] if isinstance(command, str) else command
    resolved = program.resolve(words, module=module, arch=arch, nvcc_words=options.nvcc, ours_first=True)
    folder = Path(output) if output else record_run.claim_output(resolved, nsys_path)
    return run(RunSpec(resolved, folder, options, force=force))


def run(spec: RunSpec, callbacks: Callbacks | None = None) -> Run:
    """Execute a RunSpec and remove the environment from its files; a .nsys-rep keeps its environment.

    Names of NVTX ranges lose the values of environment variables, too.
    """
    environment = {**os.environ, **spec.options.env}
    made = _redacting(callbacks or Callbacks(), None if spec.options.keep_environment else environment)
    return Run(spec.output, record_run.execute(spec, made))


def record_session(
    session: Session, name: str, is_enough: Callable[[float], bool], callbacks: Callbacks
) -> Run:
    """Record a running program as ``record.session.record`` does; its environment is removed."""
    environment = None if session.options.keep_environment else session.environment()
    made = _redacting(callbacks, environment)
    return Run(*sessions.record(session, name, is_enough, made))


def _redacting(callbacks: Callbacks, environment: Mapping[str, str] | None) -> Callbacks:
    """Return callbacks that also remove an environment; None removes nothing."""
    done: list[redact.RemovalResult] = []

    def finish(folder: Path) -> None:
        if environment is not None:
            result = redact.remove_environment(folder / EXPORT, environment)
            done.append(result)
            if result.renamed:
                callbacks.renamed(result.renamed)
        callbacks.finish(folder)

    def without_secrets(text: str) -> str:
        return done[0].text(text) if done else text

    return replace(callbacks, finish=finish, without_secrets=without_secrets)


def run_planned(
    folder: Path,
    *,
    again: bool = False,
    is_rank: bool = False,
    on_broken: Callable[[Nsys], None] = lambda _: None,
) -> Status:
    """Execute one planned run of a batch, and write the digest that ``collect`` reads.

    ``again`` repeats a run that is done. ``is_rank``: this process is one rank of the run. Raises OutputError
    if the folder holds no planned run, or if another process works in it.
    """

    def finish(work: Path) -> None:
        with suppress(CaptureError, OutputError):  # collect makes the digest again, and reports the error
            digest.write_digest(work)

    def execute_planned(prepared: RunSpec, on_signal: Callable[[], None]) -> Status:
        callbacks = Callbacks(finish, broken=on_broken, signal=on_signal)
        return run(prepared, callbacks).status

    if is_rank:
        return run_task.carry_out_rank(folder.absolute(), execute_planned)
    return run_task.carry_out(folder.absolute(), execute_planned, again=again)
