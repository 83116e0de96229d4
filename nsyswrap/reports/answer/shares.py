"""Percentages that add up: of the time judged, by what the GPU did and why it was idle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nsyswrap.reports.wording.states import OTHER_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nsyswrap.analysis.answer import Answer

_LEAST_PERCENT = 1.0  # smaller shares are summed
_ALL = 100


@dataclass(frozen=True)
class Shares:
    """Shares of the time judged in whole units, ``units`` of which are all of it; parts add up to totals.

    ``busy_parts`` and ``idle_parts`` hold the shares of 1 % or more, the largest first, then the sum of the
    others as "other".
    """

    units: int
    busy: int
    idle: int
    busy_parts: Mapping[str, int]
    idle_parts: Mapping[str, int]

    def text(self, units: int) -> str:
        """Return a share as a percentage, without the sign."""
        return f"{units}" if self.units == _ALL else f"{_ALL * units / self.units:.1f}"

    def part(self, units: int) -> float:
        """Return a share as a part of 1."""
        return units / self.units


def shares_of(answer: Answer) -> Shares:
    """Return the shares of an answer with GPU work.

    They are whole percentages; tenths if the GPU was busy or idle for less than 1 %.
    """
    busy, idle = (sum(times.values()) for times in (answer.busy_ns, answer.idle_ns))
    units = _ALL
    if 0 < _ALL * min(busy, idle) < _LEAST_PERCENT * answer.window_ns:
        units *= 10
    totals = apportioned({"busy": busy, "idle": idle}, units)
    for name, other in (("busy", "idle"), ("idle", "busy")):
        if not totals[name] and (busy if name == "busy" else idle):  # what is there does not read 0.0 %
            totals = {name: 1, other: units - 1}
    parts = (
        _parts(times, answer.window_ns, totals[name])
        for name, times in (("busy", answer.busy_ns), ("idle", answer.idle_ns))
    )
    return Shares(units, totals["busy"], totals["idle"], *parts)


def apportioned(times: Mapping[str, int], units: int) -> dict[str, int]:
    """Split whole units in proportion to times, so that they add up; the largest remainders get the rest."""
    total = sum(times.values())
    if not total:
        return dict.fromkeys(times, 0)
    exact = {name: ns * units / total for name, ns in times.items()}
    split = {name: int(value) for name, value in exact.items()}
    rest = units - sum(split.values())
    for name in sorted(exact, key=lambda name: split[name] - exact[name])[:rest]:
        split[name] += 1
    return split


def merged(parts: Mapping[str, int]) -> dict[str, int]:
    """Return parts with the smallest named one added to "other"."""
    *kept, last = (name for name in parts if name != OTHER_NAME)
    return {**{name: parts[name] for name in kept}, OTHER_NAME: parts.get(OTHER_NAME, 0) + parts[last]}


def _grouped(times: Mapping[str, int], window_ns: int) -> dict[str, int]:
    """Return times with those under 1 % summed; the largest keeps its name. ``times`` are in order."""
    shown = {name: ns for name, ns in times.items() if _ALL * ns >= _LEAST_PERCENT * window_ns}
    if not shown:
        shown = dict(list(times.items())[:1])
    rest = sum(times.values()) - sum(shown.values())
    return {**shown, OTHER_NAME: rest} if rest else shown


def _parts(times: Mapping[str, int], window_ns: int, units: int) -> dict[str, int]:
    split = apportioned(_grouped(times, window_ns), units)
    return {name: count for name, count in split.items() if count}
