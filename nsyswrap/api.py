"""What Python users hold: runs, captures and tables. Here recording and reading meet."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from nsyswrap.base.errors import CaptureError
from nsyswrap.base.nsys import command as nsys
from nsyswrap.base.run_folder import EXPORT, REPORT
from nsyswrap.capture import redact
from nsyswrap.capture.capture import Capture as CaptureColumns
from nsyswrap.capture.open import export_of
from nsyswrap.reports.table import Table as ReportTable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pandas as pd

    from nsyswrap.base.nsys.find import Nsys
    from nsyswrap.base.run_folder import Status
    from nsyswrap.base.units import Rounding
    from nsyswrap.capture.capture import KernelNames
    from nsyswrap.record.spec import RunSpec
    from nsyswrap.render.plots.figure import Sheet


class Table(ReportTable):
    """A computed report, as a notebook shows it."""

    def _repr_html_(self) -> str:
        from nsyswrap.render.notebook import table_html  # noqa: PLC0415 - few are shown in a notebook

        return table_html(self)


class Capture(CaptureColumns):
    """One export, read-only: its events as DataFrames, its reports and its plots."""

    def events(self, kind: str) -> pd.DataFrame:
        """Return all events of one kind as a DataFrame in the field's terms, in row order.

        Times are ns since the start of the capture, ids are integers, names are text.
        ``process_id`` and ``thread_id`` are taken out of nsys' global ids.
        """
        from nsyswrap.capture.frames import events_frame  # noqa: PLC0415 - pandas costs more than a small report

        return events_frame(self, kind)

    def report(self, name: str, *, rounding: Rounding | None = None, **options: int) -> Table:
        """Make one report by name; ``.frame`` of the result is a DataFrame of unrounded values.

        ``options`` are the report's own, as ``gap`` of gpu_gaps. Raises NotInCapture, UsageError.
        """
        from nsyswrap.reports import find  # noqa: PLC0415

        made = find(name).make(self.viewed(rounding=rounding or self.view.rounding), **options)
        return Table(**{field.name: getattr(made, field.name) for field in fields(made)})

    def plot(self, kind: str) -> Sheet:
        """Draw ``top-kernels``, ``timeline``, ``launch`` or ``copies``, as a matplotlib Figure.

        Raises NotInCapture, UsageError.
        """
        from nsyswrap.render.plots import find  # noqa: PLC0415 - matplotlib takes long to import

        return find(kind).draw({"": self})

    def _repr_html_(self) -> str:
        from nsyswrap.render.notebook import summary_html  # noqa: PLC0415 - few are shown in a notebook

        return summary_html(self)


def open_capture(path: str | Path, *, names: KernelNames = "full") -> Capture:
    """Open a ``.sqlite`` export, a ``.nsys-rep`` (exported into the cache first) or a run folder.

    ``names`` picks how kernels are called: their full demangled, base or mangled name.
    """
    return Capture(export_of(Path(path)), names, Path(path))


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
    from nsyswrap.record.program import resolve  # noqa: PLC0415 - reading a capture needs none of it
    from nsyswrap.record.run import claim_output  # noqa: PLC0415
    from nsyswrap.record.spec import RunSpec  # noqa: PLC0415

    options = nsys.Options(trace, stats, um_faults, graphs, capture_range, delay, duration, tuple(nsys_args))
    program = resolve([command] if isinstance(command, str) else command, module=module, arch=arch)
    folder = Path(output) if output else claim_output(program, nsys_path)
    spec = RunSpec(program, folder, options, nsys_path, env or {}, timeout, force)
    return run(spec, keep_environment=keep_environment, discard_rep=discard_rep)


def run(  # noqa: PLR0913 - what it tells of
    spec: RunSpec,
    *,
    keep_environment: bool = False,
    discard_rep: bool = False,
    on_progress: Callable[[str], None] = lambda _: None,
    on_broken: Callable[[Nsys], None] = lambda _: None,
    on_signal: Callable[[], None] = lambda: None,
) -> Run:
    """Execute a RunSpec, then take the environment out of the export it left (not out of the .nsys-rep)."""
    from nsyswrap.record.run import execute  # noqa: PLC0415 - reading a capture needs none of it
    from nsyswrap.record.supervisor import signals_noted  # noqa: PLC0415

    status = execute(spec, on_progress, on_broken, on_signal)
    export = spec.output / EXPORT
    if not keep_environment and not nsys.check_export(export):
        with signals_noted():  # an interruption would leave the environment where it is
            redact.remove_environment(export)
    if discard_rep:
        (spec.output / REPORT).unlink(missing_ok=True)
    return Run(spec.output, status)


def run_planned(
    folder: Path, *, again: bool = False, on_broken: Callable[[Nsys], None] = lambda _: None
) -> Status:
    """Carry out one planned run of a batch, and leave in its folder what collecting them will need.

    Raises OutputError where the folder holds no planned run, or another process is at it.
    """
    from nsyswrap.record.batch.run_task import carry_out  # noqa: PLC0415 - reading a capture needs none of it
    from nsyswrap.record.batch.task import read_spec  # noqa: PLC0415
    from nsyswrap.reports.runs.digest import write_digest  # noqa: PLC0415 - it imports every report

    spec = read_spec(folder)
    folder = folder.absolute()

    def execute_and_digest(prepared: RunSpec, on_signal: Callable[[], None]) -> Status:
        made = run(
            prepared,
            keep_environment=spec.keep_environment,
            discard_rep=spec.discard_rep,
            on_broken=on_broken,
            on_signal=on_signal,
        )
        if not nsys.check_export(folder / EXPORT):
            with suppress(CaptureError):  # whoever collects says what is wrong with it
                write_digest(folder)
        return made.status

    return carry_out(folder, execute_and_digest, again=again)
