"""Name what kernels belong to: the module where modules are recorded, else the path of ranges."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.range_tree.tree import NOWHERE, RangeTree

NO_RANGE, NO_MODULE = "(no range)", "(no module or range)"


def node_labels(tree: RangeTree, nodes: NDArray[Any], depth: int = 0) -> list[str]:
    """Return the label of each node: its module's qualified name, the path of ranges outside of modules.

    ``depth`` limits the nodes: a deeper one is labeled as the one around it with so many around; 0: no limit.
    """
    known: dict[int, str] = {}
    return [
        known[node] if node in known else known.setdefault(node, _label(tree, node, depth))
        for node in nodes.tolist()
    ]


def outside_label(tree: RangeTree) -> str:
    """Return the label of what is in no range."""
    return NO_MODULE if tree.has_modules else NO_RANGE


def _label(tree: RangeTree, node: int, depth: int) -> str:
    around = _around(tree, node)
    if depth:
        around = around[:depth]
    if not around:
        return outside_label(tree)
    return tree.module[around[-1]] or "/".join(tree.names[one] for one in around)


def _around(tree: RangeTree, node: int) -> list[int]:
    """Return the nodes from the root to this one."""
    nodes = []
    while node != NOWHERE:
        nodes.append(node)
        node = int(tree.parent[node])
    return nodes[::-1]


def numbered(labels: list[str]) -> tuple[NDArray[Any], list[str]]:
    """Return a code for each label, and the labels in order of their first appearance."""
    codes: dict[str, int] = {}
    numbers = [codes.setdefault(label, len(codes)) for label in labels]
    return np.array(numbers, np.int64), list(codes)
