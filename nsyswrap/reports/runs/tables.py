"""Make the table of runs: label, parameters, how each run ended, what the GPU did, how long it took.

Equal runs of one program are compared: the spread of their main figures, and the same runs without nsys. Runs
that were profiled on one node at the same time disturb each other, and are found.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from statistics import median
from typing import TYPE_CHECKING, Any

from nsyswrap.base.constants import NS_PER_S
from nsyswrap.base.records import dataclass
from nsyswrap.base.run_facts import bare_run_of
from nsyswrap.base.text import counted
from nsyswrap.base.units import Unit
from nsyswrap.capture.capture import Capture
from nsyswrap.reports import SUMMARIES, find_report
from nsyswrap.reports.answer.line import whole_percent
from nsyswrap.reports.runs.digest import CONDITIONS, JUDGED, RANK_COLUMNS, TOTALS, WORK, totals
from nsyswrap.reports.summary import answer_with_lines
from nsyswrap.reports.table import Column, Schema, Table, table_of

if TYPE_CHECKING:
    from nsyswrap.reports.runs.find import RecordedRun
    from nsyswrap.reports.runs.gather import RunResult


_PREFIX = "parameter_"
_LARGEST = 2**63

RUN = Column("run", "Run", "run folder or capture, with the shortest unique name", is_key=True)
LABEL = Column("label", "Label", "name of the configuration in the plan, or of the run")
BATCH = Column("batch", "Batch", "folder of the batch, if there are several")
REPEAT = Column.number("repeat", "Repeat", "number of the repeat of the configuration")

_OUTCOMES = (
    Column(
        "outcome",
        "Outcome",
        "state in status.json; damaged: unreadable capture; before the end: planned, running or lost",
    ),
    Column.number("exit_code", "Exit Code", "exit code of `nsyswrap profile`"),
)
_WALL = Column.number("wall_s", "Wall Time", "time from the start of the run to its report, in seconds")
_MESSAGE = Column("message", "Message", "reason of the outcome")
_ORIGINS = (
    Column("host_name", "Host", "name of the machine"),
    Column("git_commit", "Commit", "commit of the program's folder; -dirty: with changes"),
)
_PLACES = (
    Column("job", "Job", "job id of the scheduler"),
    Column("gpus", "GPUs", "names of the GPUs that the run used"),
    Column("gpu_uuids", "GPU UUIDs", "UUIDs of these GPUs; missing before nsys 2025.1"),
    Column("driver", "Driver", "version of the GPU driver"),
    Column("started", "Started", "start of the run, ISO time in UTC"),
    Column.count("shared_node", "Shared Node", "other profiled runs on the node at the same time"),
)
RANK = Column.number("rank", "Rank", "rank in the run; missing without ranks")
_OF_RANK = (
    RANK,
    Column.number("world_size", "World Size", "number of ranks of the run"),
    *RANK_COLUMNS,
    Column("rank_verdict", "Rank Verdict", "which rank of the run delays the others, and why"),
)
_NSYS = Column("nsys", "nsys", "version of nsys that recorded the run")
_FIRST_FINDING = Column("first_finding", "First Finding", "what the screen finds first", is_sentence=True)
# What was run, and what its screen says first.
_ANSWER = (
    Column("program", "Program", "name of the program"),
    Column("command", "Command", "command line, without credentials"),
    Column("judged", "Judged", "what of the run is judged: its steady part, or the whole capture"),
    *JUDGED[:3],
    Column("idle_cause", "Idle Cause", "why the GPU was idle: the largest cause"),
    JUDGED[3],
    Column("finding", "Finding", "kind of the first finding, as in JSON"),
    JUDGED[4],
    _FIRST_FINDING,
    *JUDGED[5:],
)
# The columns of the screen, each with the width that a screen needs for it.
_ON_SCREEN = (
    (RUN, 0),
    (Column("program", "Program", "name of the program"), 0),
    (Column("started", "Started", "day of the start in UTC"), 100),
    (Column("gpus", "GPU", "names of the GPUs"), 90),
    (Column("judged_busy_percent", "Busy", "share of the judged time with GPU work"), 0),
    (Column("step_ns", "Med Step", "median of the steps that are judged"), 110),
    (Column("idle_cause", "Idle For", "largest cause of idle time, and its share"), 0),
    (_FIRST_FINDING, 0),
)
_SHORT, _READABLE = 16, 24  # of the name of a run, in columns: other columns make room for a longer one
_DAY, _LOW_PERCENT = len("2026-11-28"), 50
FIGURES = (*TOTALS, _WALL)
REPORT = Column("report", "Report", "report with the row")
RUNS = Column.count("runs", "Runs", "runs with merged captures")


class Parameters:
    """The parameters of runs as columns, as they first occur. With several batches, the batch is first.

    A column with a text in it is a column of texts. A parameter with the name of a column in ``taken`` is
    called ``parameter_<name>``.
    """

    def __init__(self, runs: Sequence[RecordedRun], taken: Collection[str]) -> None:
        """Make the columns."""
        kinds: dict[str, set[type]] = {}
        for run in runs:
            for name, value in (run.parameters or {}).items():
                kinds.setdefault(name, set()).add(type(plain(value)))
        self._kinds = {
            name: next((kind for kind in (str, float) if kind in types), int) for name, types in kinds.items()
        }
        self._batch = any(run.batch for run in runs)
        columns = [BATCH] if self._batch else []
        for name, kind in self._kinds.items():
            header = str(plain(name))
            unique, used = header, {*taken, *(column.name for column in columns)}
            while unique in used:
                unique = _PREFIX + unique
            unit = Unit.TEXT if kind is str else Unit.NUMBER
            columns.append(Column(unique, header, "parameter of the plan", unit=unit))
        self.columns = tuple(columns)

    def of(self, run: RecordedRun) -> tuple[object, ...]:
        """Return the value of each column, or None if the run has no such parameter."""
        batch = (run.batch or None,) if self._batch else ()
        values = ((plain((run.parameters or {}).get(name)), kind) for name, kind in self._kinds.items())
        return (*batch, *(None if value is None else kind(value) for value, kind in values))


def combination(run: RecordedRun) -> str:
    """Return a key that only the repeats of one combination share. A run that was not planned is one."""
    facts = [run.batch, run.combination, run.parameters or {}] if run.planned else [run.label]
    return json.dumps(facts, sort_keys=True)


def plain(value: object) -> int | float | str | None:
    """Return a parameter as a number or text that any file format can hold."""
    if value is None or isinstance(value, float):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and -_LARGEST < value < _LARGEST:
        return value
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode("utf-8", "backslashreplace").decode()


def parameters_of(results: Sequence[RunResult]) -> Parameters:
    """Return the parameters of all runs, with names that no column of any table has."""
    ours = (
        RUN,
        LABEL,
        BATCH,
        REPEAT,
        *_OUTCOMES,
        *FIGURES,
        _MESSAGE,
        *_ORIGINS,
        *_PLACES,
        *_OF_RANK,
        _NSYS,
        *_ANSWER,
        REPORT,
        RUNS,
    )
    of_reports = (column.name for name in SUMMARIES for column in find_report(name).columns)
    return Parameters([result.run for result in results], {*(column.name for column in ours), *of_reports})


def results_table(results: Sequence[RunResult], parameters: Parameters) -> Table:
    """Return a row for each run, or for each rank of a run. Unknown figures are missing."""
    schema = Schema(
        "results",
        "Results, one row per run",
        *(RUN, LABEL, *parameters.columns, REPEAT, *_OUTCOMES, *WORK, _WALL, _MESSAGE),
        *(*CONDITIONS, *_ORIGINS, *_PLACES, *_OF_RANK, _NSYS, *_ANSWER),
    )
    shared = shared_nodes([result.run for result in results])
    rows = zip(results, shared, strict=True)
    return table_of(schema, [_row(result, parameters, others) for result, others in rows])


def _row(result: RunResult, parameters: Parameters, others: int | None) -> tuple[object, ...]:
    run, values, ranks = result.run, figures(result), result.ranks
    of_rank = ranks.of(run.rank) if ranks else {}
    return (
        *(run.label, run.name or None, *parameters.of(run), run.repeat, run.outcome, run.exit_code),
        *(values[column.name] for column in (*WORK, _WALL)),
        _text(run.message),
        *(values[column.name] for column in CONDITIONS),
        *map(_text, (run.node, run.commit, run.job)),
        *(_text(text_of(result, name)) for name in ("gpus", "gpu_uuids", "driver", "started")),
        *(others, run.rank, run.world_size),
        *(of_rank.get(column.name) for column in RANK_COLUMNS),
        _text(ranks.verdict if ranks else ""),
        _text(text_of(result, _NSYS.name)),
        *(values[c.name] if c.name in values else _text(text_of(result, c.name)) for c in _ANSWER),
    )


def answers_table(results: Sequence[RunResult], width: int) -> Table:
    """Return the table of the screen: what each readable run was, how busy the GPU was, and what to do first.

    The runs with the most idle time come first. A column that is the same for all runs is left out.
    """
    rows = sorted((one for one in results if one.totals), key=lambda one: _busy_or(one, most=float("inf")))
    cells = list(map(_screen_row, rows))
    width -= max(0, min(max((len(str(row[0])) for row in cells), default=0), _READABLE) - _SHORT)
    kept = [
        i
        for i, ((column, least), values) in enumerate(zip(_ON_SCREEN, zip(*cells, strict=True), strict=True))
        if width >= least and (not least or len(rows) == 1 or len(set(values)) > 1)
    ]
    schema = Schema("results", "Runs, the least busy GPU first", *(_ON_SCREEN[i][0] for i in kept))
    return replace(table_of(schema, [tuple(row[i] for i in kept) for row in cells]), verdict=_verdict(rows))


def _screen_row(result: RunResult) -> tuple[object, ...]:
    values, started = figures(result), text_of(result, "started")[:_DAY]
    cause, percent = text_of(result, "idle_cause"), values["idle_cause_percent"]
    gpus = Counter(name.removeprefix("NVIDIA ") for name in text_of(result, "gpus").split(", ") if name)
    return (
        result.run.label if result.run.rank is None else f"{result.run.label} rank {result.run.rank}",
        *(text_of(result, "program") or None, started or None),
        ", ".join(f"{count} x {name}" if count > 1 else name for name, count in gpus.items()) or None,
        *(values["judged_busy_percent"], values["step_ns"]),
        f"{whole_percent(percent)} {cause}" if cause and percent is not None else None,
        text_of(result, "heading") or text_of(result, "first_finding") or None,
    )


def _busy_or(result: RunResult, most: float) -> float:
    busy = busy_percent(result)
    return most if busy is None else busy


def _verdict(rows: Sequence[RunResult]) -> str:
    """Return in how many runs a GPU was idle for most of the time, and the most frequent cause."""
    idle = [one for one in rows if _busy_or(one, most=100) < _LOW_PERCENT]
    if not idle:
        return ""
    [(cause, count)] = Counter(text_of(one, "idle_cause") for one in idle).most_common(1)
    return (
        f"GPU busy less than {_LOW_PERCENT} % in {len(idle):,} of {counted(len(rows), nouns_of(rows))}, "
        f"mostly idle for {cause} in {count:,} of them."
    )


def nouns_of(results: Sequence[RunResult]) -> str:
    """Return what results are of: runs, ranks of runs, or both."""
    of_ranks = {result.run.rank is not None for result in results}
    return "runs and ranks" if len(of_ranks) > 1 else "ranks" if True in of_ranks else "runs"


def text_of(result: RunResult, name: str) -> str:
    """Return a text of a run: that of its capture, or else of its folder; empty if neither has it."""
    return result.facts.get(name) or str(getattr(result.run, name, ""))


def _text(value: str) -> str | None:
    """Return a text that any file format can hold; None for an empty one."""
    return value.encode("utf-8", "backslashreplace").decode() or None


def figures(result: RunResult) -> dict[str, int | float | None]:
    """Return the figures of a run by the names of their columns."""
    totals = result.totals or {}
    return {**{column.name: totals.get(column.name) for column in TOTALS}, "wall_s": result.run.wall_s}


def busy_percent(result: RunResult) -> float | None:
    """Return the share of the judged time with GPU work; None if it is not known."""
    return figures(result)["judged_busy_percent"]


PROGRAM_TIME = "program time"
_LEAST_RUNS, _LEAST_SLOW = 5, 0.02  # for a slow first run: number of runs, part of the median
_TOTALS = {"busy_ns": "GPU busy time", "kernel_ns": "kernel time", "launch_ns": "launch calls"}


@dataclass(frozen=True)
class RunsFigure:
    """One figure of equal runs: the values of the runs that have it, in their order."""

    name: str
    unit: Unit
    values: Sequence[float]

    @property
    def median(self) -> float:
        """The median of the runs."""
        return median(self.values)

    @property
    def spread_percent(self) -> float | None:
        """(Largest - smallest) / median, as `collect` has it; None for a single run."""
        if len(self.values) <= 1 or not self.median:
            return None
        return 100 * (max(self.values) - min(self.values)) / self.median

    @property
    def first_is_slow(self) -> bool:
        """True if the first of at least five runs is slower than the others by more than their spread."""
        first, *others = self.values
        if len(self.values) < _LEAST_RUNS:
            return False
        return first - max(others) > max(max(others) - min(others), _LEAST_SLOW * median(others))


def spread(captures: Sequence[Capture], runs: Sequence[Mapping[str, Any]]) -> list[RunsFigure]:
    """Return the figures of equal runs, the program's time first. ``runs``: the run.json of each capture."""
    rows = [_figures(capture, run) for capture, run in zip(captures, runs, strict=True)]
    keys = dict.fromkeys(key for row in rows for key in row)
    return [RunsFigure(*key, [row[key] for row in rows if key in row]) for key in keys]


def _figures(capture: Capture, run: Mapping[str, Any]) -> dict[tuple[str, Unit], float]:
    """Return the known figures of one run by name and unit."""
    figures: dict[tuple[str, Unit], float | None] = {(PROGRAM_TIME, Unit.NS): _ns(run.get("program_s"))}
    answer, _ = answer_with_lines(capture)
    if answer and answer.devices:
        if answer.steps:
            figures[f"step {answer.steps.label}", Unit.NS] = answer.steps.median_ns
        busy = sum(answer.busy_ns.values())
        figures[f"GPU busy, {answer.scope}", Unit.PERCENT] = answer.share(busy)
        of_capture = totals(capture)
        figures |= {(name, Unit.NS): of_capture.get(key) for key, name in _TOTALS.items()}
    return {key: value for key, value in figures.items() if value is not None}


@dataclass(frozen=True)
class Cost:
    """The time of the program without nsys and under nsys, in ns: the values of equal runs."""

    bare: RunsFigure
    profiled: RunsFigure

    @property
    def difference_ns(self) -> float:
        """The difference of the medians."""
        return self.profiled.median - self.bare.median

    @property
    def difference_percent(self) -> float:
        """The difference of the medians, as a share of the median without nsys."""
        return 100 * self.difference_ns / self.bare.median

    @property
    def overlaps(self) -> bool:
        """True if a profiled run took no longer than a run without nsys, or the other way round."""
        bare, profiled = self.bare.values, self.profiled.values
        return min(profiled) <= max(bare) and min(bare) <= max(profiled)


def profiling_cost(runs: Sequence[Mapping[str, Any]]) -> tuple[Cost | None, str]:
    """Return what profiling cost the program, or None and the reason why it is not known.

    ``runs``: the run.json of each run. Only runs whose run without nsys ended well are compared.
    """
    pairs = [(bare, run) for run in runs if (bare := bare_run_of(run)) and not bare.exit_code]
    if not pairs:
        return None, "the run without nsys failed"
    times = [(_ns(bare.program_s), _ns(run.get("program_s"))) for bare, run in pairs]
    known = [(bare, profiled) for bare, profiled in times if bare and profiled]
    if not known:
        return None, "the program was not timed"
    return Cost(*(RunsFigure(PROGRAM_TIME, Unit.NS, values) for values in zip(*known, strict=True))), ""


def _ns(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * NS_PER_S


def shared_nodes(runs: Sequence[RecordedRun]) -> list[int | None]:
    """Return for each run how many others ran on its node meanwhile; None if node or times are not known.

    The ranks of one run are no others.
    """
    spans = [_span(run) for run in runs]
    by_node: dict[str, dict[tuple[str, str], tuple[float, float]]] = {}
    for run, span in zip(runs, spans, strict=True):
        if span:
            of_node = by_node.setdefault(run.node, {})
            first, last = of_node.get(_key(run), span)
            of_node[_key(run)] = (min(first, span[0]), max(last, span[1]))
    edges = {
        node: tuple(sorted(edge) for edge in zip(*of_node.values(), strict=True))
        for node, of_node in by_node.items()
    }
    others: list[int | None] = []
    for run, span in zip(runs, spans, strict=True):
        if not span:
            others.append(None)
            continue
        first, last = by_node[run.node][_key(run)]
        starts, ends = edges[run.node]
        others.append(bisect_left(starts, last) - bisect_right(ends, first) - 1)
    return others


def shared_note(runs: Sequence[RecordedRun]) -> str:
    """Return a note on runs that shared a node; empty if there are none."""
    together = zip(runs, shared_nodes(runs), strict=True)
    count = len({_key(run) for run, others in together if others})
    if not count:
        return ""
    return f"{counted(count, 'runs')} shared a node with other profiled runs; see shared_node in results.csv"


def _key(run: RecordedRun) -> tuple[str, str]:
    return run.batch, run.label


def _span(run: RecordedRun) -> tuple[float, float] | None:
    """Return start and end of a run in seconds; None if node, start or duration is not known."""
    if not (run.node and run.started and run.wall_s):
        return None
    try:
        began = datetime.fromisoformat(run.started)
    except ValueError:
        return None
    began = began if began.tzinfo else began.replace(tzinfo=timezone.utc)
    return began.timestamp(), began.timestamp() + run.wall_s
