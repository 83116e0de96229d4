"""What a capture leaves out or open: kernels inside of graphs, ranges without an end, a new format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.diagnostics.check import Diagnosis, counted, marked, ok, unknown, warning
from nsyswrap.base.missing import MISSING
from nsyswrap.capture import schema
from nsyswrap.capture.info import newer_than_known
from nsyswrap.capture.schema import SPANS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture

SUBJECT = GRAPHS = "CUDA graphs"
RANGES, FORMAT = "NVTX ranges", "export format"


def diagnose(capture: Capture) -> Iterator[Diagnosis]:
    """Yield what is known of graphs, of NVTX ranges, and of the nsys that wrote the export."""
    yield _graphs(capture)
    yield _ranges(capture)
    yield _format(capture)


def _graphs(capture: Capture) -> Diagnosis:
    if not (count := capture.count("graph")):
        return ok(GRAPHS, "no whole-graph execution hides kernels")
    times = capture.columns("graph", *SPANS)
    known = (times["start_ns"] != MISSING) & (times["end_ns"] != MISSING)
    total = int((times["end_ns"] - times["start_ns"])[known].sum())
    said = f"{counted('graph', count)} recorded as one each: what ran inside is in no table of kernels"
    return warning(GRAPHS, count, f"{said}; profile with --graphs node to see it", total)


def _ranges(capture: Capture) -> Diagnosis:
    ends = range_ends(capture)
    total, count = len(ends), marked(ends == MISSING)
    if not total:
        return ok(RANGES, "there are none")
    if not count:
        return ok(RANGES, f"each of {total:,} has its end")
    said = f"{count:,} of {total:,} without an end"
    return warning(RANGES, count, f"{said}: nsys' own reports let them last until the last NVTX event")


def range_ends(capture: Capture) -> NDArray[Any]:
    """Return when each NVTX range ended, in ns; MISSING where it did not."""
    if not capture.has("nvtx"):
        return np.empty(0, np.int64)
    events = capture.columns("nvtx", "end_ns", "event_type")
    ranges = np.isin(events["event_type"], (*schema.NVTX_PUSH_POP, *schema.NVTX_START_END))
    ends: NDArray[Any] = events["end_ns"][ranges]
    return ends


def _format(capture: Capture) -> Diagnosis:
    if newer := newer_than_known(capture.info):
        return warning(FORMAT, 1, newer)
    if not capture.info.schema_version:
        return unknown(FORMAT, "does not say which nsys wrote it: one before 2022, or the file was trimmed")
    said = f"written by nsys {capture.info.exporter_version} (schema {capture.info.schema_version})"
    return ok(FORMAT, f"{said}, no newer than those nsyswrap was compared with")
