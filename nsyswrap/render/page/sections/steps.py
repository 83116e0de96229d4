"""The steps: a column for each, stacked by what the GPU did; of a whole capture, equal parts of its time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from nsyswrap.analysis.gpu_operations import MEMCPY, MEMSET
from nsyswrap.analysis.judged_part import whole_parts
from nsyswrap.analysis.step_budget import Budget, budgets_of
from nsyswrap.analysis.steps import steps_of
from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import NotInCapture
from nsyswrap.base.text import shorten
from nsyswrap.base.units import duration, moment, percent
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.selection import process_ids
from nsyswrap.render.colors import REST, state_color
from nsyswrap.render.page.charts import Column, Layer, strip, strip_legend
from nsyswrap.render.page.html import Markup, Section, element, in_parts, joined, missing, section
from nsyswrap.render.page.subject import Subject
from nsyswrap.render.page.tables import folded_table
from nsyswrap.reports.insight.step_budget import OUTLIER, STATE_COLUMNS, STEP
from nsyswrap.reports.wording.states import OTHER_NAME, state_name

_ROWS = 100
_MOST_STRIPS = 4  # of a capture: pairs of a process and a device
_HEIGHTS = (92, 56)  # pixels of the only strip, and of one of several
_MOST_COLUMNS = 200  # more steps share a column
_MOST_LAYERS = 6  # all else that the GPU did is one layer
_HIGHEST = 4  # times the median: longer columns are cut
_LEAST_OTHER = 0.005  # of the time: less is not worth a layer
_MOST_ODD, _MOST_LOOPS, _NAME_WIDTH = 3, 3, 30
_BUSY = [state for state in STATE_COLUMNS if not state.startswith("idle_")]

Owner = tuple[int, int]  # process and device


class _Stretch(NamedTuple):
    """A step, or a part of the time: its name, its start and duration, its busy states, and its mark."""

    name: str
    start_ns: int
    duration_ns: int
    busy_ns: Mapping[str, int]
    mark: str


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
    whole = joined((heading, *_strips(label, times, "Equal parts of the time"), _loops(capture)))
    rows = [row for row in table.records() if row["row"] == STEP]
    if not rows or not subject.is_steady(label):
        return whole
    by_step = _strips(label, _by_owner(rows), "Each step")
    return in_parts(joined((heading, *by_step, _odd(rows), _loops(capture))), whole)


def _by_owner(rows: Sequence[dict[str, Any]]) -> dict[Owner, list[_Stretch]]:
    owners: dict[Owner, list[_Stretch]] = {}
    for row in rows:
        busy = {state: row[STATE_COLUMNS[state]] or 0 for state in _BUSY}
        step = _Stretch(f"step {row['step']:,}", row["start_ns"], row["duration_ns"], busy, row["mark"] or "")
        owners.setdefault((row["process_id"], row["device_id"]), []).append(step)
    return owners


def _time_parts(capture: Capture) -> dict[Owner, list[_Stretch]]:
    """Return equal parts of the time from first to last operation of each process and device."""
    found = {}
    for part in whole_parts(capture):
        start, end = (int(times[at]) for times, at in zip(part.window, (0, -1), strict=True))
        edges = np.unique(np.linspace(start, end, _MOST_COLUMNS + 1).astype(np.int64))
        for budget in budgets_of(part.view, (edges[:-1], edges[1:])):
            process = int(process_ids(np.array([budget.global_pid]))[0])
            found[process, budget.device_id] = list(_of_budget(budget))
    return found


def _of_budget(budget: Budget) -> Iterator[_Stretch]:
    state_ns = {state: budget.state_ns[state].tolist() for state in _BUSY}
    state_ns[MEMCPY] = (budget.state_ns[MEMCPY] + budget.state_ns[MEMSET]).tolist()
    for number, start in enumerate(budget.start_ns.tolist()):
        busy = {state: times[number] for state, times in state_ns.items()}
        yield _Stretch(f"at {moment(start)} s", start, int(budget.duration_ns[number]), busy, "")


def _strips(label: str, owners: Mapping[Owner, list[_Stretch]], title: str) -> Iterator[Markup]:
    """Yield a strip for each process and device, all on one axis, and their legend."""
    drawn = dict(list(owners.items())[:_MOST_STRIPS])
    every = [one for stretches in drawn.values() for one in stretches]
    if not every:
        return
    usual = [one.duration_ns for one in every if not one.mark] or [one.duration_ns for one in every]
    outliers = [one.duration_ns for one in every if one.mark == OUTLIER]
    most = min(max([*usual, *outliers]), _HIGHEST * float(np.median(usual)))
    groups = _groups(every)
    layers = [*(layer for layer, _ in groups), Layer("idle", None)]
    for owner, stretches in drawn.items():
        heading = f"{title}{_of_owner(owner, drawn)}"
        columns = list(_columns(label, stretches, [states for _, states in groups]))
        yield element("h3", heading, element("span", _axis_note(stretches, columns), class_="note"))
        yield strip(heading, columns, layers, most, _HEIGHTS[len(drawn) > 1])
        ends = (element("span", stretches[at].name) for at in (0, -1))
        yield element("div", *ends, class_="ends-of", aria_hidden="true")
    yield strip_legend(layers)


def _axis_note(stretches: Sequence[_Stretch], columns: Sequence[Column]) -> str:
    width = -(-len(stretches) // len(columns))
    each = f"; a column is the longest of {width} steps" if width > 1 else ""
    return f"from 0, linear{each}"


def _of_owner(owner: Owner, every: Mapping[Owner, object]) -> str:
    process, device = owner
    text = f" on GPU {device}" if len({one for _, one in every}) > 1 else ""
    several = len({one for one, _ in every}) > 1 and process not in (MISSING, None)
    return f"{text}, process {process}" if several else text


def _groups(every: Sequence[_Stretch]) -> list[tuple[Layer, list[str]]]:
    """Return the layers of busy time, the largest first, and the states that each of them has."""
    totals = {state: sum(one.busy_ns[state] for one in every) for state in _BUSY}
    order = sorted((state for state in _BUSY if totals[state]), key=lambda state: -totals[state])
    least = _LEAST_OTHER * sum(totals.values())
    large = [state for state in order[:_MOST_LAYERS] if totals[state] >= least]
    groups = [(Layer(state_name(state), state_color(state)), [state]) for state in large]
    rest = order[len(large) :]
    return groups + ([(Layer(OTHER_NAME, REST), rest)] if rest else [])


def _columns(label: str, stretches: Sequence[_Stretch], groups: Sequence[Sequence[str]]) -> Iterator[Column]:
    """Yield a column for each stretch, or for the longest of several neighbors."""
    for part in np.array_split(np.arange(len(stretches)), min(len(stretches), _MOST_COLUMNS)):
        one = max((stretches[i] for i in part.tolist()), key=lambda stretch: stretch.duration_ns)
        layers = [sum(one.busy_ns[state] for state in states) for states in groups]
        idle = max(one.duration_ns - sum(layers), 0)
        first, last = stretches[part[0]].name, stretches[part[-1]].name
        of = f", the longest of {first} to {last}" if first != last else ""
        mark = f", {one.mark}" if one.mark else ""
        busy = percent(100 * sum(layers) / max(one.duration_ns, 1))
        yield Column(
            f"{one.name}{mark}{of}: {duration(one.duration_ns)}, GPU busy {busy}",
            one.duration_ns,
            [*layers, idle],
            bool(one.mark),
            {
                "data_label": label,
                "data_start": str(one.start_ns),
                "data_length": str(one.duration_ns),
                "data_name": one.name,
            },
        )


def _odd(rows: Sequence[dict[str, Any]]) -> Markup | None:
    """Return which steps are odd, and why: the longest of each kind."""
    kinds: dict[str, dict[int, int]] = {}
    for row in rows:
        if row["mark"]:
            kinds.setdefault(row["mark"], {})[row["step"]] = row["duration_ns"]
    texts = []
    for mark, found in sorted(kinds.items(), key=lambda kind: kind[0] != "outlier"):
        longest = sorted(found, key=lambda step: -found[step])[:_MOST_ODD]
        named = ", ".join(f"{step:,} ({duration(found[step])})" for step in sorted(longest))
        more = f" and {len(found) - len(longest):,} more" if len(found) > len(longest) else ""
        texts.append(f"{mark}: step {named}{more}")
    return element("p", f"Outlined: {'; '.join(texts)}.", class_="note odd-steps") if texts else None


def _loops(capture: Capture) -> Markup | None:
    """Return the other loops of the program, and the first step of the main one that each of them follows."""
    texts = []
    for judged in steps_of(capture):
        for other in judged.others[:_MOST_LOOPS]:
            after = int(np.searchsorted(judged.start_ns, other.start_ns[0], "right")) - 1 + judged.first
            where = f"first after step {after:,}" if after >= judged.first else "before the first step"
            name = shorten(other.label, _NAME_WIDTH)
            texts.append(f"'{name}' {len(other):,} x {duration(float(np.mean(other.duration_ns)))}, {where}")
    return element("p", f"Other loops: {'; '.join(texts)}.", class_="note") if texts else None


SECTION = Section("steps", "Steps", steps, of_gpu=True)
