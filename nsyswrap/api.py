"""What Python users hold: runs, captures and tables. Here recording and reading meet."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from nsyswrap.base.errors import CaptureError, OutputError
from nsyswrap.base.nsys.command import Options
from nsyswrap.base.run_folder import EXPORT, check_share
from nsyswrap.capture import redact
from nsyswrap.capture.capture import Capture as CaptureColumns
from nsyswrap.capture.open import export_of
from nsyswrap.reports.table import Table as ReportTable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pandas as pd

    from nsyswrap.base.nsys.find import Nsys
    from nsyswrap.base.run_folder import Share, Status
    from nsyswrap.base.units import Rounding
    from nsyswrap.capture.capture import KernelNames
    from nsyswrap.record.spec import Callbacks, RunSpec
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
        from nsyswrap.reports import find_report  # noqa: PLC0415

        made = find_report(name).make(self.viewed(rounding=rounding or self.view.rounding), **options)
        return Table(**{field.name: getattr(made, field.name) for field in fields(made)})

    def plot(self, kind: str) -> Sheet:
        """Draw ``top-kernels``, ``timeline``, ``launch`` or ``copies``, as a matplotlib Figure.

        Raises NotInCapture, UsageError.
        """
        from nsyswrap.render.plots import find_plot  # noqa: PLC0415 - matplotlib takes long to import

        return find_plot(kind).draw({"": self})

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
    share: Share | None = None,
) -> Run:
    """Run ``command`` (a script, a .cu file, an executable, or a module with ``module``) under nsys.

    A string is a program without arguments. Times are in seconds. A program that fails, a timeout and a
    failing nsys are told by ``Run.status``; what keeps the run from starting (no program, no nsys,
    ``output`` taken) is raised as NsyswrapError.
    """
    from nsyswrap.record.program import resolve  # noqa: PLC0415 - reading a capture needs none of it
    from nsyswrap.record.run import claim_output  # noqa: PLC0415
    from nsyswrap.record.spec import RunSpec  # noqa: PLC0415

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
    from nsyswrap.record.run import execute  # noqa: PLC0415 - reading a capture needs none of it
    from nsyswrap.record.spec import Callbacks  # noqa: PLC0415

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
    from nsyswrap.record.batch.run_task import carry_out  # noqa: PLC0415 - reading a capture needs none of it
    from nsyswrap.record.spec import Callbacks  # noqa: PLC0415
    from nsyswrap.reports.runs.digest import write_digest  # noqa: PLC0415 - it imports every report

    def finish(work: Path) -> None:
        with suppress(CaptureError, OutputError):  # whoever collects it says what is wrong
            write_digest(work)

    def execute_planned(prepared: RunSpec, on_signal: Callable[[], None]) -> Status:
        callbacks = Callbacks(finish, broken=on_broken, signal=on_signal)
        return run(prepared, callbacks).status

    return carry_out(folder.absolute(), execute_planned, again=again)
