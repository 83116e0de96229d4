"""The rows of the modules: their own kernel time in a call, forward and backward.

A renamed or fused kernel is still its module's. Kernels of a backward count for the call of the module that
made the forward. What modules inside of it launch is theirs. Where those are not recorded, as in a compiled
model or with a smaller depth, the module has their time, too: such modules cannot be compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import group_keys
from nsyswrap.analysis.compare.model import Key, Side
from nsyswrap.analysis.compare.rows import SteadyWindows, TimedEvents
from nsyswrap.analysis.finding import Note
from nsyswrap.analysis.gpu_operations import gpu_operations_of, positions_of, selected_ns
from nsyswrap.analysis.range_texts import BACKWARD, MODULE
from nsyswrap.analysis.range_tree import RangeTree, range_tree_of
from nsyswrap.analysis.range_tree.tree import numbered
from nsyswrap.capture.capture import Capture

PHASES = ("forward", "backward")


def module_rows(capture: Capture, windows: SteadyWindows) -> dict[Key, dict[str, Any]]:
    """Return the fields of each row; none without modules in the capture. A call is an event."""
    if not (capture.has("nvtx") and capture.has("api")):
        return {}
    tree = range_tree_of(capture.whole)
    if not tree.has_modules:
        return {}
    operations = gpu_operations_of(capture)
    place = positions_of(capture)
    # The call of a module that each range belongs to; -1 without one.
    calls = _innermost(tree, np.full(len(tree.ranges), -1))
    called = np.append(_innermost(tree, calls), -1)[tree.range[place]]
    rows = np.flatnonzero(operations.computes & (called >= 0))
    mine, place = operations.of(rows), place[rows]
    code, (call, backward) = group_keys(called[rows], tree.phase[place] == BACKWARD)
    ns = np.zeros(len(call), np.int64)
    np.add.at(ns, code, selected_ns(capture, mine))
    of_kernel = windows.per_step(mine.global_pid, mine.start_ns, mine.end_ns)
    per_step = None if of_kernel is None else np.bincount(code, of_kernel, len(call))
    # Operations are in order of start, so the first kernel of a call is the first of its code.
    order = np.argsort(np.unique(code, return_index=True)[1], kind="stable")
    modules, names = numbered([tree.module[node] for node in tree.node_of_range[call[order]].tolist()])
    keys, (module, phase) = group_keys(modules, backward[order].astype(np.int64))
    first = np.zeros(len(order), bool)
    first[np.unique(keys, return_index=True)[1]] = True
    return TimedEvents(
        [Key("module", names[i], PHASES[j]) for i, j in zip(module.tolist(), phase.tolist(), strict=True)],
        keys,
        ns[order],
        first,
        None if per_step is None else per_step[order],
    ).rows()


def _innermost(tree: RangeTree, known: NDArray[Any]) -> NDArray[Any]:
    """Return the innermost call around each range; ``known`` has those of the forward of a backward."""
    ranges, calls = tree.ranges, np.full(len(tree.ranges), -1)
    is_module = ranges.kind == MODULE
    for rows in ranges.levels():
        above, forward = ranges.parent[rows], tree.forward[rows]
        around = np.where(above >= 0, calls[above], -1)
        matched = (forward >= 0) & ((above < 0) | (tree.forward[above] != forward))
        around = np.where(matched, known[forward], around)
        calls[rows] = np.where(is_module[rows], rows, around)
    return calls


_DOT = "."


def hidden_modules(base: Side, new: Side) -> frozenset[str]:
    """Return the modules that have others inside on one side alone, and what is inside of them."""
    sides = _modules(base), _modules(new)
    every = sides[0] | sides[1]
    if not all(sides) or _is_one_module(*sides) or _is_one_module(*reversed(sides)):
        return every
    outer = tuple(frozenset(outer for name in side for outer in _outer_names(name)) for side in sides)
    closed = {name for name in sides[0] & sides[1] if (name in outer[0]) != (name in outer[1])}
    return frozenset(name for name in every if name in closed or closed.intersection(_outer_names(name)))


def hidden_remarks(base: Side, new: Side) -> Iterable[Note]:
    """Yield why modules are not compared, if so."""
    with_modules = [side for side in (base, new) if _modules(side)]
    if len(with_modules) == 1:
        yield Note("modules_on_one_side", {"side": with_modules[0].name})
    elif hidden := hidden_modules(base, new):
        numbers = {"base": len(_modules(base)), "new": len(_modules(new)), "hidden": len(hidden)}
        yield Note("other_modules", numbers)


def _modules(side: Side) -> frozenset[str]:
    return frozenset(key.name for run in side.runs for key in run.rows if key.group == "module")


def _is_one_module(few: AbstractSet[str], many: AbstractSet[str]) -> bool:
    """Return True if ``few`` may be models whose inside is not known. A model is named by its class."""
    return not any(_DOT in name for name in few) and (few < many or any(_DOT in name for name in many))


def _outer_names(name: str) -> list[str]:
    """Return the names of the modules that a module may be in: a and a.b for a.b.c."""
    parts = name.split(_DOT)
    return [_DOT.join(parts[:number]) for number in range(1, len(parts))]
