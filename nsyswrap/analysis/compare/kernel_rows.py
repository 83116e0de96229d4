"""The rows of the kernels: by full name, grid, block and mode of duration, and whole-graph executions.

One kernel of one grid can have several modes of duration, as a matrix product of several sizes has. A mean
over them would change with the mix of launches. So modes that are clearly apart are rows of their own.
The SM clock of a row is that of the run's samples that fell into the kernels' own time.
"""

from __future__ import annotations

from itertools import islice, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import GroupBy, check_pairs, group_keys, repeated
from nsyswrap.analysis.compare.model import Key
from nsyswrap.analysis.compare.rows import MOST_ROWS, UNNAMED, SteadyWindows, TimedEvents
from nsyswrap.analysis.conditions import gpu_numbers, run_conditions_of
from nsyswrap.analysis.gpu_operations import (
    GRAPH_NAME,
    KERNEL,
    KINDS,
    GpuOperations,
    gpu_operations_of,
    selected_ns,
)
from nsyswrap.analysis.launches import launches_of
from nsyswrap.analysis.names import name_codes, shapes
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture


def kernel_rows(capture: Capture, windows: SteadyWindows) -> dict[Key, dict[str, Any]]:
    """Return the fields of each row. A graph whose nodes are recorded has rows of its kernels."""
    operations = gpu_operations_of(capture)
    mine = operations.of(operations.computes)
    if not len(mine):
        return {}
    names, keys = _keys(capture, mine)
    ns, first = selected_ns(capture, mine), _first(capture, mine, names)
    code, keys, ordered = _with_modes(names, keys, ns, first)
    per_step = windows.per_step(mine.global_pid, mine.start_ns, mine.end_ns)
    fields = TimedEvents(keys, code, ns, first, per_step, ordered_ns=ordered).rows()
    del ordered
    clocks = clocks_of(capture, mine, code, len(keys))
    listed = set(islice(fields, MOST_ROWS))  # the others are left out
    rows = np.flatnonzero(np.array([key in listed for key in keys])[code])
    groups = GroupBy(code[rows], len(keys))
    tables = duration_tables(groups.codes, groups.ordered(ns[rows]), len(keys))
    for key, table, mhz, samples in zip(keys, tables, *(part.tolist() for part in clocks), strict=True):
        if key in fields:
            clock = {"clock_mhz": mhz, "clock_samples": samples} if samples else {}
            fields[key] |= {"durations": table, **clock}
    return fields


def _keys(capture: Capture, operations: GpuOperations) -> tuple[NDArray[Any], list[Key]]:
    """Return the position of each operation's key, without modes, and the keys."""
    code = np.zeros(len(operations), np.int32)
    kernels = np.flatnonzero(operations.kind == KINDS.index(KERNEL))
    keys = [Key("kernel", GRAPH_NAME)]
    if len(kernels):
        of_kernel, more = kernel_keys(capture.whole)
        code[kernels] = of_kernel[operations.row[kernels]] + 1
        keys += more
    return code, keys


@per_capture
def kernel_keys(whole: Capture) -> tuple[NDArray[Any], list[Key]]:
    """Return the position of each kernel's key, without modes, and the keys."""
    names, texts = name_codes(whole, KERNEL)
    (grid, grids), (block, blocks) = (shapes(whole, field) for field in ("grid", "block"))
    codes, parts = group_keys(names, grid, block)
    return codes.astype(np.int32), [
        Key(
            "kernel",
            UNNAMED if (text := texts[i]) is None else text,
            f"grid {_short(grids[j])}, block {_short(blocks[k])}",
        )
        for i, j, k in zip(*(part.tolist() for part in parts), strict=True)
    ]


def _short(shape: str) -> str:
    return " ".join(shape.split())


def _first(capture: Capture, operations: GpuOperations, code: NDArray[Any]) -> NDArray[Any]:
    """Mark first launches. Without a recorded call, it is the first of a key in its process."""
    first = np.zeros(len(operations), bool)
    known = operations.call >= 0
    if known.any():
        launches = launches_of(capture.whole)
        calls = np.zeros(capture.whole.count("api"), bool)
        calls[launches.call[launches.first]] = True
        first[known] = calls[operations.call[known]]
    if not known.all():
        without = np.zeros(int(code.max()) + 1, bool)  # which keys have such an operation: mostly few
        without[code[~known]] = True
        rows = np.flatnonzero(without[code])
        keys, _ = group_keys(code[rows], operations.global_pid[rows])
        earliest = rows[np.unique(keys, return_index=True)[1]]
        first[earliest] |= ~known[earliest]
    return first


def _with_modes(
    code: NDArray[Any], keys: list[Key], ns: NDArray[Any], first: NDArray[Any]
) -> tuple[NDArray[Any], list[Key], NDArray[Any]]:
    """Return codes and keys of the modes, and the durations without first launches by mode, then by duration.

    First launches are in a mode, but do not decide on it.
    """
    groups = GroupBy(code[~first], len(keys))
    ordered = groups.ordered(ns[~first])  # and by mode, as each has all durations between two cuts
    cuts = mode_cuts(groups.codes, ordered, len(keys))
    if not cuts:
        return code, keys, ordered
    modes = np.array([1 + len(cuts.get(i, ())) for i in range(len(keys))])
    offset = np.cumsum(modes) - modes
    made = offset[code]
    for i, edges in cuts.items():
        rows = np.flatnonzero(code == i)
        made[rows] += np.searchsorted(edges, ns[rows], "right")
    named = [
        replaced
        for i, key in enumerate(keys)
        for replaced in ([key] if i not in cuts else [key._replace(mode=n + 1) for n in range(modes[i])])
    ]
    return made, named, ordered


class ClockSamples(NamedTuple):
    """The mean SM clock in MHz of each group, NaN without samples, and the number of samples."""

    mhz: NDArray[Any]
    samples: NDArray[Any]


def clocks_of(capture: Capture, operations: GpuOperations, codes: NDArray[Any], groups: int) -> ClockSamples:
    """Return the clock of each group of operations.

    A sample counts if an operation of the group ran on its GPU at that moment; once, if several did. Samples
    of an idle clock, and the first of each stretch of work, do not count.
    """
    total, samples = np.zeros(groups), np.zeros(groups, np.int64)
    run = run_conditions_of(capture)
    if run is not None and run.gpus:
        numbers = gpu_numbers(capture, operations, run.facts)
        for gpu in run.gpus:
            known = gpu.worked & ~np.isnan(gpu.samples["sm_mhz"])
            time_ns = gpu.samples["time_ns"][known] - (capture.started_ns or 0)
            mine = np.flatnonzero(numbers == run.facts.gpus.index(gpu.gpu))
            group, sample = _met(operations.of(mine), codes[mine], time_ns)
            total += np.bincount(group, gpu.samples["sm_mhz"][known][sample], groups)
            samples += np.bincount(group, minlength=groups)
    return ClockSamples(np.where(samples > 0, total / np.maximum(samples, 1), np.nan), samples)


def _met(
    operations: GpuOperations, codes: NDArray[Any], time_ns: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return each group and each sample that fell into the time of one of its operations."""
    first = np.searchsorted(time_ns, operations.start_ns)
    times = np.searchsorted(time_ns, operations.end_ns) - first
    hit = np.flatnonzero(times > 0)
    check_pairs(int(times[hit].sum()), len(times) + len(time_ns), "kernels and samples of the clock")
    row, nth = repeated(times[hit])
    _, (group, sample) = group_keys(codes[hit][row], first[hit][row] + nth)
    return group, sample


MOST_PAIRS = 32  # of a duration and its count
_FEWEST = 8  # launches of a mode
_FAIR = 10  # one in so many launches of a kernel is in each mode, at least
_BETWEEN = 100  # one in so many launches of a kernel may lie between two modes
_LEAST_RATIO = np.log(1.1)  # of the durations on both sides of a gap
_LEAST_NS = 100  # GPUs count time in steps of 32 ns
_CLEAR = 2.0  # a gap is so many times as wide as the modes beside it, at least
_EXACT = 1e-3  # of the width of a mode: launches of equal duration have none
_INSIDE = (0.1, 0.9)  # quantiles between which the width of a mode is taken


def mode_cuts(codes: NDArray[Any], ns: NDArray[Any], groups: int) -> dict[int, NDArray[Any]]:
    """Return the shortest duration of each mode but the first, for each group that has several modes.

    Rows are sorted by group, then by duration in ns. Each mode has a fair share of the launches. The gap
    between two modes is wide as a ratio of durations, and clearly wider than either mode.
    """
    count = np.bincount(codes, minlength=groups)
    first = np.cumsum(count) - count
    candidates = np.flatnonzero(count >= 2 * _FEWEST)
    if not len(candidates):
        return {}
    row = np.flatnonzero(np.isin(codes, candidates))
    later = row + (1 + count // _BETWEEN)[codes[row]]
    fits = later < (first + count)[codes[row]]
    row, later = row[fits], later[fits]
    wide = ns[later] - ns[row] >= _LEAST_NS
    row, later = row[wide], later[wide]
    row = row[np.log(ns[later]) - np.log(np.maximum(ns[row], 1)) >= _LEAST_RATIO]
    cuts = {}
    begins = np.flatnonzero(np.diff(codes[row], prepend=-1))
    for number, gaps in zip(codes[row[begins]].tolist(), np.split(row, begins[1:]), strict=False):
        own = ns[first[number] : first[number] + count[number]]
        if edges := _edges(np.log(np.maximum(own, 1)), gaps - first[number]):
            cuts[number] = own[edges]
    return cuts


def _edges(logs: NDArray[Any], gaps: NDArray[Any]) -> list[int]:
    """Return the first position of each mode but the first; ``gaps`` are positions before wide gaps."""
    between = len(logs) // _BETWEEN
    # Of few rows, slices take a third of the time of np.diff and np.append.
    breaks = np.flatnonzero(gaps[1:] - gaps[:-1] > between + 1)
    # One gap has several positions before it if launches lie in it: it is cut where it is emptiest.
    steps = logs[1:] - logs[:-1]
    begins = [int(gaps[0]), *gaps[breaks + 1].tolist()]
    lasts = [*gaps[breaks].tolist(), int(gaps[-1])]
    found = [
        begin + int(steps[begin : last + between + 1].argmax()) + 1
        for begin, last in zip(begins, lasts, strict=True)
    ]
    edges = [0, *found, len(logs)]
    fewest = max(_FEWEST, len(logs) // _FAIR)
    while len(edges) > 2:  # noqa: PLR2004 - both ends
        counts = [behind - first for first, behind in pairwise(edges)]
        # A kernel has few modes: plain numbers take a tenth of the time of arrays.
        low, high = (
            [float(logs[first + round(q * (count - 1))]) for first, count in zip(edges, counts, strict=False)]
            for q in _INSIDE
        )
        clear = [
            (low[i + 1] - high[i]) / max(high[i] - low[i], high[i + 1] - low[i + 1], _EXACT)
            if min(counts[i : i + 2]) >= fewest
            else 0.0
            for i in range(len(counts) - 1)
        ]
        if min(clear) >= _CLEAR:
            break
        del edges[clear.index(min(clear)) + 1]
    return edges[1:-1]


def duration_tables(codes: NDArray[Any], ns: NDArray[Any], groups: int) -> list[tuple[tuple[int, int], ...]]:
    """Return pairs of duration in ns and count for each group, ascending; at most MOST_PAIRS of them.

    Rows are sorted by group, then by duration. With more distinct durations, each pair is the mean of an
    equal share of the launches, rounded to 1 ns: so the sum of all products is the total time.
    """
    if not len(codes):
        return [()] * groups
    count = np.bincount(codes, minlength=groups)
    rank = np.arange(len(codes)) - (np.cumsum(count) - count)[codes]
    other = (np.diff(ns, prepend=-1) != 0) | (rank == 0)
    number = np.cumsum(other) - 1
    of_group = np.bincount(codes[other], minlength=groups)
    own = number - (np.cumsum(of_group) - of_group)[codes]  # which of the distinct durations of its group
    place = np.where((of_group > MOST_PAIRS)[codes], rank * MOST_PAIRS // count[codes], own)
    starts = np.flatnonzero((np.diff(place, prepend=-1) != 0) | (rank == 0))
    counts = np.diff(starts, append=len(codes))
    means = np.rint(np.add.reduceat(ns, starts) / counts).astype(np.int64)
    tables: list[dict[int, int]] = [{} for _ in range(groups)]
    for group, mean, times in zip(codes[starts].tolist(), means.tolist(), counts.tolist(), strict=True):
        tables[group][mean] = tables[group].get(mean, 0) + times
    return [tuple(table.items()) for table in tables]
