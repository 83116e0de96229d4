"""Find kernels that have the operation and the shapes of another one, with which they were recorded.

`profile --modules` records operations with their shapes in the first steps. A part of a program lasts from
the call of an outermost module to the next call of one. Parts with the same kernels in the same order, of the
same grids and blocks, have the same shapes. Kernels that belong to modules are compared, and the others by
themselves: an optimizer can skip a step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import group_keys
from nsyswrap.analysis.gpu_operations import KERNEL, gpu_operations_of, places_of
from nsyswrap.analysis.range_texts import MODULE
from nsyswrap.analysis.range_tree.tree import RangeTree, range_tree_of
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture

Ints = NDArray[Any]

_LOOKS = tuple(f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz")  # what is read of kernels


@per_capture
def shape_sources(whole: Capture) -> Ints:
    """Return the position of the kernel that tells the shapes of each: mostly its own."""
    source = np.arange(whole.count(KERNEL))
    tree, place = range_tree_of(whole), places_of(whole)[KERNEL]
    recorded = tree.ranges.of_text([bool(text.sizes) for text in tree.ranges.texts])
    has_shapes = np.append(recorded, [False])[tree.range[place]].astype(bool)
    if not has_shapes.any() or has_shapes.all() or not tree.has_modules:
        return source
    columns = whole.columns(KERNEL, *_LOOKS)
    look, _ = group_keys(whole.viewed(names="full").name_ids(KERNEL), *columns.values())
    known: dict[bytes, Ints] = {}
    others = []
    for part in _parts(whole, tree, place):
        key = look[part].tobytes()
        if has_shapes[part].any():
            known.setdefault(key, part)
        else:
            others.append((part, key))
    for part, key in others:
        source[part] = known.get(key, part)
    return source


def _parts(whole: Capture, tree: RangeTree, rows: Ints) -> list[Ints]:
    """Return the kernels of each part in order of their launches, of modules and others apart."""
    operations = gpu_operations_of(whole)
    call = operations.call[rows]
    start = np.append(whole.columns("api", "start_ns")["start_ns"], [-1])[call]
    outermost = (tree.ranges.kind == MODULE) & (tree.ranges.parent < 0)
    segment = np.searchsorted(np.sort(tree.ranges.spans.start[outermost]), start, "right")
    of_module = np.array([*map(bool, tree.module), False])[tree.node[rows]]
    codes, _ = group_keys(operations.global_pid[rows], segment, of_module)
    order = np.lexsort((start, codes))
    order = order[(segment[order] > 0) & (call[order] >= 0)]
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1) if len(order) else []
