"""Name the NVTX ranges around API calls, from the outermost to the innermost."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import distinct, number_texts
from nsyswrap.analysis.arrays.spans import Spans, closest, tree
from nsyswrap.analysis.gil import of_the_program
from nsyswrap.analysis.nvtx_ranges import call_spans, domain_names, nested_ranges
from nsyswrap.analysis.range_texts import MODULES_DOMAIN, without_fields
from nsyswrap.analysis.range_tree.tree import NOWHERE, range_tree_of, ranges_around
from nsyswrap.base.constants import MISSING
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import NVTX_PUSH_POP


def call_paths(whole: Capture, call: NDArray[Any]) -> tuple[NDArray[Any], list[str]]:
    """Return the number of the path of each API call, and the paths, such as ``step/forward/linear``.

    Calls are positions among the capture's API calls; -1 is none. The number is MISSING for a call outside of
    all push/pop ranges. A range in a domain is named ``domain:name``. Operations of PyTorch are named without
    their numbers and sizes. Ranges of Python's lock are no part.
    Where modules are recorded, it is the path in the range tree: ``GPT/layers.0/attention``.
    """
    if MODULES_DOMAIN in domain_names(whole):
        return _module_paths(whole, call)
    ranges = nested_ranges(whole, NVTX_PUSH_POP)
    kept = np.flatnonzero(of_the_program(whole, ranges.row - 1))
    spans = Spans(*(field[kept] for field in ranges.spans))
    nesting = tree(spans)
    calls, codes = distinct(call.astype(np.int64))
    launched = np.flatnonzero(calls >= 0)
    innermost = np.full(len(calls), -1)
    innermost[launched] = closest(call_spans(whole, calls[launched]), spans, spans.end - spans.start)
    used, number = distinct(innermost)
    labels = ranges.labels(ranges.code[kept])
    names = [without_fields(name).removeprefix(":") if name else "(no name)" for name in labels]
    texts = [_path(names, nesting.parent, i) if i >= 0 else None for i in used.tolist()]
    text_codes, paths = number_texts(number, texts)
    missing = len(paths) - len(known := [path for path in paths if path is not None])
    of_call = np.where(innermost < 0, MISSING, text_codes - missing)
    return of_call[codes], known


def _module_paths(whole: Capture, call: NDArray[Any]) -> tuple[NDArray[Any], list[str]]:
    tree = range_tree_of(whole)
    nodes = np.append(tree.node_of_range, NOWHERE)[ranges_around(whole, call, tree.ranges)]
    used, number = distinct(nodes)
    known = used[used != NOWHERE]
    return np.where(nodes == NOWHERE, MISSING, number - (len(used) - len(known))), [
        "/".join(tree.path(node)) for node in known.tolist()
    ]


def _path(names: list[str], parent: NDArray[Any], innermost: int) -> str:
    parts = []
    seen = set()  # two ranges with the same times are each other's parents
    while innermost >= 0 and innermost not in seen:
        seen.add(innermost)
        parts.append(names[innermost])
        innermost = int(parent[innermost])
    return "/".join(reversed(parts))
