"""Read the metrics that nsys sampled on each GPU, such as the share of SMs that are active."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nsyswrap.analysis.arrays.groups import rows_by
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.schema import METRIC_GPU

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture

KIND, _NAMES = "gpu_metric", "gpu_metric_name"
_NAME = re.compile(r"(?P<name>.*?)\s*\[(?P<unit>[^\]]*)\]")
_UNITS = {"Throughput %": "%"}
_MHZ, _LEAST_HZ = "MHz", 1_000_000  # nsys samples clocks in Hz, though it names them MHz


class Metric(NamedTuple):
    """The samples of a metric on one GPU in order of time; its unit is empty if nsys names none."""

    gpu: int
    name: str
    unit: str
    times_ns: NDArray[Any]
    values: NDArray[np.float64]


@per_capture
def gpu_metrics_of(whole: Capture) -> list[Metric]:
    """Return the metrics of each GPU in a capture, each in the first of its units; none if not recorded."""
    if not whole.has(KIND) or not whole.has(_NAMES):
        return []
    wanted = _wanted(whole)

    def narrow(block: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        known = np.flatnonzero(np.isin(block["metric_id"], [metric for _, metric in wanted]))
        return {name: values[known] for name, values in block.items()}

    fields = ("start_ns", "value", "type_id", "metric_id")
    time, value, kind, metric = whole.stream(KIND, fields, narrow).values()
    found = []
    for key, rows in rows_by(kind, metric).items():
        if key not in wanted:
            continue
        ordered = rows[np.argsort(time[rows], kind="stable")]
        name, unit = wanted[key]
        values = value[ordered].astype(np.float64)
        if unit == _MHZ and values.max() >= _LEAST_HZ:
            values /= _LEAST_HZ
        found.append(Metric(key[0] & METRIC_GPU, name, unit, time[ordered], values))
    return found


def _wanted(capture: Capture) -> dict[tuple[int, int], tuple[str, str]]:
    """Return name and unit by type and metric id, each name once for each GPU."""
    types, metrics, texts = (
        part.tolist() for part in capture.columns(_NAMES, "type_id", "metric_id", "text").values()
    )
    wanted: dict[tuple[int, str], tuple[tuple[int, int], tuple[str, str]]] = {}
    for kind, metric, text in sorted(zip(types, metrics, texts, strict=True), key=lambda row: row[:2]):
        parts = _NAME.fullmatch(text or "")
        name, unit = parts.group("name", "unit") if parts else (text or f"metric {metric}", "")
        wanted.setdefault((kind, name), ((kind, metric), (name, _UNITS.get(unit, unit))))
    return dict(wanted.values())
