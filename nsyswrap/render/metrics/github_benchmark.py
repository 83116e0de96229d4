"""JSON for github-action-benchmark with ``tool: customSmallerIsBetter``: a list of names, units and values.

The value of several runs is their median, with half of the distance between least and largest as ``range``.
The unit of a figure never changes, so that values of all commits can be drawn in one chart.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from nsyswrap.base.units import Unit
from nsyswrap.base.version import version

if TYPE_CHECKING:
    from nsyswrap.reports.runs.metrics import Family, Metrics, Sample

_UNITS = {Unit.NS: ("us", 1e3), Unit.BYTES: ("bytes", 1.0), Unit.COUNT: ("count", 1.0)}
_PERCENT = 100.0
_BUSY = "gpu_busy"  # larger is better, so its opposite is written


def render(metrics: Metrics) -> str:
    """Return the list as JSON."""
    made_by = f"nsyswrap {version()}"
    entries = [_entry(family, sample, made_by) for family in metrics.families for sample in family.samples]
    return json.dumps(entries, indent=1, ensure_ascii=False) + "\n"


def _entry(family: Family, sample: Sample, made_by: str) -> dict[str, str | float]:
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
