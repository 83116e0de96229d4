"""Text for other programs: the metrics of runs, and GPU time as folded stacks for flame graphs.

Each format of metrics is a function and a line in ``FORMATS``. The value of several runs is their median.

A folded stack is ``root;child;kernel 1200``, which speedscope and flame graph scripts read. The frames are
the names of the range tree, then ``(backward)`` for kernels of a backward pass, then the kernel. The numbers
are ns and add up to the time of all kernels.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from nsyswrap.analysis.kernel_names import distinct_names
from nsyswrap.analysis.range_texts import BACKWARD
from nsyswrap.analysis.range_tree.figures import node_kernels_of
from nsyswrap.base.constants import NS_PER_S
from nsyswrap.base.text import printable
from nsyswrap.base.units import Unit
from nsyswrap.base.version import version
from nsyswrap.capture.capture import Capture

if TYPE_CHECKING:
    from nsyswrap.reports.runs.metrics import Family, Labels, Metrics, MetricSample


_PREFIX = "nsyswrap"
# The base unit of a unit, and what a value is divided by.
_BASE = {Unit.NS: ("seconds", NS_PER_S), Unit.BYTES: ("bytes", 1), Unit.RATIO: ("ratio", 1)}
# What github-action-benchmark draws: the unit, and what a value is divided by.
_UNITS = {Unit.NS: ("us", 1e3), Unit.BYTES: ("bytes", 1.0), Unit.COUNT: ("count", 1.0)}
_PERCENT = 100.0
_BUSY = "gpu_busy"  # larger is better, so its opposite is written

_OUTSIDE, _BACKWARD, _UNNAMED = "(no range)", "(backward)", "(no name)"


def openmetrics(metrics: Metrics) -> str:
    """Return OpenMetrics 1.0 text, for Prometheus: base units, counters with ``_total``, ``# EOF``.

    Two gauges have the least and the largest value of several runs.
    """
    lines = [line for family in metrics.families for line in _family_lines(family)]
    return "\n".join([*_head(metrics), *lines, "# EOF", ""])


def _head(metrics: Metrics) -> Iterator[str]:
    if metrics.info:
        yield from _metadata(f"{_PREFIX}_profile", "info", "", "what is equal in all runs")
        yield f"{_PREFIX}_profile_info{_labels(metrics.info)} 1"
    yield from _metadata(f"{_PREFIX}_runs", "gauge", "", "number of runs; other values are their medians")
    yield f"{_PREFIX}_runs {metrics.runs}"


def _family_lines(family: Family) -> Iterator[str]:
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


def github_benchmark(metrics: Metrics) -> str:
    """Return JSON for github-action-benchmark with ``tool: customSmallerIsBetter``.

    It is a list of names, units and values. Half of the distance between least and largest is the ``range``.
    The unit of a figure never changes, so that values of all commits can be drawn in one chart.
    """
    made_by = f"nsyswrap {version()}"
    entries = [_entry(family, sample, made_by) for family in metrics.families for sample in family.samples]
    return json.dumps(entries, indent=1, ensure_ascii=False) + "\n"


def _entry(family: Family, sample: MetricSample, made_by: str) -> dict[str, str | float]:
    """Return one entry. Its name is the same for all commits; ``made_by`` ends the remarks."""
    labels = ", ".join(value for _, value in sample.labels)
    name, values = family.name.replace("_", " ").replace("gpu", "GPU"), sample.values
    if family.name == _BUSY:
        name, unit = "GPU idle", "percent"
        values = tuple(_PERCENT * (1.0 - value) for value in values)
    else:
        unit, divisor = _UNITS[family.unit]
        values = tuple(value / divisor for value in values)
    middle = type(sample)((), values).median
    entry: dict[str, str | float] = {"name": f"{name}: {labels}" if labels else name, "unit": unit}
    entry["value"] = int(middle) if middle.is_integer() else middle
    remarks = [made_by]
    if len(values) > 1:
        least, largest = min(values), max(values)
        entry["range"] = f"± {(largest - least) / 2:.4g}"
        remarks = [f"median of {len(values)} runs", f"min {least:.6g}", f"max {largest:.6g}", made_by]
    entry["extra"] = "\n".join(remarks)
    return entry


FORMATS = {"openmetrics": openmetrics, "github-benchmark": github_benchmark}


def folded(captures: Sequence[Capture], labels: Sequence[str]) -> str:
    """Return the stacks of all captures, sorted. Labels that are not empty are the outermost frames."""
    sums: dict[str, int] = {}
    for capture, label in zip(captures, labels, strict=True):
        for stack, ns in _stacks(capture, label):
            sums[stack] = sums.get(stack, 0) + ns
    return "".join(f"{stack} {ns}\n" for stack, ns in sorted(sums.items()) if ns)


def _stacks(capture: Capture, label: str) -> Iterable[tuple[str, int]]:
    found = node_kernels_of(capture)
    readable = distinct_names({name for name in found.names if name})
    columns = (found.node, found.phase, found.name, found.total_ns)
    for node, phase, name, ns in zip(*(column.tolist() for column in columns), strict=True):
        frames = [label] if label else []
        frames += found.tree.path(node) or (_OUTSIDE,)
        frames += [_BACKWARD] if phase == BACKWARD else []
        kernel = found.names[name]
        frames.append(readable[kernel] if kernel else _UNNAMED)
        yield ";".join(map(_frame, frames)), ns


def _frame(name: str) -> str:
    return printable(name).replace(";", ",").strip() or _UNNAMED
