"""Find the runs below the given paths, and read how each ended."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nsyswrap.base.errors import CaptureError
from nsyswrap.base.run_folder import BATCH, CLAIM, EXPORT, REPORT, RUN, RUNS, SPEC, STATUS, RunFolder
from nsyswrap.base.text import shortest_labels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    HowFar = Callable[[Path], tuple[str, str]]

_MARKS = {RUN, STATUS, SPEC, CLAIM}  # a folder with one of these holds one run, and nothing else
_EXPORT, _REPORTS = ".sqlite", (".nsys-rep", ".qdrep")
CAPTURES = (_EXPORT, *_REPORTS)


@dataclass(frozen=True)
class RecordedRun:
    """One run: its folder or loose capture, its label, and how it ended.

    ``what`` is the label of its combination of parameters, empty for an unplanned run. ``outcome`` comes
    from its status, or says how far it is; a loose capture is done. ``wall_s`` is the time from its start
    to its report, in seconds. ``batch`` is the label of its batch if there are several. None: not known.
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

    @property
    def name(self) -> str:
        """Return the name of its combination; an unplanned run has its own name."""
        return self.what or ("" if self.planned else self.label)

    @property
    def planned(self) -> bool:
        """Return True if a plan says which repeat of which combination it is."""
        return self.repeat is not None


class _Place(NamedTuple):
    """The folder or loose capture of a run, and the folder of its batch."""

    path: Path
    batch: Path | None = None
    loose: bool = False


def find_runs(paths: Iterable[Path], unfinished: HowFar) -> list[RecordedRun]:
    """Return the runs of batch folders, run folders, loose captures and of all folders below, each once.

    ``unfinished`` returns how far a planned run without a status is, and why. Raises CaptureError for a
    path that does not exist.
    """
    by_real_path: dict[str, _Place] = {}
    for path in paths:
        if not os.path.lexists(path):
            raise CaptureError(f"{path}: No such file or directory", "check the name; quote a pattern")
        for place in _below(path):
            by_real_path.setdefault(os.path.realpath(place.path), place)
    places = [place for real, place in by_real_path.items() if _export_beside(real) not in by_real_path]
    batches = list(dict.fromkeys(place.batch for place in places if place.batch))
    batch_labels: dict[Path | None, str] = {}
    if len(batches) > 1:
        batch_labels.update(zip(batches, shortest_labels(batches), strict=True))
    return [
        _loose(place.path, label)
        if place.loose
        else _read_run(place.path, label, unfinished, batch_labels.get(place.batch, ""))
        for place, label in zip(places, shortest_labels([place.path for place in places]), strict=True)
    ]


def is_batch(path: Path) -> bool:
    """Return True if a path is the folder of a batch."""
    return (path / BATCH).is_file()


def _below(path: Path) -> Iterator[_Place]:
    """Yield each run at or below a path."""
    if not path.is_dir():
        loose = path.name not in (EXPORT, REPORT) or not any((path.parent / mark).exists() for mark in _MARKS)
        yield _Place(path if loose else path.parent, loose=loose)
        return
    for folder, folders, files in os.walk(path):
        here = Path(folder)
        if BATCH in files:
            yield from (_Place(run, here) for run in _planned(here))
            folders.clear()
        elif _MARKS.intersection(files):
            yield _Place(here)
            folders.clear()
        else:
            yield from (_Place(here / name, loose=True) for name in sorted(files) if name.endswith(CAPTURES))
            folders[:] = sorted(name for name in folders if not name.startswith("."))


def _planned(folder: Path) -> list[Path]:
    """Return the run folders of a batch, without those that a later plan left out."""
    facts = _facts(folder / BATCH)
    try:
        return [folder / RUNS / run["folder"] for run in facts["runs"] if run.get("active", True)]
    except (KeyError, TypeError):
        raise CaptureError(f"{folder / BATCH} cannot be read", "give the run folders below it") from None


def _export_beside(capture: str) -> str:
    """Return the path of the export beside a report; empty for any other file."""
    path = Path(capture)
    return str(path.with_suffix(_EXPORT)) if path.suffix in _REPORTS else ""


def _loose(path: Path, label: str) -> RecordedRun:
    """Return a capture without a run folder as a run that is done, a broken link as a damaged one."""
    if path.exists():
        return RecordedRun(path, label, "done")
    return RecordedRun(path, label, "damaged", message=f"{path} is a link to what is not there")


def _read_run(path: Path, label: str, unfinished: HowFar, batch: str) -> RecordedRun:
    """Read how a run ended, and how it was planned."""
    spec = _facts(path / SPEC)
    parameters = spec.get("parameters")
    return RecordedRun(
        path,
        label,
        what=str(spec.get("label", "")),
        parameters=parameters if isinstance(parameters, dict) else {},
        repeat=_whole(spec.get("repeat")),
        wall_s=_seconds(RunFolder(path).read_run()),
        batch=batch,
        **_ending(path, unfinished),
    )


def _ending(path: Path, unfinished: HowFar) -> dict[str, Any]:
    if not (path / STATUS).exists():
        planned = (path / SPEC).exists() or not path.exists()
        outcome, message = unfinished(path) if planned else ("unfinished", "")
        return {"outcome": outcome, "message": message}
    try:
        status = RunFolder(path).read_status()
    except CaptureError as error:
        return {"outcome": "damaged", "message": str(error)}
    return {"outcome": status.outcome, "exit_code": status.exit_code, "message": status.message}


def _facts(file: Path) -> dict[str, Any]:
    """Return the object in a JSON file, or an empty one."""
    try:
        facts = json.loads(file.read_text(encoding="utf-8", errors="surrogateescape"))
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _seconds(run: object) -> float | None:
    value = run.get("duration_s") if isinstance(run, dict) else None
    return float(value) if isinstance(value, (int, float)) else None
