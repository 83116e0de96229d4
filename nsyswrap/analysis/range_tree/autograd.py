"""Match the backward of each operation of PyTorch with its forward, by autograd's sequence number.

A thread numbers the operations that autograd records, and the backward of one has its number. An operation
that records nothing has the number of the next one: of several with a number, the last recorded it. The
backward runs on another thread, so the numbers of several forward threads can be the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.groups import group_keys
from nsyswrap.analysis.range_tree.range_texts import BACKWARD, ENGINE, OPERATION
from nsyswrap.base.missing import MISSING
from nsyswrap.capture.schema import PROCESS_MASK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from nsyswrap.analysis.range_tree.nested import NestedRanges


def forward_of(ranges: NestedRanges, same_place: Callable[[int, int], bool]) -> NDArray[Any]:
    """Return the position of the forward of each backward operation; -1 for all other ranges.

    If the forward operations of several threads are possible, it is known if their names tell, or if
    ``same_place`` says of two ranges that it does not matter.
    """
    forward = np.full(len(ranges), -1)
    sequence = ranges.of_text([text.sequence for text in ranges.texts])
    backward = ranges.of_text([text.phase == BACKWARD for text in ranges.texts]).astype(bool)
    numbered = np.flatnonzero((sequence != MISSING) & (ranges.kind == OPERATION))
    if not backward[numbered].any():
        return forward
    process = ranges.spans.thread[numbered] & PROCESS_MASK
    codes, _ = group_keys(process, sequence[numbered])
    order = np.lexsort((ranges.spans.start[numbered], codes))
    numbered, codes, backward = numbered[order], codes[order], backward[numbered[order]]
    latest = np.maximum.accumulate(np.where(backward, -1, np.arange(len(numbered))))
    found = np.flatnonzero(backward & (latest >= 0) & (codes[latest] == codes))
    forward[numbered[found]] = numbered[latest[found]]
    for at in found[
        np.isin(codes[found], _of_several_threads(ranges, numbered[~backward], codes[~backward]))
    ]:
        first = int(np.searchsorted(codes, codes[at]))
        before = [
            int(i) for i, later in zip(numbered[first:at], backward[first:at], strict=True) if not later
        ]
        forward[numbered[at]] = _chosen(ranges, int(numbered[at]), before, same_place)
    inner = np.flatnonzero(forward >= 0)
    outer = ranges.parent[inner]
    engine = (outer >= 0) & (ranges.kind == ENGINE)[outer]
    forward[outer[engine]] = forward[inner[engine]]  # it also adds up gradients after the operation
    return forward


def _of_several_threads(ranges: NestedRanges, forward: NDArray[Any], codes: NDArray[Any]) -> NDArray[Any]:
    """Return the codes of forward operations that are on more than one thread."""
    _, (code, _) = group_keys(codes, ranges.spans.thread[forward])
    several: NDArray[Any] = code[1:][np.diff(code) == 0]
    return several


def _chosen(
    ranges: NestedRanges, backward: int, before: Iterable[int], same_place: Callable[[int, int], bool]
) -> int:
    """Return the forward of one backward; -1 if it cannot be told. ``before`` is in order of start."""
    latest = {int(ranges.spans.thread[i]): i for i in before}
    candidates = list(latest.values())
    if len(candidates) > 1:
        name = _plain(_name(ranges, backward).partition("Backward")[0])
        candidates = [i for i in candidates if name in _plain(_name(ranges, i))] or candidates
    if not candidates or not all(same_place(candidates[0], i) for i in candidates[1:]):
        return -1
    return max(candidates, key=lambda i: int(ranges.spans.start[i]))


def _name(ranges: NestedRanges, at: int) -> str:
    return ranges.texts[int(ranges.text[at])].names[-1]


def _plain(name: str) -> str:
    """Return the name as aten::native_layer_norm and NativeLayerNormBackward0 have it in common."""
    return name.rpartition("::")[2].replace("_", "").lower()
