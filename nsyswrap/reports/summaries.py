"""Group GPU operations, API calls and NVTX ranges by name, as nsys' time summaries do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import PART, ascending, group_keys, grouped, number_texts, rank_texts
from nsyswrap.analysis.names import MEMSET_NAME, copy_name
from nsyswrap.analysis.nvtx_ranges import READS, STYLES, counted_ranges
from nsyswrap.analysis.packed import packed_events, packed_names
from nsyswrap.base.constants import MISSING
from nsyswrap.base.records import dataclass
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.schema import SPANS
from nsyswrap.capture.stream import Columns, looked_up, narrow
from nsyswrap.reports.table import Column, Result, Values, share, stat_values, time_columns

MEMORY = ("memcpy", "memset")
NVTX_RANGE = Column("range", "Range", "domain and name of the range")
NVTX_READS = {"nvtx": READS["nvtx"]}
NVTX_TIMES = time_columns(Column.count("instances", "Instances", "number of ranges of this name"))


@dataclass(frozen=True)
class GroupedRows:
    """Rows with a group code each. ``labels[code]`` names the group. Equal rows are ordered by code."""

    codes: NDArray[Any]
    labels: list[str | None]
    values: NDArray[Any]


def kernels(capture: Capture) -> GroupedRows:
    """Return kernels by name, with their durations in ns."""
    return GroupedRows(*packed_names(capture, "kernel"), packed_events(capture, "kernel").duration_ns)


def memory_operations(capture: Capture, value: str = "duration") -> GroupedRows:
    """Return copies by direction and memsets with nsys' labels, and durations in ns or ``bytes``.

    As in nsys, copies whose kind has no label are left out.
    """
    parts: list[tuple[NDArray[Any], list[str], NDArray[Any]]] = []
    if capture.has("memcpy"):
        kinds = _memory(capture, "memcpy", value)["copy_kind"]
        named = capture.labels("copy_kind")
        known = np.isin(kinds, list(named))
        labels = [copy_name(named[int(kind)]) for kind in ascending(kinds[known])]
        parts.append((kinds[known], labels, _memory(capture, "memcpy", value)[value][known]))
    if capture.has("memset"):
        measured = _memory(capture, "memset", value)[value]
        parts.append((np.zeros_like(measured), [MEMSET_NAME], measured))
    return _pool([GroupedRows(*number_texts(ids, labels), values) for ids, labels, values in parts])


def memory_notes(capture: Capture) -> tuple[str, ...]:
    """Return the notes on the labels of ``memory_operations``."""
    return capture.notes_on_labels("copy_kind") if capture.has("memcpy") else ()


def api_calls(capture: Capture) -> GroupedRows:
    """Return API calls by name, with their durations in ns."""
    return GroupedRows(*packed_names(capture, "api"), packed_events(capture, "api").duration_ns)


def gpu_operations(capture: Capture) -> list[tuple[str, GroupedRows]]:
    """Return kernels and memory operations with their durations in ns, under nsys' categories."""
    parts = [("CUDA_KERNEL", kernels(capture))] if capture.has("kernel") else []
    return [*parts, ("MEMORY_OPER", memory_operations(capture))]


def pooled(parts: Sequence[tuple[str, GroupedRows]]) -> tuple[GroupedRows, list[str]]:
    """Put categories into one grouping by label, and return the category of each label.

    As in nsys, a label of several categories gets that of its longest row, of the first if several are.
    """
    owners: dict[str | None, list[tuple[str, GroupedRows]]] = {}
    for category, part in parts:
        for label in part.labels:
            owners.setdefault(label, []).append((category, part))
    rows = _pool([part for _, part in parts])
    return rows, [_owner(owners[label], label) for label in rows.labels]


def time_summary(rows: GroupedRows, count: str, label: str) -> dict[str, Values]:
    """Return the columns that all of nsys' time summaries have. ``count`` and ``label`` name two of them."""
    stats = grouped(rows.codes, rows.values, len(rows.labels))
    return {
        "time_percent": share(stats.total),
        "total_ns": stats.total,
        count: stats.count,
        **stat_values(stats),
        label: rows.labels,
    }


def _owner(owners: Sequence[tuple[str, GroupedRows]], label: str | None) -> str:
    def longest(owner: tuple[str, GroupedRows]) -> int:
        part = owner[1]
        return int(part.values[part.codes == part.labels.index(label)].max())

    return (owners[0] if len(owners) == 1 else max(owners, key=longest))[0]


def _memory(capture: Capture, kind: str, value: str) -> Columns:
    """Return ``value`` of copies or memsets, and all that other reports will ask for."""
    needed = {*(SPANS if value == "duration" else (value,)), *(("copy_kind",) if kind == "memcpy" else ())}
    wanted = (f for f in ("copy_kind", "bytes", *SPANS) if f in needed or capture.expects(kind, f))
    return _packed(capture, kind, tuple(wanted))


@per_capture
def _packed(capture: Capture, kind: str, fields: tuple[str, ...]) -> Columns:
    """Return fields in few bytes a row, with the selected durations in place of the times."""

    def pack(columns: Columns) -> Columns:
        packed = {field: narrow(columns[field]) for field in fields if field not in SPANS}
        return packed | ({"duration": narrow(columns["end_ns"] - columns["start_ns"])} if timed else {})

    timed = set(fields) >= set(SPANS)
    packed = capture.stream(kind, fields, pack)
    return packed | (
        {"duration": capture.durations(kind)} if timed and capture.view.selection.narrows else {}
    )


def _pool(groups: Sequence[GroupedRows]) -> GroupedRows:
    """Put groups of several kinds into one, by label. Labels without rows are left out."""
    labels = [label for group in groups for label in group.labels]
    present = np.concatenate([np.empty(0, bool), *map(_present, groups)])
    known = np.flatnonzero(present)
    ranks, ordered = rank_texts(np.arange(len(known)), [labels[i] for i in known.tolist()])
    rank = np.zeros(len(labels), np.min_scalar_type(len(ordered)))
    rank[known] = ranks
    if not groups:
        return GroupedRows(np.empty(0, np.int64), [], np.empty(0, np.int64))
    parts = np.split(rank, np.cumsum([len(group.labels) for group in groups])[:-1])
    codes = [looked_up(part, group.codes) for part, group in zip(parts, groups, strict=True)]
    return GroupedRows(np.concatenate(codes), ordered, np.concatenate([group.values for group in groups]))


def _present(group: GroupedRows) -> NDArray[Any]:
    """Mark the labels of a group that have rows."""
    marks = np.zeros(len(group.labels), bool)
    for at in range(0, len(group.codes), PART):
        marks[group.codes[at : at + PART].astype(np.intp)] = True
    return marks


def nvtx_times(capture: Capture, types: tuple[int, ...]) -> Result:
    """Return the times of the ranges of some event types, by name and style."""
    ranges = counted_ranges(capture, types)
    codes, (name, style) = group_keys(ranges.code, ranges.style)
    ended = ranges.spans.end != MISSING
    durations = (ranges.spans.end - ranges.spans.start)[ended]
    stats = grouped(codes[ended], durations, len(name))
    data: dict[str, Values] = {
        "time_percent": share(stats.total),
        "total_ns": np.where(stats.count == 0, MISSING, stats.total),
        "instances": np.bincount(codes, minlength=len(name)),
        **stat_values(stats),
        "style": [STYLES[i] for i in style.tolist()],
        "range": ranges.labels(name),
    }
    return Result(data, ranges.notes)
