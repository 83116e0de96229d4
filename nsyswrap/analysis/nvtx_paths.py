"""Name the NVTX ranges around API calls, from the outermost to the innermost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.groups import distinct, number_texts
from nsyswrap.analysis.arrays.spans import closest, tree
from nsyswrap.analysis.nvtx_ranges import call_spans, nested_ranges
from nsyswrap.base.missing import MISSING
from nsyswrap.capture.schema import NVTX_PUSH_POP

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture


def call_paths(whole: Capture, call: NDArray[Any]) -> tuple[NDArray[Any], list[str]]:
    """Return the number of the path of each API call, and the paths, such as ``step/forward/linear``.

    Calls are positions among the capture's API calls; -1 is none. The number is MISSING for a call outside of
    all push/pop ranges. A range in a domain is named ``domain:name``.
    """
    ranges = nested_ranges(whole, NVTX_PUSH_POP)
    nesting = tree(ranges.spans)
    calls, codes = distinct(call.astype(np.int64))
    launched = np.flatnonzero(calls >= 0)
    innermost = np.full(len(calls), -1)
    spans = ranges.spans
    innermost[launched] = closest(call_spans(whole, calls[launched]), spans, spans.end - spans.start)
    used, number = distinct(innermost)
    names = [name.removeprefix(":") if name else "(no name)" for name in ranges.labels(ranges.code)]
    texts = [_path(names, nesting.parent, i) if i >= 0 else None for i in used.tolist()]
    text_codes, paths = number_texts(number, texts)
    missing = len(paths) - len(known := [path for path in paths if path is not None])
    of_call = np.where(innermost < 0, MISSING, text_codes - missing)
    return of_call[codes], known


def _path(names: list[str], parent: NDArray[Any], innermost: int) -> str:
    parts = []
    seen = set()  # two ranges with the same times are each other's parents
    while innermost >= 0 and innermost not in seen:
        seen.add(innermost)
        parts.append(names[innermost])
        innermost = int(parent[innermost])
    return "/".join(reversed(parts))
