"""What the timeline tells of single events: shape and memory of kernels, bytes of copies, NVTX path, ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import group_keys
from nsyswrap.analysis.gpu_operations import GRAPH, KERNEL, KINDS, MEMCPY, MEMSET, gpu_operations_of
from nsyswrap.analysis.nvtx_paths import call_paths
from nsyswrap.base.constants import MISSING
from nsyswrap.base.units import Unit, human
from nsyswrap.capture.capture import Capture
from nsyswrap.render.timeline.lanes import Lane
from nsyswrap.render.timeline.names import CALLS, KERNELS

_SHAPE = tuple(f"{part}_{axis}" for part in ("grid", "block") for axis in "xyz")
_MEMORY = ("registers_per_thread", "static_shared_bytes", "dynamic_shared_bytes")
_FIELDS = {
    KERNEL: (*_SHAPE, *_MEMORY),
    MEMCPY: ("src_kind", "dst_kind", "bytes"),
    MEMSET: ("bytes",),
    GRAPH: (),
}


class Facts(NamedTuple):
    """One entry per event: codes of ``shapes`` and ``paths``, bytes, and correlation ids; 0 is none."""

    shape: NDArray[Any]
    path: NDArray[Any]
    bytes: NDArray[Any]
    correlation: NDArray[Any]
    shapes: list[str]
    paths: list[str]


def facts_of(capture: Capture, lanes: Sequence[Lane], kept: Sequence[NDArray[Any]]) -> Facts:
    """Return the facts of the kept events of all lanes, lane by lane."""
    whole = capture.whole
    count = sum(map(len, kept))
    gpu, calls, launched = (np.full(count, -1) for _ in range(3))
    first = 0
    for lane, rows in zip(lanes, kept, strict=True):
        place = slice(first, first + len(rows))
        first += len(rows)
        if lane.family == KERNELS:
            gpu[place], launched[place] = lane.row[rows], lane.call[rows]
        elif lane.family == CALLS:
            calls[place] = launched[place] = lane.row[rows]
    shape, path, size, correlation = np.zeros((4, count), np.int64)
    facts = Facts(shape, path, size, correlation, [""], [""])
    _of_operations(capture, facts, gpu)
    _of_calls(capture, facts, calls, launched)
    if whole.has("nvtx") and whole.has("api") and (launched >= 0).any():
        code, paths = call_paths(whole, launched)
        facts.path[:] = np.where((code == MISSING) | (launched < 0), 0, code + 1)
        facts.paths.extend(paths)
    facts.correlation[facts.correlation == MISSING] = 0
    return facts


def _of_operations(capture: Capture, facts: Facts, gpu: NDArray[Any]) -> None:
    """Fill in shape, bytes and correlation of the GPU operations at these positions; -1 is none."""
    places = np.flatnonzero(gpu >= 0)
    if not len(places):
        return
    operations = gpu_operations_of(capture)
    for number, kind in enumerate(KINDS):
        mine = places[operations.kind[gpu[places]] == number]
        rows = operations.row[gpu[mine]]
        if not len(mine):
            continue
        facts.correlation[mine], *found = _at(capture, kind, rows, "correlation_id", *_FIELDS[kind])
        if kind in (MEMCPY, MEMSET):
            size = found.pop()
            facts.bytes[mine] = np.where(size == MISSING, 0, size)
        if found:
            code, keys = group_keys(*found)
            values = zip(*(key.tolist() for key in keys), strict=True)
            labels = capture.labels("mem_kind")
            texts = [_shape_text(*key) if kind == KERNEL else _ends_text(labels, key) for key in values]
            facts.shape[mine] = code + len(facts.shapes)
            facts.shapes.extend(texts)


def _of_calls(capture: Capture, facts: Facts, calls: NDArray[Any], launched: NDArray[Any]) -> None:
    """Fill in the correlation of the API calls at these positions; -1 is none.

    A call has the id of what it launched, so that only the others are read.
    """
    operations = np.flatnonzero((calls < 0) & (launched >= 0))
    of_call = np.full(max(int(launched.max(initial=-1)), 0) + 1, MISSING)
    of_call[launched[operations]] = facts.correlation[operations]
    mine = np.flatnonzero(calls >= 0)
    facts.correlation[mine] = of_call[calls[mine]]
    others = mine[facts.correlation[mine] == MISSING]
    if len(others):
        facts.correlation[others] = _at(capture, "api", calls[others], "correlation_id")[0]


def _at(capture: Capture, kind: str, rows: NDArray[Any], *fields: str) -> list[NDArray[Any]]:
    used, codes = np.unique(rows, return_inverse=True)
    return [values[codes] for values in capture.whole.at(kind, used, *fields).values()]


def _shape_text(*numbers: int) -> str:
    """Return grid, block, registers and shared memory of a kernel as one text."""
    grid, block = (" \N{MULTIPLICATION SIGN} ".join(map(str, numbers[i : i + 3])) for i in (0, 3))
    registers, static, dynamic = numbers[6:]
    parts = [f"grid {grid}", f"block {block}"]
    if registers != MISSING:
        parts.append(f"{registers} registers per thread")
    if MISSING not in (static, dynamic):
        parts.append(f"{human(static + dynamic, Unit.BYTES)} shared memory")
    return ", ".join(parts)


def _ends_text(labels: dict[int, str], kinds: tuple[int, ...]) -> str:
    """Return the kinds of memory that a copy reads and writes."""
    if MISSING in kinds:
        return ""
    source, target = (labels.get(kind, "?") for kind in kinds)
    return f"{source} to {target} memory"
