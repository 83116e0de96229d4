"""Load a side of a comparison: the figures of its runs, or a saved baseline."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from nsyswrap.base import paths
from nsyswrap.base.errors import UNREADABLE, CaptureError, UnreadCapture, UsageError, not_read, nothing_read
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.recent_runs import is_rank
from nsyswrap.base.records import dataclass
from nsyswrap.base.run_folder import BATCH
from nsyswrap.base.text import first_of, printable, replaced_note, shortest_labels, unknown

if TYPE_CHECKING:
    from nsyswrap.analysis.compare.model import RunFigures, Side
    from nsyswrap.reports.runs.find import RecordedRun

with lazy_imports():
    from nsyswrap.analysis.compare import compare as comparing
    from nsyswrap.analysis.compare import model, run_figures
    from nsyswrap.capture import capture as captures
    from nsyswrap.capture import open as capture_open
    from nsyswrap.reports.compare import baseline
    from nsyswrap.reports.runs import find

_BASELINE = ".json"
_LABEL = ":"  # between the folder of a batch and the label of a combination


@dataclass(frozen=True)
class Source:
    """What a side is loaded from: its runs that are done, or the file of a baseline.

    ``left_out`` are the other runs.
    """

    name: str
    runs: tuple[RecordedRun, ...] = ()
    baseline: Path | None = None
    left_out: tuple[UnreadCapture, ...] = ()

    @property
    def real_paths(self) -> set[str]:
        """The real paths of what is loaded."""
        loaded = [run.path for run in self.runs] + ([self.baseline] if self.baseline else [])
        return {os.path.realpath(path) for path in loaded}


def load_side(given: Sequence[Path], note: Callable[[str], None] = lambda _: None) -> Side:
    """Return the side that the paths name: captures, run folders, folders of runs, or one baseline.

    ``BATCH:LABEL`` names the runs of one combination of a batch. ``note`` is told why a run is left out.
    Raises CaptureError if no run can be read, and UsageError for runs that do not belong together.
    """
    return load(source_of(given, note=note), note)


def source_of(given: Sequence[Path], name: str = "", note: Callable[[str], None] = lambda _: None) -> Source:
    """Return what the paths name, without opening a capture. Raises as ``load_side`` does."""
    name = name or name_of(given)
    baselines = [path for path in given if path.suffix == _BASELINE]
    if baselines:
        if len(given) > 1:
            raise UsageError(
                f"{baselines[0]} is a baseline and must be the only path of its side",
                "a baseline holds all runs of a side",
            )
        return Source(name, baseline=baselines[0])
    runs = [run for path in given for run in _runs_at(path, note)]
    runs = list({os.path.realpath(run.path): run for run in runs}.values())
    labels = shortest_labels([run.path for run in runs])
    runs = [replace(run, label=label) for run, label in zip(runs, labels, strict=True)]
    if not runs:
        raise CaptureError(f"no runs or captures in {name}", capture_open.GIVE_A_CAPTURE)
    _check_ranks(runs)
    done = [run for run in runs if run.outcome == "done"]
    left_out = tuple(_left_out(run) for run in runs if run.outcome != "done")
    if not done:
        raise CaptureError(f"{name}: no run is done: {first_of([run.named for run in left_out], 20)}")
    return Source(name, tuple(done), left_out=left_out)


def load(
    source: Source,
    note: Callable[[str], None] = lambda _: None,
    progress: Callable[[str], None] = lambda _: None,
) -> Side:
    """Return the figures of a source. A capture among several that cannot be read is noted and left out.

    Raises CaptureError if none can be read.
    """
    if source.baseline:
        return baseline.read_baseline(source.baseline)
    left_out = list(source.left_out)
    for one in left_out:
        note(f"left out: {printable(one.named)}")
    figures, replaced = [], set[str]()
    for number, run in enumerate(source.runs, 1):
        progress(f"reading {source.name}: {number} of {len(source.runs)} captures …")
        try:
            capture = captures.open_capture(run.path).viewed(shared=True)
            figures.append(run_figures.run_figures(capture, run.label))
            replaced |= capture.replaced
        except UNREADABLE as error:
            if len(source.runs) == 1:
                raise
            left_out.append(not_read(run.label, run.path, error))
            note(f"left out: {printable(left_out[-1].named)}")
    progress("")
    if replaced:
        note(replaced_note(len(replaced)))
    if not figures:
        raise nothing_read(left_out, f"{source.name}: none of {len(source.runs)} captures can be read")
    return of_runs(source.name, figures, left_out)


def of_runs(name: str, figures: Iterable[RunFigures], left_out: Iterable[UnreadCapture] = ()) -> Side:
    """Return a side of these runs, all judged by the loop that they share."""
    (side,), _ = comparing.with_one_loop([model.Side(name, tuple(figures), left_out=tuple(left_out))])
    return side


def name_of(given: Iterable[Path]) -> str:
    """Return the name of a side: its paths as they were given, the first few of many."""
    return first_of([str(path) for path in given])


def _runs_at(path: Path, note: Callable[[str], None]) -> list[RecordedRun]:
    folder, label = path, ""
    if _LABEL in path.name and not paths.exists(path, follow=False):
        name, _, label = path.name.partition(_LABEL)
        folder = path.with_name(name) if name else path
    runs = find.find_runs([folder], lambda _: ("unfinished", "it has no status"), note=note)
    labels = list(
        dict.fromkeys(run.combination for run in runs if run.parameters is not None and run.combination)
    )
    is_batch = paths.exists(folder / BATCH)
    if label:
        if label not in labels:
            raise UsageError(*unknown("combination", label, labels))
        return [run for run in runs if run.combination == label]
    if is_batch and len(labels) > 1:
        raise UsageError(
            f"{path} has runs of {len(labels)} combinations: {first_of(labels)}",
            f"name one of them: {shlex.quote(f'{path}{_LABEL}{labels[0]}')}",
        )
    return runs


def _check_ranks(runs: Iterable[RecordedRun]) -> None:
    """Raise UsageError for several ranks of one launch: these are parts of one run."""
    launches: dict[Path, Path] = {}
    for run in runs:
        if is_rank(run.path):
            first = launches.setdefault(run.path.parent, run.path)
            if first != run.path:
                raise UsageError(
                    f"{run.path.parent} holds ranks of one launch, not equal runs",
                    f"name the same rank on both sides, for example {shlex.quote(str(first))}",
                )


def _left_out(run: RecordedRun) -> UnreadCapture:
    reason = f"{run.outcome.replace('_', ' ')}{run.message and f': {run.message}'}"
    exit_code = CaptureError.exit_code if run.outcome == "damaged" else 0
    return UnreadCapture(run.label, str(run.path), reason, exit_code=exit_code)
