"""Find the runs under paths, and read what the folder of each tells of its run."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nsyswrap.base import batch_file
from nsyswrap.base.conditions import conditions_of
from nsyswrap.base.errors import CaptureError
from nsyswrap.base.files import read_json, typed, why
from nsyswrap.base.recent_runs import is_repeat
from nsyswrap.base.run_folder import BATCH, CLAIM, EXPORT, REPORT, RUN, RUNS, SPEC, STATUS, RunFolder
from nsyswrap.base.text import shortest_labels
from nsyswrap.capture.arrow_export import folder_format, is_table_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    StateOf = Callable[[Path], tuple[str, str]]

_MARKS = {RUN, STATUS, SPEC, CLAIM}  # a folder with one of these holds one run, and nothing else
_EXPORT, _REPORTS = ".sqlite", (".nsys-rep", ".qdrep")
CAPTURES = (_EXPORT, *_REPORTS)


@dataclass(frozen=True)
class RecordedRun:
    """One run: its folder or loose capture, its label, and how it ended. None: not known.

    ``what`` is the label of its combination of parameters, or the folder of equal runs; empty for others.
    ``outcome`` is the one in status.json, or the state of a run without; a loose capture is done. ``wall_s``
    is the time from the start of the run to its report, in seconds. ``batch`` names the batch if there are
    several. ``commit`` is that of the program's folder, with ``-dirty`` if tracked files differ from it.
    """

    path: Path
    label: str
    outcome: str
    what: str = ""
    parameters: Mapping[str, object] | None = None
    repeat: int | None = None
    exit_code: int | None = None
    wall_s: float | None = None
    message: str = ""
    batch: str = ""
    node: str = ""
    commit: str = ""

    @property
    def name(self) -> str:
        """The label of its combination, or its own label if it was not planned."""
        return self.what or ("" if self.planned else self.label)

    @property
    def planned(self) -> bool:
        """True if it is a repeat of a combination of a plan, or one of several equal runs."""
        return self.repeat is not None


class _Place(NamedTuple):
    """The folder of a run or a loose capture, the folder of its batch, and the key of its spec.json there."""

    path: Path
    batch: Path | None = None
    key: str = ""
    loose: bool = False


def find_runs(paths: Iterable[Path], state_of: StateOf) -> list[RecordedRun]:
    """Return the runs of batch folders, run folders, loose captures and of all folders below, each once.

    ``state_of`` returns the state of a planned run without a status, and why. Raises CaptureError for a path
    that does not exist.
    """
    by_real_path: dict[str, _Place] = {}
    for path in paths:
        if not os.path.lexists(path):
            raise CaptureError(f"{path} not found", "check the name, and quote patterns")
        for place in _below(path):
            by_real_path.setdefault(os.path.realpath(place.path), place)
    places = _without_reports_of_exports(by_real_path)
    labels = shortest_labels([place.path for place in places])
    batches = list(dict.fromkeys(place.batch for place in places if place.batch))
    names: dict[Path | None, str] = {}
    if len(batches) > 1:
        plans = [batch_name(batch) for batch in batches]
        are_different = all(plans) and len(set(plans)) == len(plans)
        names.update(zip(batches, plans if are_different else shortest_labels(batches), strict=True))
    repeated = list(dict.fromkeys(place.path.parent for place in places if is_repeat(place.path)))
    series = dict(zip(repeated, shortest_labels(repeated), strict=True))
    return [
        _loose_capture(place.path, label)
        if place.loose
        else _recorded_run(
            place, label, state_of, names.get(place.batch, ""), series.get(place.path.parent, "")
        )
        for place, label in zip(places, labels, strict=True)
    ]


def run_paths(folder: Path) -> list[Path]:
    """Return the run folders and the loose captures in a folder, without runs that a plan left out."""
    by_real_path = {os.path.realpath(place.path): place for place in _below(folder)}
    return [place.path for place in _without_reports_of_exports(by_real_path)]


def batch_name(folder: Path) -> str:
    """Return the name of the plan of a batch folder; empty if the folder is not one."""
    try:
        return batch_file.read(folder).name
    except (OSError, ValueError):
        return ""


def _without_reports_of_exports(by_real_path: Mapping[str, _Place]) -> list[_Place]:
    return [place for real, place in by_real_path.items() if _export_beside(real) not in by_real_path]


def _below(path: Path) -> Iterator[_Place]:
    if not path.is_dir() or is_table_folder(path):
        loose = path.name not in (EXPORT, REPORT) or not any((path.parent / mark).exists() for mark in _MARKS)
        yield _Place(path if loose else path.parent, loose=loose)
        return
    for folder, folders, files in os.walk(path):
        here = Path(folder)
        if BATCH in files:
            yield from _planned(here)
            folders.clear()
        elif _MARKS.intersection(files):
            yield _Place(here)
            folders.clear()
        elif folder_format(here.name, files):
            yield _Place(here, loose=True)
            folders.clear()
        else:
            yield from (_Place(here / name, loose=True) for name in sorted(files) if name.endswith(CAPTURES))
            folders[:] = sorted(name for name in folders if not name.startswith("."))


def _planned(folder: Path) -> Iterator[_Place]:
    """Yield the run folders of a batch, without those that a later plan left out."""
    try:
        runs = batch_file.read(folder).runs
    except (OSError, ValueError) as error:
        raise CaptureError(
            f"cannot read {folder / BATCH}: {why(error)}",
            f"name the run folders: {shlex.quote(str(folder / RUNS))}/*",
        ) from None
    yield from (_Place(folder / RUNS / run.folder, folder, run.key) for run in runs if run.active)


def _export_beside(capture: str) -> str:
    """Return the path of the export of a report, or an empty text for any other file."""
    path = Path(capture)
    return str(path.with_suffix(_EXPORT)) if path.suffix in _REPORTS else ""


def _loose_capture(path: Path, label: str) -> RecordedRun:
    if path.exists():
        return RecordedRun(path, label, "done")
    return RecordedRun(path, label, "damaged", message=f"{path} is a broken link")


@dataclass(frozen=True)
class _Spec:
    """What is read of spec.json."""

    label: str
    parameters: dict[str, str | int | float | bool]
    repeat: int


def _recorded_run(place: _Place, label: str, state_of: StateOf, batch: str, series: str) -> RecordedRun:
    """Return the run of a folder. ``series`` names the folder of equal runs; empty for other runs."""
    path = place.path
    run = RunFolder(path).read_run()
    wall_s = run.get("duration_s")
    number = run.get("repeat", {}).get("number") if series else None
    outcome, exit_code, message = _ending(path, state_of)
    try:
        spec = _spec(path / SPEC, place.key)
    except (OSError, ValueError) as error:
        spec, outcome = None, "damaged"
        message = "; ".join(filter(None, (f"{path / SPEC} cannot be read: {why(error)}", message)))
    return RecordedRun(
        path,
        label,
        outcome,
        what=spec.label if spec else series,
        parameters=spec.parameters if spec else {},
        repeat=spec.repeat if spec else number,
        exit_code=exit_code,
        wall_s=None if wall_s is None else float(wall_s),
        message=message,
        batch=batch,
        node=run.get("host", ""),
        commit=_commit(run),
    )


def _commit(run: Mapping[str, Any]) -> str:
    conditions = conditions_of(run)
    return conditions.git.label if conditions and conditions.git else ""


def _spec(path: Path, key: str) -> _Spec | None:
    """Read spec.json; None if the run was not planned. ``key``: of batch.json, empty outside of a batch."""
    if not os.path.lexists(path) and not (key and path.parent.exists()):
        return None
    facts = read_json(path)
    spec = typed(_Spec, facts)
    if key and batch_file.spec_key(facts) != key:
        raise ValueError(f"it is not that of {BATCH}")
    return spec


def _ending(path: Path, state_of: StateOf) -> tuple[str, int | None, str]:
    """Return outcome, exit code and message."""
    if not (path / STATUS).exists():
        is_planned = (path / SPEC).exists() or not path.exists()
        state, reason = state_of(path) if is_planned else ("unfinished", "")
        return state, None, reason
    try:
        status = RunFolder(path).read_status()
    except CaptureError as error:
        return "damaged", None, error.message
    return status.outcome, status.exit_code, status.message
