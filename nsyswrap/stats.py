"""Grouped statistics, once, as nsys defines them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True)
class Statistics:
    """One entry per group. ``count``, ``total``, ``min``, ``max`` are int64, the others float64.

    A group without values has count 0, deviation 0.0 and NaN for average and median; its ``min`` and
    ``max`` mean nothing.
    """

    count: NDArray[Any]
    total: NDArray[Any]
    avg: NDArray[Any]
    med: NDArray[Any]
    min: NDArray[Any]
    max: NDArray[Any]
    std: NDArray[Any]


def grouped(codes: NDArray[Any], values: NDArray[Any], groups: int) -> Statistics:
    """Return the statistics of int64 ``values`` per group code in ``range(groups)``.

    The deviation is the sample's (n - 1), 0.0 for a single value. The median is the middle value, or
    the mean of the two middle ones.
    """
    order = np.lexsort((values, codes))
    ordered = values[order]
    count = np.bincount(codes, minlength=groups)
    first = np.concatenate(([0], np.cumsum(count)[:-1])).astype(np.int64) if groups else np.empty(0, np.int64)
    filled = count > 0
    starts = first[filled]

    def per_group(reduced: NDArray[Any]) -> NDArray[Any]:
        result = np.zeros(groups, reduced.dtype)
        result[filled] = reduced
        return result

    if not len(ordered):
        nothing, unknown = np.zeros(groups, np.int64), np.full(groups, np.nan)
        return Statistics(count, nothing, unknown, unknown, nothing, nothing, np.zeros(groups))
    total = per_group(np.add.reduceat(ordered, starts))
    with np.errstate(invalid="ignore", divide="ignore"):
        avg = total / count
    deviations = ordered - np.repeat(avg[filled], count[filled])
    squares = per_group(np.add.reduceat(deviations * deviations, starts))
    low = ordered[np.minimum(first + (count - 1) // 2, len(ordered) - 1)]
    high = ordered[np.minimum(first + count // 2, len(ordered) - 1)]
    return Statistics(
        count=count,
        total=total,
        avg=avg,
        med=np.where(filled, (low + high) / 2, np.nan),
        min=per_group(ordered[starts]),
        max=per_group(ordered[starts + count[filled] - 1]),
        std=np.sqrt(squares / np.maximum(count - 1, 1)),
    )


def group_keys(*keys: NDArray[Any]) -> tuple[NDArray[Any], list[NDArray[Any]]]:
    """Number the distinct rows of the key columns in ascending order.

    Returns a code per row, and the key columns with one entry per code.
    """
    order = np.lexsort(keys[::-1])
    changes = np.zeros(len(order), dtype=bool)
    for key in keys:
        ordered = key[order]
        changes[1:] |= ordered[1:] != ordered[:-1]
    codes = np.empty(len(order), np.int64)
    codes[order] = np.cumsum(changes)
    changes[:1] = True
    return codes, [key[order][changes] for key in keys]


def number_texts(ids: NDArray[Any], texts: Sequence[str | None]) -> tuple[NDArray[Any], list[str | None]]:
    """Number text by its order, None first: one text can stand behind several ids.

    ``texts[i]`` is the text of the i-th distinct id in ascending order. Returns a code per row and the
    text of each code.
    """
    distinct = sorted(set(texts), key=lambda text: (text is not None, text or ""))
    rank = {text: code for code, text in enumerate(distinct)}
    _, positions = np.unique(ids, return_inverse=True)
    ranks = np.fromiter((rank[text] for text in texts), np.int64, len(texts))
    return ranks[positions] if len(ids) else np.empty(0, np.int64), distinct
