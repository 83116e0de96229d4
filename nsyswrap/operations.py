"""What the reports share: operations on the GPU and API calls, with group codes and durations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.report import share, stat_values
from nsyswrap.stats import grouped, number_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nsyswrap.capture import Capture
    from nsyswrap.report import Values

MEMSET = "[CUDA memset]"


@dataclass(frozen=True)
class Grouped:
    """Rows with a group code each; ``labels[code]`` names it. Of equal rows the lower code comes first."""

    codes: NDArray[Any]
    labels: list[str | None]
    values: NDArray[Any]


def kernels(capture: Capture) -> Grouped:
    """Kernels by name, with their durations in ns."""
    codes, labels = name_codes(capture, "kernel")
    return Grouped(codes, labels, durations(capture, "kernel"))


def memory_operations(capture: Capture, value: str = "duration") -> Grouped:
    """Copies by direction and memsets, as nsys labels them, with durations in ns or ``bytes``.

    Copies whose kind has no label are left out, as nsys does.
    """
    parts: list[tuple[NDArray[Any], list[str], NDArray[Any]]] = []
    if capture.has("memcpy"):
        kinds = capture.columns("memcpy", "copy_kind")["copy_kind"]
        named = capture.labels("copy_kind")
        known = np.isin(kinds, list(named))
        labels = [f"[CUDA memcpy {named[int(kind)]}]" for kind in np.unique(kinds[known])]
        parts.append((kinds[known], labels, _measure(capture, "memcpy", value)[known]))
    if capture.has("memset"):
        measured = _measure(capture, "memset", value)
        parts.append((np.zeros_like(measured), [MEMSET], measured))
    return _pool([Grouped(*number_texts(ids, labels), values) for ids, labels, values in parts])


def gpu_operations(capture: Capture) -> tuple[Grouped, list[str]]:
    """Kernels and memory operations together, with durations, and the category of each label."""
    memory = memory_operations(capture)
    pooled = _pool([kernels(capture), memory]) if capture.has("kernel") else memory
    memory_labels = set(memory.labels)
    return pooled, ["MEMORY_OPER" if label in memory_labels else "CUDA_KERNEL" for label in pooled.labels]


def time_summary(rows: Grouped, count: str, label: str) -> dict[str, Values]:
    """Return the columns all of nsys' time summaries have; ``count`` and ``label`` name two of them."""
    stats = grouped(rows.codes, rows.values, len(rows.labels))
    return {
        "time_percent": share(stats.total),
        "total_ns": stats.total,
        count: stats.count,
        **stat_values(stats),
        label: rows.labels,
    }


def durations(capture: Capture, kind: str) -> NDArray[Any]:
    """Return end - start of every event, in ns."""
    span = capture.columns(kind, "start_ns", "end_ns")
    return span["end_ns"] - span["start_ns"]  # type: ignore[no-any-return]


def name_codes(capture: Capture, kind: str) -> tuple[NDArray[Any], list[str | None]]:
    """Return a code per event and the name of each code, in the names' order."""
    ids = capture.name_ids(kind)
    return number_texts(ids, [capture.text(int(i)) for i in np.unique(ids)])


def strip_version(name: str | None) -> str | None:
    """Cut a version suffix of four digits off an API name, as nsys does: cudaLaunchKernel_v7000."""
    return name[:-6] if name is not None and name[-6:-4] == "_v" else name


def _measure(capture: Capture, kind: str, value: str) -> NDArray[Any]:
    return durations(capture, kind) if value == "duration" else capture.columns(kind, value)[value]


def _pool(groups: Sequence[Grouped]) -> Grouped:
    """Put groups of several kinds into one, by label."""
    labels = [label for group in groups for label in group.labels]
    offsets = np.cumsum([0] + [len(group.labels) for group in groups])
    ids = np.concatenate(
        [np.empty(0, np.int64)] + [g.codes + o for g, o in zip(groups, offsets[:-1], strict=True)]
    )
    values = np.concatenate([np.empty(0, np.int64)] + [group.values for group in groups])
    used = np.unique(ids)
    codes, distinct = number_texts(ids, [labels[int(i)] for i in used])
    return Grouped(codes, distinct, values)
