"""Captures and tables as Python users and notebooks hold them."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsyswrap.analysis import answer as answers
from nsyswrap.analysis.compare.model import Comparison as Compared
from nsyswrap.analysis.compare.model import SlowdownLimits
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.capture.capture import Capture as CaptureColumns
from nsyswrap.capture.open import export_of
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.reports.table import Table as ReportTable

if TYPE_CHECKING:
    import pandas as pd
    from typing_extensions import Self

    from nsyswrap.base.units import Rounding
    from nsyswrap.capture.capture import Capture
    from nsyswrap.capture.selection import KernelNames
    from nsyswrap.render.plots.figure import Sheet
    from nsyswrap.reports.answer import AnswerLine

    Paths = str | Path | Sequence[str | Path]

with lazy_imports():
    from nsyswrap import reports
    from nsyswrap.analysis.compare import compare as comparing
    from nsyswrap.capture import frames
    from nsyswrap.render import comparison as comparisons
    from nsyswrap.render import notebook, plots
    from nsyswrap.render.formats import markdown
    from nsyswrap.reports import answer as wordings
    from nsyswrap.reports import brief as briefs
    from nsyswrap.reports.compare import as_data, conclusion, sides, tables
    from nsyswrap.reports.wording import comparisons as comparison_words


class NotebookAnswer(answers.Answer):
    """The answer as data, which Python and a notebook show in the words of the screen."""

    _lines: Sequence[AnswerLine] = ()  # none of a copy

    @property
    def part(self) -> str:
        """Deprecated in 0.4.0: ``scope``."""
        warnings.warn("answer.part is now answer.scope", DeprecationWarning, stacklevel=2)
        return self.scope

    def __repr__(self) -> str:
        return notebook.answer_text(self._lines) if self._lines else super().__repr__()

    def _repr_html_(self) -> str | None:
        return notebook.answer_html(self._lines) if self._lines else None

    def _repr_markdown_(self) -> str | None:
        return markdown.answer_markdown("", self._lines) if self._lines else None


@per_capture
def answer_of(capture: Capture) -> NotebookAnswer:
    """Return the answer about a capture; raises NotInCapture."""
    made = answers.answer_of(capture)
    answer = NotebookAnswer(**{field.name: getattr(made, field.name) for field in fields(made)})
    command = shlex.join(["nsyswrap", "report", str(capture.source)])
    lines = wordings.with_command(wordings.answer_lines(capture, made), command)
    object.__setattr__(answer, "_lines", lines)  # it is frozen
    return answer


_UNDECIDED = "reports of nsys and events: whole rows; other reports: rows cut at the ends"


class NotebookTable(ReportTable):
    """A computed report that a notebook can display."""

    def __repr__(self) -> str:
        return notebook.table_text(self)

    def _repr_html_(self) -> str:
        return notebook.table_html(self)


class CaptureReader(CaptureColumns):
    """One export, read-only: its events as DataFrames, its reports and its plots.

    A ``with`` block frees at its end what was read. The file is closed with the last reference.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def events(self, kind: str) -> pd.DataFrame:
        """Return all events of one kind as a DataFrame, in row order.

        The column names are nsyswrap's, such as ``duration_ns``, not those of nsys' tables. Times are in ns
        since the start of the capture. Ids are integers and names are text. ``process_id`` and
        ``thread_id`` are taken out of nsys' global ids.
        """
        return frames.events_frame(self, kind)

    def report(self, name: str, *, rounding: Rounding | None = None, **options: int) -> NotebookTable:
        """Make one report by name; ``.frame`` of the result is a DataFrame of unrounded values.

        ``options`` are the report's own, such as ``gap`` of gpu_gaps. Raises NotInCapture if the capture
        lacks the events, UsageError for an unknown report or a wrong option.
        """
        made = reports.find_report(name).make(self.viewed(rounding=rounding or self.view.rounding), **options)
        return NotebookTable(**{field.name: getattr(made, field.name) for field in fields(made)})

    @property
    def selected(self) -> str:
        """The selection as text. Without ``clip`` reports differ: ``.selection`` of a table says its rule."""
        selection = self.view.selection
        if selection.clip is not None or not selection.windowed:
            return super().selected
        return f"{selection.criteria(self.window)}; {_UNDECIDED}"

    @property
    def answer(self) -> NotebookAnswer:
        """How busy the GPU was in the part that counts, why it was idle, and what to do about it.

        Raises NotInCapture if the view names steps that the capture lacks.
        """
        return answer_of(self)

    def brief(self) -> dict[str, Any]:
        """The answer for a program that reads it, as JSON of at most 4 kB: ``report --format brief``.

        Raises NotInCapture if the view names steps that the capture lacks.
        """
        return briefs.brief_of(self)

    def plot(self, kind: str) -> Sheet:
        """Draw ``top-kernels``, ``timeline``, ``launch`` or ``copies`` as a matplotlib Figure.

        Raises NotInCapture if the capture lacks the events, UsageError for an unknown kind.
        """
        return plots.find_plot(kind).draw({"": self})

    def __repr__(self) -> str:
        return notebook.capture_line(self)

    def _repr_html_(self) -> str:
        return notebook.summary_html(self)


class NotebookComparison(Compared):
    """A comparison of two sides of runs that a notebook can display."""

    @property
    def outcome(self) -> str:
        """The outcome of the steps, or of the whole run where the sides have no steps in common.

        It is slower, faster, same, cannot tell, clock or not judged.
        """
        head = conclusion.headline(self)
        return head.judgement.outcome if head else "not judged"

    def brief(self) -> dict[str, Any]:
        """The verdict and the largest changes as JSON of at most 4 kB: ``compare --format brief``."""
        return briefs.brief_of_comparison(as_data.as_dict(self))

    @property
    def table(self) -> NotebookTable:
        """All rows, unrounded; ``.frame`` of it is a DataFrame."""
        made = tables.all_rows(self)
        return NotebookTable(**{field.name: getattr(made, field.name) for field in fields(made)})

    def __repr__(self) -> str:
        return comparisons.screen(self)


def open_capture(path: str | Path, *, names: KernelNames = "full") -> CaptureReader:
    """Open a ``.sqlite`` export, a ``.nsys-rep`` or a run folder.

    A ``.nsys-rep`` is first exported into the cache. ``names`` selects the kernel names: full demangled,
    base or mangled. Raises CaptureError if the file is not a readable capture.
    """
    return CaptureReader(export_of(Path(path)), names, Path(path))


def compare(
    base: Paths, new: Paths, *, max_slower: float = 0.05, min_time_ns: float = 10_000.0, anyway: bool = False
) -> NotebookComparison:
    """Compare two sides: each a path, or several, of captures, run folders, folders of runs or a baseline.

    A row counts as slower if it takes more than the share ``max_slower`` longer, and ``min_time_ns`` a run.
    ``.obstacles`` says why the sides cannot be compared. Then no row is judged, but with ``anyway`` rows of
    sides that differ in their command alone are. Raises CaptureError if a side has no readable run.
    """
    limits = SlowdownLimits(max_slower, min_time_ns)
    base_side, new_side = (sides.load_side(_paths(one)) for one in (base, new))
    made = comparing.compare(base_side, new_side, limits, anyway=anyway)
    made = replace(made, obstacles=tuple(map(comparison_words.worded_obstacle, made.obstacles)))
    return NotebookComparison(**{field.name: getattr(made, field.name) for field in fields(made)})


def _paths(paths: Paths) -> list[Path]:
    return [Path(paths)] if isinstance(paths, (str, Path)) else [Path(path) for path in paths]
