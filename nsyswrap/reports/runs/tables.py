"""Make the table of runs: label, parameters, how each run ended, what the GPU did, how long it took."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from nsyswrap.base.units import Unit
from nsyswrap.reports import SUMMARIES, find_report
from nsyswrap.reports.runs.digest import CONDITIONS, FACTS, TOTALS, WORK
from nsyswrap.reports.runs.rank_digest import RANK_COLUMNS
from nsyswrap.reports.runs.shared_nodes import shared_nodes
from nsyswrap.reports.table import Column, Schema, table_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from nsyswrap.reports.runs.find import RecordedRun
    from nsyswrap.reports.runs.gather import RunResult
    from nsyswrap.reports.table import Table


_PREFIX = "parameter_"
_LARGEST = 2**63

RUN = Column("run", "Run", Unit.TEXT, "run folder or capture, with the shortest unique name")
LABEL = Column("label", "Label", Unit.TEXT, "name of the configuration in the plan, or of the run")
BATCH = Column("batch", "Batch", Unit.TEXT, "folder of the batch, if there are several")
REPEAT = Column("repeat", "Repeat", Unit.NUMBER, "number of the repeat of the configuration")

_OUTCOMES = (
    Column(
        "outcome",
        "Outcome",
        Unit.TEXT,
        "state in status.json; damaged: unreadable capture; before the end: planned, running or lost",
    ),
    Column("exit_code", "Exit Code", Unit.NUMBER, "exit code of `nsyswrap profile`"),
)
_WALL = Column("wall_s", "Wall Time", Unit.NUMBER, "time from the start of the run to its report, in seconds")
_MESSAGE = Column("message", "Message", Unit.TEXT, "reason of the outcome")
_ORIGINS = (
    Column("host_name", "Host", Unit.TEXT, "name of the machine"),
    Column("git_commit", "Commit", Unit.TEXT, "commit of the program's folder; -dirty: with changes"),
)
_PLACES = (
    Column("job", "Job", Unit.TEXT, "job id of the scheduler"),
    Column("gpus", "GPUs", Unit.TEXT, "names of the GPUs that the run used"),
    Column("gpu_uuids", "GPU UUIDs", Unit.TEXT, "UUIDs of these GPUs; missing before nsys 2025.1"),
    Column("driver", "Driver", Unit.TEXT, "version of the GPU driver"),
    Column("started", "Started", Unit.TEXT, "start of the run, ISO time in UTC"),
    Column("shared_node", "Shared Node", Unit.COUNT, "other profiled runs on the node at the same time"),
)
RANK = Column("rank", "Rank", Unit.NUMBER, "rank in the run; missing without ranks")
_OF_RANK = (
    RANK,
    Column("world_size", "World Size", Unit.NUMBER, "number of ranks of the run"),
    *RANK_COLUMNS,
    Column("rank_verdict", "Rank Verdict", Unit.TEXT, "which rank of the run delays the others, and why"),
)
FIGURES = (*TOTALS, _WALL)
REPORT = Column("report", "Report", Unit.TEXT, "report with the row")
RUNS = Column("runs", "Runs", Unit.COUNT, "runs with merged captures")


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
            columns.append(Column(unique, header, unit, "parameter of the plan"))
        self.columns = tuple(columns)

    def of(self, run: RecordedRun) -> tuple[object, ...]:
        """Return the value of each column, or None if the run has no such parameter."""
        batch = (run.batch or None,) if self._batch else ()
        values = ((plain((run.parameters or {}).get(name)), kind) for name, kind in self._kinds.items())
        return (*batch, *(None if value is None else kind(value) for value, kind in values))


def combination(run: RecordedRun) -> str:
    """Return a key that only the repeats of one combination share. A run that was not planned is one."""
    facts = [run.batch, run.what, run.parameters or {}] if run.planned else [run.label]
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
        REPORT,
        RUNS,
    )
    of_reports = (column.name for name in SUMMARIES for column in find_report(name).columns)
    return Parameters([result.run for result in results], {*(column.name for column in ours), *of_reports})


def results_table(results: Sequence[RunResult], parameters: Parameters) -> Table:
    """Return a row for each run, or for each rank of a run. Unknown figures are missing."""
    schema = Schema(
        name="results",
        title="Results, one row per run",
        columns=(
            *(RUN, LABEL, *parameters.columns, REPEAT, *_OUTCOMES, *WORK, _WALL, _MESSAGE),
            *(*CONDITIONS, *_ORIGINS, *_PLACES, *_OF_RANK),
        ),
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
        *(_text(result.facts.get(name) or getattr(run, name)) for name in FACTS),
        *(others, run.rank, run.world_size),
        *(of_rank.get(column.name) for column in RANK_COLUMNS),
        _text(ranks.verdict if ranks else ""),
    )


def _text(value: str) -> str | None:
    """Return a text that any file format can hold; None for an empty one."""
    return value.encode("utf-8", "backslashreplace").decode() or None


def figures(result: RunResult) -> dict[str, int | float | None]:
    """Return the figures of a run by the names of their columns."""
    totals = result.totals or {}
    return {**{column.name: totals.get(column.name) for column in TOTALS}, "wall_s": result.run.wall_s}
