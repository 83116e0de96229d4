"""OpenMetrics 1.0 text, for Prometheus: base units, counters with ``_total``, ``# EOF``.

The value of several runs is their median; two gauges have the least and the largest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.base.units import NS_PER_S, Unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nsyswrap.reports.runs.metrics import Family, Labels, Metrics

_PREFIX = "nsyswrap"
# The base unit of a unit, and what a value is divided by.
_BASE = {Unit.NS: ("seconds", NS_PER_S), Unit.BYTES: ("bytes", 1), Unit.RATIO: ("ratio", 1)}


def render(metrics: Metrics) -> str:
    """Return the exposition."""
    lines = [line for family in metrics.families for line in _family(family)]
    return "\n".join([*_head(metrics), *lines, "# EOF", ""])


def _head(metrics: Metrics) -> Iterator[str]:
    if metrics.info:
        yield from _metadata(f"{_PREFIX}_profile", "info", "", "what is equal in all runs")
        yield f"{_PREFIX}_profile_info{_labels(metrics.info)} 1"
    yield from _metadata(f"{_PREFIX}_runs", "gauge", "", "number of runs; other values are their medians")
    yield f"{_PREFIX}_runs {metrics.runs}"


def _family(family: Family) -> Iterator[str]:
    unit, divisor = _BASE.get(family.unit, ("", 1))
    medians = [(one.labels, one.median / divisor) for one in family.samples]
    suffix = "_total" if family.kind == "counter" else ""
    name = "_".join(filter(None, (_PREFIX, family.name, unit)))
    yield from _metadata(name, family.kind, unit, family.help)
    yield from _samples(f"{name}{suffix}", medians)
    if all(len(one.values) == 1 for one in family.samples):
        return
    for end, choose in (("min", min), ("max", max)):
        ends = [(one.labels, choose(one.values) / divisor) for one in family.samples]
        name = "_".join(filter(None, (_PREFIX, family.name, end, unit)))
        yield from _metadata(name, "gauge", unit, f"{family.help}: {end} of the runs")
        yield from _samples(name, ends)


def _metadata(name: str, kind: str, unit: str, text: str) -> Iterator[str]:
    yield f"# TYPE {name} {kind}"
    if unit:
        yield f"# UNIT {name} {unit}"
    yield f"# HELP {name} {_escaped(text)}"


def _samples(name: str, values: Iterable[tuple[Labels, float]]) -> Iterator[str]:
    for labels, value in values:
        yield f"{name}{_labels(labels)} {int(value) if value.is_integer() else value!r}"


def _labels(labels: Labels) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)
    return f"{{{pairs}}}" if pairs else ""


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
