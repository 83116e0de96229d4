"""What is shown of a baseline: its setup in lines, and its rows with their spread between the runs."""

from __future__ import annotations

import shlex
from collections import Counter
from statistics import median
from typing import TYPE_CHECKING, Any

from nsyswrap.analysis.compare.model import GROUPS
from nsyswrap.base.units import Unit
from nsyswrap.reports.compare.baseline import side_rows, spread_percent
from nsyswrap.reports.compare.tables import key_detail
from nsyswrap.reports.table import Column, Schema, Table, table_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nsyswrap.analysis.compare.model import Key, Row, Side

SCHEMA = Schema(
    "baseline",
    "Baseline",
    (
        Column("group", "Group", Unit.TEXT, f"what the row is: {', '.join(GROUPS)}"),
        Column("name", "Name", Unit.TEXT, "module, kernel, call, copy, range, state or label of the steps"),
        Column("detail", "Detail", Unit.TEXT, "grid and block of a kernel, and its mode if it has several"),
        Column("runs_count", "Runs", Unit.COUNT, "runs that have the row"),
        Column("count", "Count", Unit.COUNT, "median count of a run"),
        Column("typical_ns", "Typical Time", Unit.NS, "median over the runs of the typical time of one"),
        Column("spread_percent", "Spread", Unit.PERCENT, "(max - min) / median of that time over the runs"),
        Column("total_ns", "Total Time", Unit.NS, "median over the runs of the total"),
        Column("per_step_ns", "Time by Step", Unit.NS, "median over the runs of the time in a step"),
        Column("sm_clock_mhz", "SM Clock", Unit.NUMBER, "median SM clock in MHz in its time"),
    ),
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


def _figures(key: Key, rows: Iterable[Row | None], name: str) -> dict[str, Any]:
    known = [row for row in rows if row]
    return {
        "group": key.group,
        "name": name,
        "detail": key_detail(key) or None,
        "runs_count": len(known),
        "count": round(median(row.count for row in known)),
        "typical_ns": _median(row.typical_ns for row in known),
        "spread_percent": spread_percent(known),
        "total_ns": _median(row.total_ns for row in known),
        "per_step_ns": _median(row.per_step_ns for row in known),
        "sm_clock_mhz": _median(row.clock_mhz for row in known),
    }


def setup_lines(side: Side) -> list[str]:
    """Return what was run, where, and under which conditions."""
    setups = [run.setup for run in side.runs]
    facts = {
        "command": _shared(shlex.join(setup.command) for setup in setups),
        "commit": _shared(setup.commit for setup in setups),
        "saved by": side.nsyswrap and f"nsyswrap {side.nsyswrap}",
        "started": min((setup.started for setup in setups if setup.started), default="")[:19],
        "GPU": _shared(
            ", ".join(f"{n} x {name}" if n > 1 else name for name, n in Counter(setup.gpus).items())
            for setup in setups
        ),
        "driver": _shared(setup.driver for setup in setups),
        "nsys": _shared(f"{setup.nsys} {setup.options}".strip() for setup in setups),
        "SM clock": _clock(side),
        "versions": _shared(
            ", ".join(f"{name} {version}" for name, version in sorted(setup.versions.items()))
            for setup in setups
        ),
    }
    return [f"{name:9} {text}" for name, text in facts.items() if text]


def _clock(side: Side) -> str:
    clocks = [run.setup.sm_clock_mhz for run in side.runs if run.setup.sm_clock_mhz]
    return f"{median(clocks):.0f} MHz" if clocks else ""


def _shared(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(filter(None, texts)))


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(median(known)) if known else None
