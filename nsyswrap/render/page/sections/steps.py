"""The steps: a column for each, stacked by what the GPU did; of a whole capture, equal parts of its time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import ascending
from nsyswrap.analysis.gpu_operations import MEMCPY, MEMSET
from nsyswrap.analysis.judged_process import whole_processes
from nsyswrap.analysis.step_budget import TimeBreakdown, budgets_of
from nsyswrap.analysis.steps import steps_of
from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import NotInCapture
from nsyswrap.base.text import first_of, shorten
from nsyswrap.base.units import duration, percent
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.selection import process_ids
from nsyswrap.render.colors import REST, state_color
from nsyswrap.render.page.html import (
    ChartColumn,
    Layer,
    Markup,
    Subject,
    element,
    folded_table,
    in_parts,
    joined,
    missing,
    section,
    strip,
    strip_legend,
)
from nsyswrap.reports.insight.step_budget import OUTLIER, STATE_COLUMNS, STEP
from nsyswrap.reports.wording.states import OTHER_NAME, state_name

_ROWS = 100
_MOST_STRIPS = 4  # of a capture: pairs of a process and a device
_HEIGHTS = (92, 56)  # pixels of the only strip, and of one of several
_MOST_COLUMNS = 200  # more steps share a column
_MOST_LAYERS = 6  # all else that the GPU did is one layer
_HIGHEST = 4  # times the median: longer columns are cut
_UNDERLINED = "; underlined: shown in the timeline"
_NS_PER_S = 1_000_000_000
_LEAST_OTHER = 0.005  # of the time: less is not worth a layer
_MOST_LOOPS, _MOST_MARKS, _NAME_WIDTH = 3, 20, 30
_BUSY = [state for state in STATE_COLUMNS if not state.startswith("idle_")]

Owner = tuple[int, int]  # process and device


class _Stretch(NamedTuple):
    """A step, or a part of the time: its name, its start and duration, its busy states, and its mark.

    ``step`` is the number of a step; it is empty for a part of the time.
    """

    name: str
    start_ns: int
    duration_ns: int
    busy_ns: Mapping[str, int]
    mark: str = ""
    step: str = ""


def steps(subject: Subject) -> Markup:
    """Return the strips of each capture, and the table of its steps."""
    table = subject.table("step_budget")
    return section(
        "steps",
        "Steps",
        *(_capture(subject, label) for label in subject.captures),
        folded_table(table, top=_ROWS) if table is not None else None,
        missing(subject.missing("step_budget")),
    )


def _capture(subject: Subject, label: str) -> Markup | None:
    """Return the strips of the steps, and those of the whole time, of which one is seen."""
    capture, table = subject.captures[label], subject.tables("step_budget").get(label)
    if table is None:
        return None
    try:
        times = _time_parts(capture)
    except NotInCapture:
        times = {}
    heading = element("h3", label) if subject.several else None
    loops = _loops(capture)
    whole = joined((heading, *_strips(label, times, "Equal parts of the time", loops)))
    rows = [row for row in table.records() if row["row"] == STEP]
    if not rows or not subject.is_steady(label):
        return whole
    return in_parts(joined((heading, *_strips(label, _by_owner(rows), "Each step", loops))), whole)


def _by_owner(rows: Sequence[dict[str, Any]]) -> dict[Owner, list[_Stretch]]:
    owners: dict[Owner, list[_Stretch]] = {}
    for row in rows:
        busy = {state: row[STATE_COLUMNS[state]] or 0 for state in _BUSY}
        number, at, took = f"{row['step']:,}", row["start_ns"], row["duration_ns"]
        step = _Stretch(f"step {number}", at, took, busy, row["mark"] or "", number)
        owners.setdefault((row["process_id"], row["device_id"]), []).append(step)
    return owners


def _time_parts(capture: Capture) -> dict[Owner, list[_Stretch]]:
    """Return equal parts of the time from first to last operation of each process and device."""
    found = {}
    for part in whole_processes(capture):
        start, end = (int(times[at]) for times, at in zip(part.window, (0, -1), strict=True))
        edges = ascending(np.linspace(start, end, _MOST_COLUMNS + 1).astype(np.int64))
        spans = edges[:-1], edges[1:]
        budgets = budgets_of(part.view, spans, with_idle=False) if len(edges) > 1 else ()
        for budget in budgets:
            process = int(process_ids(np.array([budget.global_pid]))[0])
            found[process, budget.device_id] = list(_of_budget(budget))
        if part.view is not capture:
            part.view.release()  # what was computed of one process alone takes much memory
    return found


def _of_budget(budget: TimeBreakdown) -> Iterator[_Stretch]:
    state_ns = {state: budget.state_ns[state].tolist() for state in _BUSY}
    state_ns[MEMCPY] = (budget.state_ns[MEMCPY] + budget.state_ns[MEMSET]).tolist()
    for number, start in enumerate(budget.start_ns.tolist()):
        busy = {state: times[number] for state, times in state_ns.items()}
        yield _Stretch(f"at {start / _NS_PER_S:.3f} s", start, int(budget.duration_ns[number]), busy)


def _strips(
    label: str, owners: Mapping[Owner, list[_Stretch]], title: str, loops: Mapping[str, NDArray[Any]]
) -> Iterator[Markup]:
    """Yield a strip for each process and device, all on one axis, and their legend."""
    drawn = dict(list(owners.items())[:_MOST_STRIPS])
    first = next(iter(drawn.values()), None)
    every = [one for stretches in drawn.values() for one in stretches]
    if not every:
        return
    usual = [one.duration_ns for one in every if not one.mark] or [one.duration_ns for one in every]
    outliers = [one.duration_ns for one in every if one.mark == OUTLIER]
    most = min(max([*usual, *outliers]), _HIGHEST * float(np.median(usual)))
    groups = _groups(every)
    layers = [*(layer for layer, _ in groups), Layer("idle", None)]
    names: dict[str, None] = {}
    for owner, stretches in drawn.items():
        heading = f"{title}{_of_owner(owner, drawn)}"
        columns = list(_columns(label, stretches, [states for _, states in groups]))
        width = -(-len(stretches) // len(columns))
        note = "from 0, linear" + (f"; a column is the longest of {width} steps" if width > 1 else "")
        note += _UNDERLINED if stretches is first else ""
        yield element("h3", heading, element("span", note, class_="note"))
        columns = _marked(columns, loops)
        names |= dict.fromkeys(column.before for column in columns if column.before)
        yield strip(heading, columns, layers, most, _HEIGHTS[len(drawn) > 1])
    ends = (element("span", every[at].name) for at in (0, -1))
    yield element("div", *ends, class_="ends-of", aria_hidden="true")
    dashed = [f"Dashed: {', '.join(names)}"] if names else []
    marks = _marks(every)
    none = ["No step is an outlier"] if every[0].step and OUTLIER not in marks else []
    yield strip_legend(layers, marks, [*none, *dashed])


def _marked(columns: Sequence[ChartColumn], loops: Mapping[str, NDArray[Any]]) -> list[ChartColumn]:
    """Return the columns with the name of the other loop of which a step begins in front of each."""
    starts = np.array([int(column.data["data_start"]) for column in columns])
    found: dict[int, str] = {}
    for name, times in loops.items():
        places = ascending(np.searchsorted(starts, times, "right"))
        found = {**dict.fromkeys(places[:_MOST_MARKS].tolist(), name), **found}
    return [column._replace(before=found.get(number, "")) for number, column in enumerate(columns)]


def _of_owner(owner: Owner, every: Mapping[Owner, object]) -> str:
    process, device = owner
    text = f" on GPU {device}" if len({one for _, one in every}) > 1 else ""
    several = len({one for one, _ in every}) > 1 and process not in (MISSING, None)
    return f"{text}, process {process}" if several else text


def _groups(every: Sequence[_Stretch]) -> list[tuple[Layer, list[str]]]:
    totals = {state: sum(one.busy_ns[state] for one in every) for state in _BUSY}
    order = sorted((state for state in _BUSY if totals[state]), key=lambda state: -totals[state])
    least = _LEAST_OTHER * sum(totals.values())
    large = [state for state in order[:_MOST_LAYERS] if totals[state] >= least]
    groups = [(Layer(state_name(state), state_color(state)), [state]) for state in large]
    rest = order[len(large) :]
    return groups + ([(Layer(OTHER_NAME, REST), rest)] if rest else [])


def _columns(
    label: str, stretches: Sequence[_Stretch], groups: Sequence[Sequence[str]]
) -> Iterator[ChartColumn]:
    """Yield a column for each stretch, or for the longest of several neighbors."""
    for part in np.array_split(np.arange(len(stretches)), min(len(stretches), _MOST_COLUMNS)):
        one = max((stretches[i] for i in part.tolist()), key=lambda stretch: stretch.duration_ns)
        layers = [sum(one.busy_ns[state] for state in states) for states in groups]
        idle = max(one.duration_ns - sum(layers), 0)
        first, last = stretches[part[0]].name, stretches[part[-1]].name
        of = f", the longest of {first} to {last}" if first != last else ""
        mark = f", {one.mark}" if one.mark else ""
        busy = percent(100 * sum(layers) / max(one.duration_ns, 1))
        yield ChartColumn(
            f"{one.name}{mark}{of}: {duration(one.duration_ns)}, GPU busy {busy}",
            one.duration_ns,
            [*layers, idle],
            one.mark,
            {
                "data_label": label,
                "data_start": str(one.start_ns),
                "data_length": str(one.duration_ns),
                "data_name": one.name,
            },
        )


def _marks(stretches: Sequence[_Stretch]) -> dict[str, str]:
    """Return which steps have each mark, the longest first; outliers come before the others."""
    kinds: dict[str, dict[str, int]] = {}
    for one in stretches:
        if one.mark:
            kinds.setdefault(one.mark, {})[one.step] = one.duration_ns
    texts = {}
    for mark, found in sorted(kinds.items(), key=lambda kind: kind[0] != OUTLIER):
        longest = sorted(found.items(), key=lambda step: -step[1])
        texts[mark] = f"{mark}: step {first_of([f'{step} ({duration(ns)})' for step, ns in longest])}"
    return texts


def _loops(capture: Capture) -> dict[str, NDArray[Any]]:
    """Return the starts of all steps of the loops beside the one that is judged, by their names."""
    others = [other for judged in steps_of(capture) for other in judged.others[:_MOST_LOOPS]]
    return {shorten(other.label.short, _NAME_WIDTH): other.start_ns for other in others}
