"""Find the runs under paths, and read what the folder of each tells of its run."""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from nsyswrap.base import paths, run_facts
from nsyswrap.base.errors import CaptureError, Unreadable, UsageError
from nsyswrap.base.files import RECORDINGS, read_json, typed, why
from nsyswrap.base.recent_runs import is_rank, is_repeat, program_of
from nsyswrap.base.records import dataclass
from nsyswrap.base.run_facts import conditions_of
from nsyswrap.base.run_folder import (
    BATCH,
    CLAIM,
    EXPORT,
    REPORT,
    RUN,
    RUNS,
    SPEC,
    STATUS,
    RunFolder,
    captures_by_rank,
    rank_folders,
    rank_in,
    without_rank,
)
from nsyswrap.base.text import natural_key, printable, shortest_labels
from nsyswrap.capture.arrow_export import folder_format, is_table_folder
from nsyswrap.reports.runs.workers import in_blocks

StateOf = Callable[[Path], tuple[str, str]]
Note = Callable[[str], None]

_Value = TypeVar("_Value")

_MARKS = {RUN, STATUS, SPEC, CLAIM}  # a folder with one of these holds one run, and nothing else
_EXPORT = ".sqlite"
_RANK = "rank"  # in the name of what a rank left
CAPTURES = (_EXPORT, *RECORDINGS)


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """One run: its folder or loose capture, its label, and how it ended. None: not known.

    ``combination`` is the label of its parameters, or the folder of equal runs; empty for others.
    ``outcome`` is the one in status.json, or the state of a run without; a loose capture is done. ``wall_s``
    is the time from the start of the run to its report, in seconds. ``batch`` names the batch if there are
    several. ``commit`` is that of the program's folder, with ``-dirty`` if tracked files differ from it.
    ``job`` is the scheduler's, ``started`` an ISO time in UTC. Ranks of one launch have the same label.
    """

    path: Path
    label: str
    outcome: str
    combination: str = ""
    parameters: Mapping[str, object] | None = None
    repeat: int | None = None
    exit_code: int | None = None
    wall_s: float | None = None
    message: str = ""
    batch: str = ""
    node: str = ""
    commit: str = ""
    rank: int | None = None
    world_size: int | None = None
    job: str = ""
    started: str = ""
    driver: str = ""
    gpus: str = ""
    gpu_uuids: str = ""
    nsys: str = ""
    program: str = ""

    @property
    def name(self) -> str:
        """The label of its combination, or its own label if it was not planned."""
        return self.combination or ("" if self.planned else self.label)

    @property
    def planned(self) -> bool:
        """True if it is a repeat of a combination of a plan, or one of several equal runs."""
        return self.repeat is not None


class _Location(NamedTuple):
    """The folder of a run or a loose capture, the folder of its batch, and the key of its spec.json there.

    ``launch`` is the folder of all ranks, if the run is a rank. Of loose captures it is what their names have
    in common. ``fault`` says why a folder cannot be searched.
    """

    path: Path
    batch: Path | None = None
    key: str = ""
    loose: bool = False
    launch: Path | None = None
    rank: int | None = None  # by the name of its folder or capture
    fault: str = ""

    @property
    def home(self) -> Path:
        return self.launch or self.path


def find_runs(
    given: Iterable[Path], state_of: StateOf, jobs: int = 1, note: Note = lambda _: None
) -> list[RecordedRun]:
    """Return the runs of batch folders, run folders, loose captures and of all folders below, each once.

    A folder that cannot be searched is a damaged run. ``note`` is told which folders are left out as links.
    ``state_of`` returns the state of a planned run without a status, and why. ``jobs`` processes read the
    folders. Raises CaptureError for a path that does not exist.
    """
    by_real_path: dict[str, _Location] = {}
    real_path = _real_paths()
    for path in given:
        if not paths.exists(path, follow=False):
            raise CaptureError(f"{path} not found", "check the name, and quote patterns")
        for location in _below(path, note):
            by_real_path.setdefault(real_path(location.path), location)
    locations = _with_ranks(_without_reports_of_exports(by_real_path))
    homes = list(dict.fromkeys(location.home for location in locations))
    labels = dict(zip(homes, shortest_labels(homes), strict=True))
    batches = list(dict.fromkeys(location.batch for location in locations if location.batch))
    names: dict[Path | None, str] = {}
    if len(batches) > 1:
        plans = [batch_name(batch) for batch in batches]
        are_different = all(plans) and len(set(plans)) == len(plans)
        names.update(zip(batches, plans if are_different else shortest_labels(batches), strict=True))
    repeated = list(dict.fromkeys(location.path.parent for location in locations if is_repeat(location.path)))
    series = dict(zip(repeated, shortest_labels(repeated), strict=True))
    named = [
        _Named(
            location,
            labels[location.home],
            names.get(location.batch, ""),
            series.get(location.path.parent, ""),
        )
        for location in locations
    ]
    with closing(in_blocks(_ended_runs, named, jobs)) as blocks:
        runs = list(chain.from_iterable(blocks))
    return [run or _run(one, state_of) for one, run in zip(named, runs, strict=True)]


def run_paths(folder: Path, note: Note = lambda _: None) -> dict[Path, str]:
    """Return the run folders and the loose captures in a folder, without runs that a plan left out.

    Folders that cannot be searched are among them, with the reason. ``note`` is told which are left out as
    links.
    """
    real_path = _real_paths()
    by_real_path = {real_path(location.path): location for location in _below(folder, note)}
    return {location.path: location.fault for location in _without_reports_of_exports(by_real_path)}


def _real_paths() -> Callable[[Path], str]:
    """Return a function that returns real paths, and looks at each parent folder once."""
    parent_of = cache(os.path.realpath)

    def real_path(path: Path) -> str:
        parent, name = os.path.split(path)
        if name in ("", "..") or os.path.islink(path):  # noqa: PTH114 - False where one may not look
            return os.path.realpath(path)
        return os.path.join(parent_of(parent), name)  # noqa: PTH118 - for 100,000 runs

    return real_path


def batch_name(folder: Path) -> str:
    """Return the name of the plan of a batch folder; empty if the folder is not one."""
    try:
        return run_facts.read_batch(folder).name
    except (OSError, ValueError):
        return ""


def _without_reports_of_exports(by_real_path: Mapping[str, _Location]) -> list[_Location]:
    return [
        location for real, location in by_real_path.items() if by_real_path.keys().isdisjoint(_made_of(real))
    ]


def _below(path: Path, note: Note) -> Iterator[_Location]:
    if not paths.is_folder(path) or is_table_folder(path):
        is_of_run = path.name in (EXPORT, REPORT) and any(paths.exists(path.parent / mark) for mark in _MARKS)
        yield _Location(path.parent if is_of_run else path, loose=not is_of_run)
        return
    faults: list[OSError] = []
    links: list[Path] = []
    for folder, folders, files in os.walk(path, onerror=faults.append):
        here = Path(folder)
        if BATCH in files:
            try:
                yield from _planned(here)
            except CaptureError as error:
                if here == path:
                    raise
                yield _Location(here, loose=True, fault=error.message)
            folders.clear()
        elif _MARKS.intersection(files):
            yield from _ranks_or_run(_Location(here), [*folders, *files])
            folders.clear()
        elif folder_format(here.name, files):
            yield _Location(here, loose=True)
            folders.clear()
        else:
            captures = sorted((name for name in files if name.endswith(CAPTURES)), key=natural_key)
            yield from (_Location(here / name, loose=True) for name in captures)
            folders[:] = sorted((name for name in folders if not name.startswith(".")), key=natural_key)
            links += [here / name for name in folders if paths.is_link(here / name)]
    yield from (_Location(Path(fault.filename), loose=True, fault=why(fault)) for fault in faults)
    _note_links(path, links, note)


def _note_links(folder: Path, links: Sequence[Path], note: Note) -> None:
    """Tell which links to folders are not followed, unless they lead to what is found anyway."""
    inside = os.path.join(os.path.realpath(folder), "")  # noqa: PTH118 - with a separator at its end
    if outside := [str(link) for link in links if not os.path.realpath(link).startswith(inside)]:
        note(f"not searched, as these are links to folders: {', '.join(map(printable, outside))}")


def _planned(folder: Path) -> Iterator[_Location]:
    """Yield the run folders of a batch, without those that a later plan left out."""
    try:
        runs = run_facts.read_batch(folder).runs
    except (OSError, ValueError) as error:
        raise CaptureError(
            f"cannot read {folder / BATCH}: {why(error)}",
            f"name the run folders: {shlex.quote(str(folder / RUNS))}/*",
        ) from None
    for run in runs:
        if run.active:
            location = _Location(folder / RUNS / run.folder, folder, run.key)
            names = paths.names(location.path, paths.ignore)  # `_ending` says that it may not be entered
            yield from _ranks_or_run(location, names)


def _ranks_or_run(run: _Location, names: Collection[str]) -> Iterator[_Location]:
    """Yield the ranks in the folder of a run and its other captures, or else the run.

    ``names``: of what is in the folder.
    """
    might_have = any(_RANK in name for name in names)
    folders = rank_folders(run.path) if might_have else {}
    has_files = might_have and not (folders or paths.exists(run.path / EXPORT))
    files = _own_captures(run.path) if has_files else {}
    ranks = {**folders, **files}
    for rank, path in ranks.items():
        yield run._replace(path=path, launch=run.path, rank=rank)
    if not ranks:
        yield run
        return
    others = sorted((name for name in names if name.endswith(CAPTURES)), key=natural_key)
    known = set(ranks.values())
    yield from (
        run._replace(path=run.path / name, launch=run.path) for name in others if run.path / name not in known
    )


def _own_captures(folder: Path) -> dict[int, Path]:
    """Return the captures that the command of a run named by rank; none if two have the same rank."""
    with suppress(UsageError):
        return captures_by_rank(folder)
    return {}


def _with_ranks(locations: Sequence[_Location]) -> list[_Location]:
    """Return the locations with the launch of each rank that its folder or its file's name tells."""
    named = [_named_rank(location) if location.loose else (None, None) for location in locations]
    ranks = Counter(launch for launch, rank in set(named) if rank is not None)
    return [
        location._replace(launch=launch, rank=rank)
        if launch and ranks[launch] > 1
        else location._replace(launch=location.path.parent)
        if not (location.loose or location.launch) and is_rank(location.path)
        else location
        for location, (launch, rank) in zip(locations, named, strict=True)
    ]


def _named_rank(location: _Location) -> tuple[Path | None, int | None]:
    """Return the rank that the name of a loose capture tells, and a path for all ranks with such names."""
    rank = rank_in(location.path.stem)
    rest = "" if rank is None else without_rank(location.path.stem)
    return (location.path.with_name(rest) if rest else location.path.parent), rank


def _made_of(capture: str) -> list[str]:
    """Return the paths of what nsys makes of a recording: the export, and of a .qdstrm the report, too."""
    path = Path(capture)
    if path.suffix not in RECORDINGS:
        return []
    made = [_EXPORT, *(RECORDINGS[:1] if path.suffix == ".qdstrm" else ())]
    return [str(path.with_suffix(suffix)) for suffix in made]


def _loose_capture(named: _Named) -> RecordedRun:
    location, label = named.location, named.label
    if location.fault:
        message = f"{location.path} cannot be searched: {location.fault}"
        return RecordedRun(location.path, label, "damaged", message=message)
    try:
        if paths.exists(location.path):
            return RecordedRun(location.path, label, "done", rank=location.rank)
        message = f"{location.path} is a broken link"
    except Unreadable as error:
        message = error.message
    return RecordedRun(location.path, label, "damaged", message=message, rank=location.rank)


@dataclass(frozen=True)
class _Spec:
    """What is read of spec.json."""

    label: str
    parameters: dict[str, str | int | float | bool]
    repeat: int


class _Named(NamedTuple):
    """A location, its label, and the names of its batch and of the folder of equal runs, possibly empty."""

    location: _Location
    label: str
    batch: str
    series: str


class _NotEnded(Exception):
    """The state of a run without a status is wanted."""


def _ended_runs(named: Iterable[_Named]) -> list[RecordedRun | None]:
    """Return the runs at these locations, and None for those whose state a scheduler may know."""

    def state_of(_: Path) -> tuple[str, str]:
        raise _NotEnded

    runs: list[RecordedRun | None] = []
    for one in named:
        try:
            runs.append(_run(one, state_of))
        except _NotEnded:
            runs.append(None)
    return runs


def _run(named: _Named, state_of: StateOf) -> RecordedRun:
    return _loose_capture(named) if named.location.loose else _recorded_run(named, state_of)


def _recorded_run(named: _Named, state_of: StateOf) -> RecordedRun:
    """Return the run of a folder."""
    location, label, batch, series = named
    path, home = location.path, location.home
    own = path
    try:
        outcome, exit_code, message = _ending_of_rank(location, state_of)
        if location.launch and not paths.is_folder(path):
            own = home
    except Unreadable as error:
        outcome, exit_code, message = "damaged", None, error.message
    run = RunFolder(own).read_run()
    wall_s = run.get("duration_s")
    number = run.get("repeat", {}).get("number") if series else None
    rank: Mapping[str, Any] = run.get("rank", {}) if location.launch else {}
    try:
        spec = _spec(home / SPEC, location.key)
    except (OSError, ValueError) as error:
        spec, outcome = None, "damaged"
        message = "; ".join(filter(None, (f"{home / SPEC} cannot be read: {why(error)}", message)))
    except Unreadable as error:
        spec, outcome, message = None, "damaged", message or error.message
    return RecordedRun(
        path,
        label,
        _shared(outcome),
        combination=_shared(spec.label) if spec else series,
        parameters={_shared(k): _shared(v) for k, v in spec.parameters.items()} if spec else {},
        repeat=spec.repeat if spec else number,
        exit_code=exit_code,
        wall_s=None if wall_s is None else float(wall_s),
        message=message,
        batch=batch,
        rank=rank.get("rank", location.rank),
        world_size=rank.get("world_size"),
        job=_job(home),
        started=run.get("started", ""),
        driver=_shared(run.get("driver", "")),
        nsys=_shared(str(run.get("nsys", {}).get("version", ""))),
        program=_shared(program_of(run)),
        **{name: _shared(text) for name, text in _conditions(run).items()},
    )


def _shared(value: _Value) -> _Value:
    """Return the same object for equal texts: many runs have them, and a process sends each once a block."""
    return cast("_Value", sys.intern(value)) if isinstance(value, str) else value


def _conditions(run: Mapping[str, Any]) -> dict[str, str]:
    """Return the node, the commit, and the GPUs that processes of the run used."""
    conditions = conditions_of(run)
    if not conditions:
        return {"node": run.get("host", "")}
    gpus = [gpu for gpu in conditions.gpus if any(process.in_run for process in gpu.processes)]
    return {
        "node": conditions.host.node or run.get("host", ""),
        "commit": conditions.git.label if conditions.git else "",
        "gpus": ", ".join(gpu.name for gpu in gpus),
        "gpu_uuids": ", ".join(gpu.uuid for gpu in gpus),
    }


def _job(folder: Path) -> str:
    """Return the job of a planned run; empty outside of a scheduler."""
    try:
        job = read_json(folder / CLAIM)["job"]
    except (OSError, ValueError, LookupError, TypeError):
        return ""
    return job if isinstance(job, str) else ""


def _ending_of_rank(location: _Location, state_of: StateOf) -> tuple[str, int | None, str]:
    """Return outcome, exit code and message. A rank of a planned run is done only if the run is."""
    if not location.launch or not paths.exists(location.home / SPEC):
        return _ending(location.path, state_of)
    of_run = _ending(location.home, state_of)
    if not paths.exists(location.path / STATUS):
        is_gone = of_run[0] == "done" and paths.is_folder(location.path)
        return ("lost", None, f"{location.path.name} has not ended") if is_gone else of_run
    own = _ending(location.path, state_of)
    return own if own[0] != "done" else of_run


def _spec(path: Path, key: str) -> _Spec | None:
    """Read spec.json; None if the run was not planned. ``key``: of batch.json, empty outside of a batch."""
    if not paths.exists(path, follow=False) and not (key and paths.exists(path.parent)):
        return None
    facts = read_json(path)
    spec = typed(_Spec, facts)
    if key and run_facts.spec_key(facts) != key:
        raise ValueError(f"it is not that of {BATCH}")
    return spec


def _ending(path: Path, state_of: StateOf) -> tuple[str, int | None, str]:
    """Return outcome, exit code and message."""
    if not paths.exists(path / STATUS):
        is_planned = paths.exists(path / SPEC) or not paths.exists(path)
        state, reason = state_of(path) if is_planned else ("unfinished", "")
        return state, None, reason
    try:
        status = RunFolder(path).read_status()
    except CaptureError as error:
        return "damaged", None, error.message
    return status.outcome, status.exit_code, status.message
