"""The steps: what the GPU did in the median step, as a bar by state, and the duration of every step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from nsyswrap.base.constants import MISSING
from nsyswrap.base.units import duration, percent
from nsyswrap.render.colors import REST, state_color
from nsyswrap.render.page.charts import ColumnBar, Part, columns_picture, stacked_bar
from nsyswrap.render.page.html import Markup, Section, missing, section, verdict_paragraphs
from nsyswrap.render.page.subject import Subject
from nsyswrap.render.page.tables import folded_table
from nsyswrap.reports.insight.step_budget import CAPTURE, MEDIAN, SELECTED, STATE_COLUMNS, STEP
from nsyswrap.reports.wording.states import state_name

Row = dict[str, Any]

_ROWS = 100
_MOST_BARS = 8  # of a capture: pairs of a process and a device
_MOST_COLUMNS = 240  # of a picture; more steps share a column
_SMALL = 0.005  # of the duration: such states are put together


def steps(subject: Subject) -> Markup:
    """Return for each capture the bar of its median step, or of all its time, and its steps."""
    tables = subject.tables("step_budget")
    rows = {label: table.records() for label, table in tables.items()}
    judged = {label: _judged(found) for label, found in rows.items()}
    longest = max((row["duration_ns"] for found in judged.values() for row in found), default=0)
    table = subject.table("step_budget")
    return section(
        "steps",
        "Steps",
        verdict_paragraphs(tables),
        *(part for label in tables for part in _capture(subject, label, rows[label], judged[label], longest)),
        folded_table(table, top=_ROWS) if table is not None else None,
        missing(subject.missing("step_budget")),
    )


def _judged(rows: Sequence[Row]) -> list[Row]:
    """Return the median step of each process and device; without steps, the row of all its time."""
    medians = [row for row in rows if row["row"] == MEDIAN]
    having = {row["process_id"] for row in medians}
    whole = [row for row in rows if row["row"] in (CAPTURE, SELECTED) and row["process_id"] not in having]
    return [*medians, *whole][:_MOST_BARS]


def _capture(
    subject: Subject, label: str, rows: Sequence[Row], judged: Sequence[Row], longest: int
) -> Iterator[Markup]:
    for row in judged:
        title = f"{row['row'].capitalize()}{_number(row)}: {duration(row['duration_ns'])}{_ahead(row)}"
        if len(judged) > 1:
            title += f" on GPU {row['device_id']}, process {row['process_id']}"
        yield stacked_bar(subject.heading(label, title), _parts(row), longest)
    of_process = groupby((row for row in rows if row["row"] == STEP), lambda row: row["process_id"])
    for process, found in of_process:
        once = {row["step"]: row for row in reversed(list(found))}  # devices share the steps of a process
        every = [once[number] for number in sorted(once)]
        owner = f" of process {process}" if process not in (MISSING, None) and len(judged) > 1 else ""
        yield columns_picture(
            subject.heading(label, f"Duration of each step{owner}"),
            list(_columns(label, every)),
            (f"step {every[0]['step']}", f"step {every[-1]['step']}"),
        )


def _number(row: Row) -> str:
    return f" ({row['step']})" if row["row"] == MEDIAN else ""


def _ahead(row: Row) -> str:
    """Return how long the host takes for a step, and how far it runs ahead; empty if it does not."""
    if not row["runs_ahead_ns"]:
        return ""
    return f" (host {duration(row['host_window_ns'])}, runs ahead by {duration(row['runs_ahead_ns'])})"


def _parts(row: Row) -> list[Part]:
    """Return the states of a row, busy before idle, the longest first; small ones are put together."""
    whole = max(row["duration_ns"], 1)
    times = {state: row[column] or 0 for state, column in STATE_COLUMNS.items()}
    large = [state for state, time in times.items() if time >= _SMALL * whole]
    large.sort(key=lambda state: (state.startswith("idle_"), -times[state]))
    rest = sum(time for state, time in times.items() if state not in large)
    parts = [
        Part(_name(state), times[state], percent(100 * times[state] / whole), state_color(state))
        for state in large
    ]
    return parts + ([Part("the rest", rest, percent(100 * rest / whole), REST)] if rest else [])


def _name(state: str) -> str:
    return f"idle: {state_name(state)}" if state.startswith("idle_") else state_name(state)


def _columns(label: str, rows: Sequence[Row]) -> Iterator[ColumnBar]:
    """Yield a column for each step, or for the longest of several neighbors."""
    for part in np.array_split(np.arange(len(rows)), min(len(rows), _MOST_COLUMNS)):
        longest = max((rows[i] for i in part.tolist()), key=lambda row: row["duration_ns"])
        first, last = rows[int(part[0])]["step"], rows[int(part[-1])]["step"]
        of = f", the longest of steps {first} to {last}" if first != last else ""
        mark = f", {longest['mark']}" if longest["mark"] else ""
        text = f"step {longest['step']}{mark}{of}: {duration(longest['duration_ns'])}"
        text += f", GPU busy {percent(100 * longest['busy_ns'] / max(longest['duration_ns'], 1))}"
        text += _ahead(longest)
        yield ColumnBar(
            text,
            longest["duration_ns"],
            "shade-2" if longest["mark"] else "shade-4",
            {
                "data_label": label,
                "data_start": str(longest["start_ns"]),
                "data_length": str(longest["duration_ns"]),
            },
        )


SECTION = Section("steps", "Steps", steps, of_gpu=True)
