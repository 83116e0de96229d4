"""A saved baseline: the figures of one side of a comparison, as JSON that can be committed.

A row is one line, rows are sorted, and a figure that all runs share is written once: a difference between
two versions shows the rows that changed. The file holds no environment, no host name, no absolute path and
no argument of the program.

There is one format. A field that came later has a default in ``_Stored``, ``_StoredRun`` or ``_StoredRow``,
which says what its absence means: without ``mean_error`` the cost of a run is known of totals alone, with
``step_definition`` 1 steps and their times are left out. An older nsyswrap skips fields that it does not
know; ``FORMAT`` increases only with what it would misread. ``_stored_row`` leaves out what equals a default.

In a row, a figure is a value for all runs or a list with one for each; ``count`` is None in a run without the
row. If the text has more than ``SIZE`` characters, it is written again with fewer durations. ``sha256`` is of
the values, not of the layout, so formatting the file does no harm.
"""

from __future__ import annotations

import json
import math
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, field, replace
from itertools import chain, pairwise
from pathlib import Path
from statistics import median
from typing import Any

from nsyswrap.analysis.compare.comparability import sm_clock
from nsyswrap.analysis.compare.model import (
    GROUPS,
    WHOLE_RUN,
    ExcludedSteps,
    Group,
    Key,
    RowFigures,
    RunFigures,
    Setup,
    Side,
    known_median,
)
from nsyswrap.analysis.compare.stored_names import public, stored_command, stored_key
from nsyswrap.base import paths
from nsyswrap.base.errors import CaptureError
from nsyswrap.base.files import head, read_json, typed, why
from nsyswrap.base.records import dataclass
from nsyswrap.base.run_facts import checksum
from nsyswrap.base.version import version
from nsyswrap.reports.compare.tables import key_detail
from nsyswrap.reports.table import Column, Schema, Table, table_of

FOLDER = Path("nsyswrap-baselines")  # of those with a name
FORMAT = 1  # increases with every change of the content that an older nsyswrap would misread
SIZE = 200_000  # bytes that a file has at most, unless it has very many rows
_STEPS = 2  # how steps are defined: since 2 by the completion of their work
_MARK = "nsyswrap_baseline"  # the first key; its value is the format
_HEAD = 64  # bytes of a file that contain the mark
_PAIRS = (32, 16, 8, 4, 2)  # of duration and count in a run of a kernel: so many as fit into SIZE
_AGAIN = "restore the file, or save the baseline again"
_DIGITS = 6  # of a time that is a mean
_LARGEST = 2.0**63  # of a figure

# The figures of a row: one value if all runs have the same, else a value for each run.
Counts = int | list[int | None] | None
Figures = float | list[float | None] | None


@dataclass(frozen=True)
class _StoredRow:
    """A row of all runs. ``count`` is None in the runs that lack it. ``spread_percent`` is for readers only.

    ``durations`` has duration in ns and count by turns, for each run, ``aside`` the fields of Aside. Without
    ``mean_error`` an older nsyswrap saved it, and the cost is known of totals alone.
    """

    group: Group
    name: str
    count: Counts
    total_ns: Figures
    detail: str = ""
    mode: int = 0
    spread_percent: float | None = None
    typical_ns: Figures = None
    error: Figures = 0.0
    per_step_ns: Figures = None
    size_bytes: Counts = None
    clock_mhz: Figures = None
    clock_samples: Counts = 0
    durations: list[list[int]] = field(default_factory=list)
    mean_error: Figures = None
    aside: list[list[float]] = field(default_factory=list)


@dataclass(frozen=True)
class _StoredRun:
    label: str
    setup: Setup
    steps: int = 0
    left_out: dict[Group, int] = field(default_factory=dict)
    loop: str = ""


@dataclass(frozen=True)
class _Stored:
    name: str
    runs: list[_StoredRun]
    rows: list[_StoredRow]
    nsyswrap: str = ""
    step_definition: int = 1


def baseline_text(side: Side) -> str:
    """Return the JSON of a baseline. Raises ValueError for a side without runs."""
    if not side.runs:
        raise ValueError("a baseline needs a run")
    runs = tuple(_public_run(run) for run in side.runs)
    public_side = Side(public(side.name), runs, side.nsyswrap or version())
    for most in _PAIRS:
        text = _text(public_side, most)
        if len(text) <= SIZE:
            break
    return text


def is_baseline(path: Path) -> bool:
    """Return True for a file that begins as a baseline does. Raises CaptureError if it cannot be read."""
    if not paths.is_file(path):
        return False
    try:
        return _MARK.encode() in head(path, _HEAD)
    except OSError as error:
        raise paths.unreadable(path, error) from None


def read_baseline(path: Path) -> Side:
    """Read a baseline. Raises CaptureError if it is damaged, altered or of a newer format, or no baseline."""
    try:
        content = read_json(path)
        _check_format(path, content)
        if content.pop("sha256", None) != checksum(content):
            raise CaptureError(f"{path} is damaged: its content is not what nsyswrap wrote", _AGAIN)
        return _side(typed(_Stored, content))
    except FileNotFoundError:
        raise CaptureError(f"{path} not found", "see the names: nsyswrap baseline list") from None
    except json.JSONDecodeError as error:
        raise CaptureError(f"{path} is damaged: invalid JSON in line {error.lineno}", _AGAIN) from None
    except PermissionError as error:
        raise paths.unreadable(path, error) from None
    except (OSError, ValueError) as error:
        raise CaptureError(f"cannot read {path}: {why(error)}", _AGAIN) from None


def _check_format(path: Path, content: object) -> None:
    """Take the format out of a file's content. Raises CaptureError for one that is not read here."""
    version = content.pop(_MARK, None) if isinstance(content, dict) else None
    if type(version) is not int or version < 1:
        raise CaptureError(
            f"{path} is not a baseline of nsyswrap", "save one: nsyswrap baseline save NAME PATH"
        )
    if version > FORMAT:
        raise CaptureError(
            f"{path} was saved by a newer nsyswrap (format {version}, this one reads {FORMAT})",
            "update nsyswrap, or save the baseline again",
        )


def spread_percent(rows: Iterable[RowFigures | None]) -> float | None:
    """Return (max - min) / median of the typical times of the runs, in percent; None with fewer than 2."""
    values = [row.typical_ns for row in rows if row and row.typical_ns]
    if len(values) < 2:  # noqa: PLR2004 - one run has no spread
        return None
    return 100 * (max(values) - min(values)) / median(values)


def side_rows(side: Side) -> dict[Key, tuple[RowFigures | None, ...]]:
    """Return the rows of all runs, None for a run that lacks one, in the order of GROUPS and of names."""
    order = {group: place for place, group in enumerate(GROUPS)}
    keys = {key for run in side.runs for key in run.rows}
    ordered = sorted(keys, key=lambda key: (order[key.group], *key[1:]))
    return {key: tuple(run.rows.get(key) for run in side.runs) for key in ordered}


def _text(side: Side, most: int) -> str:
    rows = [_stored_row(key, rows, most) for key, rows in side_rows(side).items()]
    runs = [_stored_run(run) for run in side.runs]
    about = {"name": side.name, "nsyswrap": side.nsyswrap, "step_definition": _STEPS}
    content = json.loads(json.dumps({**about, "runs": runs, "rows": rows}))  # as it will be read: lists
    head = json.dumps({_MARK: FORMAT, "sha256": checksum(content), **about}, indent=1)
    return f'{head[:-2]},\n "runs": {_lines(runs)},\n "rows": {_lines(rows)}\n}}\n'


def _lines(items: Sequence[Mapping[str, object]]) -> str:
    """Return a JSON list with a line for each item."""
    return "[" + ",".join(f"\n{json.dumps(item, separators=(',', ':'))}" for item in items) + "\n]"


def _public_run(run: RunFigures) -> RunFigures:
    """Return a run without what says where it ran and as what, beyond what a comparison needs."""
    setup = replace(
        run.setup,
        command=stored_command(run.setup.command),
        options=public(run.setup.options),
        node="",
        versions=dict(sorted(run.setup.versions.items())),
    )
    rows = {stored_key(key): row for key, row in run.rows.items()}
    is_public = stored_key(Key("step", run.loop)).name == run.loop
    loop = run.loop if is_public else ""
    return replace(run, label=public(run.label), setup=setup, rows=rows, loop=loop)


def _stored_row(key: Key, rows: Sequence[RowFigures | None], most: int) -> dict[str, object]:
    spread = spread_percent(rows)
    stored = {
        **key._asdict(),
        "spread_percent": None if spread is None else _rounded(spread, 3),
        "count": _shared([row and row.count for row in rows]),
        "total_ns": _shared([row and round(row.total_ns) for row in rows]),
        "typical_ns": _shared([row and _rounded(row.typical_ns) for row in rows]),
        "error": _shared([row and _rounded(row.error, 3) for row in rows]),
        "per_step_ns": _shared([row and _rounded(row.per_step_ns) for row in rows]),
        "size_bytes": _shared([row and row.size_bytes for row in rows]),
        "clock_mhz": _shared([row and _rounded(row.clock_mhz) for row in rows]),
        "clock_samples": _shared([row and row.clock_samples for row in rows]),
        "mean_error": _shared([row and _rounded(row.mean_error, 3) for row in rows]),
    }
    if any(row and row.durations for row in rows):
        pairs = [_fewer(row.durations, most) if row else [] for row in rows]
        stored["durations"] = [list(chain.from_iterable(own)) for own in pairs]
    if any(row and row.aside for row in rows):
        stored["aside"] = [list(row.aside) if row and row.aside else [] for row in rows]
    needed = {"name", "count", "total_ns"}
    empty = {"detail": "", "mode": 0, "error": 0.0, "clock_samples": 0}
    return {name: value for name, value in stored.items() if name in needed or value != empty.get(name)}


def _shared(values: Sequence[object]) -> object:
    """Return the value if all runs have the same, else a list."""
    return values[0] if values.count(values[0]) == len(values) else list(values)


def _rounded(value: float | None, digits: int = _DIGITS) -> float | None:
    """Round to significant digits; a whole number where these are all before the point."""
    if value is None:
        return None
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() else rounded


def _fewer(durations: Sequence[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    """Return at most so many pairs of duration and count; those with the smallest gaps are joined.

    A pair of several has their mean. So modes stay apart, and durations close to each other make none.
    """
    if len(durations) <= most:
        return list(durations)
    gaps = [math.log(max(after, 1) / max(before, 1)) for (before, _), (after, _) in pairwise(durations)]
    widest = sorted(range(len(gaps)), key=lambda i: -gaps[i])[: most - 1]
    bounds = [0, *(i + 1 for i in sorted(widest)), len(durations)]
    parts = [durations[start:end] for start, end in pairwise(bounds)]
    counts = [sum(count for _, count in part) for part in parts]
    return [
        (round(sum(ns * count for ns, count in part) / total), total)
        for part, total in zip(parts, counts, strict=True)
    ]


def _stored_run(run: RunFigures) -> dict[str, object]:
    more = {"left_out": dict(sorted(run.left_out.items()))} if run.left_out else {}
    return {"label": run.label, "setup": _setup(run.setup), "steps": run.steps, "loop": run.loop, **more}


def _setup(setup: Setup) -> dict[str, Any]:
    unknown = asdict(Setup())
    return {name: value for name, value in asdict(setup).items() if value != unknown[name]}


def _side(stored: _Stored) -> Side:
    """Return the side; steps of another definition are left out.

    Raises ValueError for rows that do not fit the runs.
    """
    if not stored.runs:
        raise ValueError("it has no runs")
    same = stored.step_definition == _STEPS
    columns = {
        Key(row.group, row.name, row.detail, row.mode): _rows(row, len(stored.runs)) for row in stored.rows
    }
    if len(columns) < len(stored.rows):
        raise ValueError("a row occurs twice")
    if not same:
        columns = {
            key: [row and replace(row, per_step_ns=None) for row in rows]
            for key, rows in columns.items()
            if key.group != "step" and (key.group != "budget" or key.detail == WHOLE_RUN)
        }
    if any(run.steps < 0 or not _is_possible(asdict(run.setup).values()) for run in stored.runs):
        raise ValueError("a figure of a run is below 0 or too large")
    return Side(
        stored.name,
        tuple(
            RunFigures(
                run.label,
                run.setup,
                {key: row for key, rows in columns.items() if (row := rows[number])},
                run.steps if same else 0,
                run.left_out,
                loop=run.loop if same else "",
            )
            for number, run in enumerate(stored.runs)
        ),
        stored.nsyswrap,
        other_steps=not same,
    )


def _rows(stored: _StoredRow, runs: int) -> list[RowFigures | None]:
    figures = (
        *(stored.count, stored.total_ns, stored.error, stored.clock_samples),
        *(stored.typical_ns, stored.per_step_ns, stored.size_bytes, stored.clock_mhz),
        0.0 if stored.group == "total" else stored.mean_error,
    )
    columns = [_of_each(figure, runs) for figure in figures]
    durations = [tuple(_paired(flat)) for flat in stored.durations or [[]] * runs]
    asides = stored.aside or [[]] * runs
    if len(durations) != runs or len(asides) != runs:
        raise ValueError(f"{stored.name!r} has figures of another number of runs than {runs}")
    rows: list[RowFigures | None] = []
    for count, total, error, samples, typical, per_step, size, clock, mean_error, pairs, aside in zip(
        *columns, durations, asides, strict=True
    ):
        known = (typical, float(error or 0), per_step, size, clock, int(samples or 0), pairs, mean_error)
        aside_steps = _aside(aside) if aside else None
        rows.append(None if count is None else RowFigures(count, float(total or 0), *known, aside_steps))
    return rows


def _of_each(value: Any, runs: int) -> list[Any]:  # noqa: ANN401 - Counts or Figures
    values = value if isinstance(value, list) else [value] * runs
    if len(values) != runs:
        raise ValueError(f"a row has figures of {len(values)} runs, not of {runs}")
    if not _is_possible(values):
        raise ValueError("a figure of a row is below 0 or too large")
    return values


def _is_possible(values: Iterable[object]) -> bool:
    """Return True if all numbers are 0 or more, and none is larger than a time in ns can be."""
    return all(0 <= value <= _LARGEST for value in values if isinstance(value, (int, float)))


def _aside(values: Sequence[float]) -> ExcludedSteps:
    if len(values) != len(ExcludedSteps._fields) or not _is_possible(values):
        raise ValueError("warm-up and outliers without a number or a time")
    return ExcludedSteps(int(values[0]), values[1], int(values[2]), values[3])


def _paired(flat: Sequence[int]) -> Iterator[tuple[int, int]]:
    if len(flat) % 2:
        raise ValueError("durations without a count")
    if not _is_possible(flat):
        raise ValueError("a duration or its count is below 0")
    return zip(flat[::2], flat[1::2], strict=True)


SCHEMA = Schema(
    "baseline",
    "Baseline",
    Column("group", "Group", f"what the row is: {', '.join(GROUPS)}"),
    Column("name", "Name", "module, kernel, call, copy, range, state or label of the steps"),
    Column("detail", "Detail", "grid and block of a kernel, and its mode if it has several"),
    Column("runs_count", "Runs", "runs that have the row"),
    Column("count", "Count", "median count of a run"),
    Column("typical_ns", "Typical Time", "median over the runs of the typical time of one"),
    Column("spread_percent", "Spread", "(max - min) / median of that time over the runs"),
    Column("total_ns", "Total Time", "median over the runs of the total"),
    Column("per_step_ns", "Time by Step", "median over the runs of the time in a step"),
    Column.number("sm_clock_mhz", "SM Clock", "median SM clock in MHz in its time"),
)


def rows_table(side: Side, names: Mapping[Key, str] | None = None, top: int | None = None) -> Table:
    """Return the rows, those with most time first in each group, at most ``top`` of it.

    ``names`` are for people.
    """
    groups: dict[str, list[dict[str, Any]]] = {group: [] for group in GROUPS}
    for key, rows in side_rows(side).items():
        groups[key.group].append(_figures(key, rows, (names or {}).get(key, key.name)))
    ordered = [sorted(rows, key=lambda row: -row["total_ns"])[:top] for rows in groups.values()]
    return table_of(SCHEMA, [tuple(row.values()) for rows in ordered for row in rows])


def _figures(key: Key, rows: Iterable[RowFigures | None], name: str) -> dict[str, Any]:
    known = [row for row in rows if row]
    return {
        "group": key.group,
        "name": name,
        "detail": key_detail(key) or None,
        "runs_count": len(known),
        "count": round(median(row.count for row in known)),
        "typical_ns": known_median(row.typical_ns for row in known),
        "spread_percent": spread_percent(known),
        "total_ns": known_median(row.total_ns for row in known),
        "per_step_ns": known_median(row.per_step_ns for row in known),
        "sm_clock_mhz": known_median(row.clock_mhz for row in known),
    }


def setup_lines(side: Side) -> list[str]:
    """Return what was run, where, and under which conditions."""
    setups = [run.setup for run in side.runs]
    facts = {
        "command": _if_shared(shlex.join(setup.command) for setup in setups),
        "commit": _if_shared(setup.commit for setup in setups),
        "saved by": side.nsyswrap and f"nsyswrap {side.nsyswrap}",
        "started": min((setup.started for setup in setups if setup.started), default="")[:19],
        "GPU": _if_shared(
            ", ".join(f"{n} x {name}" if n > 1 else name for name, n in Counter(setup.gpus).items())
            for setup in setups
        ),
        "driver": _if_shared(setup.driver for setup in setups),
        "nsys": _if_shared(f"{setup.nsys} {setup.options}".strip() for setup in setups),
        "SM clock": f"{clock:.0f} MHz" if (clock := sm_clock(side)) else "",
        "versions": _if_shared(
            ", ".join(f"{name} {version}" for name, version in sorted(setup.versions.items()))
            for setup in setups
        ),
    }
    return [f"{name:9} {text}" for name, text in facts.items() if text]


def _if_shared(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(filter(None, texts)))
