"""The rows of the kernels: by full name, grid, block and mode of duration, and whole-graph executions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.groups import Groups, group_keys
from nsyswrap.analysis.compare.clock_samples import clocks_of
from nsyswrap.analysis.compare.kernel_modes import duration_tables, mode_cuts
from nsyswrap.analysis.compare.model import Key
from nsyswrap.analysis.compare.rows import UNNAMED, Events
from nsyswrap.analysis.gpu_operations import GRAPH_NAME, KERNEL, KINDS, gpu_operations_of, selected_ns
from nsyswrap.analysis.launches import launches_of
from nsyswrap.analysis.names import name_codes, shapes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.analysis.compare.steady_windows import SteadyWindows
    from nsyswrap.analysis.gpu_operations import GpuOperations
    from nsyswrap.capture.capture import Capture


def kernel_rows(capture: Capture, windows: SteadyWindows) -> dict[Key, dict[str, Any]]:
    """Return the fields of each row. A graph whose nodes are recorded has rows of its kernels."""
    operations = gpu_operations_of(capture)
    mine = operations.of(operations.computes)
    if not len(mine):
        return {}
    names, keys = _keys(capture, mine)
    ns, first = selected_ns(capture, mine), _first(capture, mine, names)
    code, keys = _with_modes(names, keys, ns, first)
    events = Events(keys, code, ns, first, windows.per_step(mine.global_pid, mine.start_ns, mine.end_ns))
    fields = events.rows()
    clocks = clocks_of(capture, mine, code, len(keys))
    groups = Groups(code, len(keys))
    tables = duration_tables(groups.codes, groups.ordered(ns), len(keys))
    for key, table, mhz, samples in zip(keys, tables, *(part.tolist() for part in clocks), strict=True):
        if key in fields:
            clock = {"clock_mhz": mhz, "clock_samples": samples} if samples else {}
            fields[key] |= {"durations": table, **clock}
    return fields


def _keys(capture: Capture, mine: GpuOperations) -> tuple[NDArray[Any], list[Key]]:
    """Return the position of each operation's key, without modes, and the keys."""
    whole = capture.whole
    code = np.full(len(mine), 0)
    kernels = np.flatnonzero(mine.kind == KINDS.index(KERNEL))
    keys = [Key("kernel", GRAPH_NAME)]
    if len(kernels):
        names, texts = name_codes(whole, KERNEL)
        (grid, grids), (block, blocks) = (shapes(whole, field) for field in ("grid", "block"))
        rows = mine.row[kernels]
        codes, parts = group_keys(*(column[rows] for column in (names, grid, block)))
        code[kernels] = codes + 1
        keys += [
            Key(
                "kernel",
                UNNAMED if (text := texts[i]) is None else text,
                f"grid {_short(grids[j])}, block {_short(blocks[k])}",
            )
            for i, j, k in zip(*(part.tolist() for part in parts), strict=True)
        ]
    return code, keys


def _short(shape: str) -> str:
    return " ".join(shape.split())


def _first(capture: Capture, mine: GpuOperations, code: NDArray[Any]) -> NDArray[Any]:
    """Mark first launches. Without a recorded call, it is the first of a key in its process."""
    first = np.zeros(len(mine), bool)
    known = mine.call >= 0
    if known.any():
        launches = launches_of(capture.whole)
        calls = np.zeros(capture.whole.count("api"), bool)
        calls[launches.call[launches.first]] = True
        first[known] = calls[mine.call[known]]
    if not known.all():
        keys, _ = group_keys(code, mine.global_pid)
        earliest = np.unique(keys, return_index=True)[1]
        first[earliest] |= ~known[earliest]
    return first


def _with_modes(
    code: NDArray[Any], keys: list[Key], ns: NDArray[Any], first: NDArray[Any]
) -> tuple[NDArray[Any], list[Key]]:
    """Return codes and keys of the modes. First launches are in a mode, but do not decide on it."""
    groups = Groups(code[~first], len(keys))
    cuts = mode_cuts(groups.codes, groups.ordered(ns[~first]), len(keys))
    if not cuts:
        return code, keys
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
    return made, named
