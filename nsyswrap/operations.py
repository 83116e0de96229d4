"""What the reports share: operations on the GPU and API calls, with group codes and durations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.base.missing import MISSING
from nsyswrap.columns import share, stat_values
from nsyswrap.schema import ID_MASK, PID_SHIFT
from nsyswrap.stats import distinct, group_keys, grouped, number_texts, text_codes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
        labels = [copy_name(named[int(kind)]) for kind in np.unique(kinds[known])]
        parts.append((kinds[known], labels, _measure(capture, "memcpy", value)[known]))
    if capture.has("memset"):
        measured = _measure(capture, "memset", value)
        parts.append((np.zeros_like(measured), [MEMSET], measured))
    return _pool([Grouped(*number_texts(ids, labels), values) for ids, labels, values in parts])


def api_calls(capture: Capture) -> Grouped:
    """API calls by name, with their durations in ns."""
    codes, labels = name_codes(capture, "api")
    return Grouped(codes, labels, durations(capture, "api"))


def gpu_operations(capture: Capture) -> list[tuple[str, Grouped]]:
    """Kernels and memory operations with their durations, each under nsys' category."""
    parts = [("CUDA_KERNEL", kernels(capture))] if capture.has("kernel") else []
    return [*parts, ("MEMORY_OPER", memory_operations(capture))]


def pooled(parts: Sequence[tuple[str, Grouped]]) -> tuple[Grouped, list[str]]:
    """Put categories into one grouping by label, and return the category of each label.

    A label of several categories gets that of its longest row, of equally long ones that of the first: nsys
    names the group after that row.
    """
    owners: dict[str | None, list[tuple[str, Grouped]]] = {}
    for category, part in parts:
        for label in part.labels:
            owners.setdefault(label, []).append((category, part))
    rows = _pool([part for _, part in parts])
    return rows, [_owner(owners[label], label) for label in rows.labels]


def _owner(owners: Sequence[tuple[str, Grouped]], label: str | None) -> str:
    def longest(owner: tuple[str, Grouped]) -> int:
        part = owner[1]
        return int(part.values[part.codes == part.labels.index(label)].max())

    return (owners[0] if len(owners) == 1 else max(owners, key=longest))[0]


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
    """Return a code per event and the name of each code, in the names' order.

    API calls come without their version suffix; kernels are called as the view says: full, base or mangled,
    with or without the NVTX range before it.
    """
    ids = capture.name_ids(kind)
    codes, names = text_codes(
        ids, capture.text if kind != "api" else lambda i: strip_version(capture.text(i))
    )
    if kind == "kernel" and capture.view.nvtx_names:
        return _in_ranges(capture, codes, names)
    return codes, names


def _in_ranges(
    capture: Capture, codes: NDArray[Any], names: Sequence[str | None]
) -> tuple[NDArray[Any], list[str | None]]:
    """Put the innermost NVTX range around its launch before each kernel's name, where both are known."""
    from nsyswrap.nvtx import kernel_ranges  # noqa: PLC0415 - it uses this module

    ranges, range_names = kernel_ranges(capture)
    pairs, keys = group_keys(ranges, codes)
    texts = [
        f"{range_names[i]}/{names[code]}" if i >= 0 and names[code] is not None else names[code]
        for i, code in zip(*(key.tolist() for key in keys), strict=True)
    ]
    return number_texts(pairs, texts)


def event_names(capture: Capture, kind: str) -> NDArray[Any]:
    """Return the name of every event, as an array of texts."""
    codes, names = name_codes(capture, kind)
    texts: NDArray[Any] = np.array(names, dtype=object)[codes]
    return texts


def look_up(ids: NDArray[Any], text: Callable[[int], str | None]) -> NDArray[Any]:
    """Return the text behind every id, as an array of texts; each id is asked for once."""
    known, positions = distinct(ids)
    texts: NDArray[Any] = np.array([text(i) for i in known.tolist()], dtype=object)[positions]
    return texts


def shapes(capture: Capture, field: str) -> tuple[NDArray[Any], list[str]]:
    """Return a code per kernel and the ``grid`` or ``block`` of each code, as nsys writes it."""
    sizes = capture.columns("kernel", *(f"{field}_{axis}" for axis in "xyz"))
    codes, keys = group_keys(*sizes.values())
    return codes, [
        " ".join(f"{size:4}" for size in shape) for shape in zip(*(key.tolist() for key in keys), strict=True)
    ]


def process_ids(global_ids: NDArray[Any]) -> NDArray[Any]:
    """Return the process id inside each global thread or process id."""
    return np.where(global_ids == MISSING, MISSING, global_ids >> PID_SHIFT & ID_MASK)


def thread_ids(global_tids: NDArray[Any]) -> NDArray[Any]:
    """Return the thread id inside each global thread id."""
    return np.where(global_tids == MISSING, MISSING, global_tids & ID_MASK)


def copy_name(label: str) -> str:
    """Name copies as nsys does: ``[CUDA memcpy Host-to-Device]``."""
    return f"[CUDA memcpy {label}]"


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
    return Grouped(*text_codes(ids, labels.__getitem__), values)
