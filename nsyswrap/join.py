"""The launch join: which API call launched which kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.reader import NULL
from nsyswrap.schema import PROCESS_MASK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.capture import Capture


@dataclass(frozen=True)
class Launches:
    """Pairs of rows: ``kernel[i]`` was launched by API call ``api[i]``.

    A kernel whose call has two rows (runtime and driver) stands in two pairs, as in nsys;
    ``kernels_without_call`` counts those that stand in none.
    """

    kernel: NDArray[Any]
    api: NDArray[Any]
    kernels_without_call: int


def launches(capture: Capture) -> Launches:
    """Join kernels to API calls on correlation id *and* process, in kernel row order, then API row order.

    Correlation ids repeat between processes. Without globalPid in the export (trimmed files) the process
    is unknown, and the correlation id alone has to do.
    """
    kernel = capture.columns("kernel", "correlation_id", "global_pid")
    api = capture.columns("api", "correlation_id", "global_tid")
    known = not (kernel["global_pid"] == NULL).all()
    keys = _keys(
        (kernel["global_pid"] if known else np.zeros_like(kernel["correlation_id"]), kernel["correlation_id"]),
        (
            api["global_tid"] & PROCESS_MASK if known else np.zeros_like(api["correlation_id"]),
            api["correlation_id"],
        ),
    )
    return _match(*keys)


def _keys(
    left: tuple[NDArray[Any], NDArray[Any]], right: tuple[NDArray[Any], NDArray[Any]]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """One int64 per (process, correlation id), equal on both sides where the pair is equal."""
    processes, process = np.unique(np.concatenate((left[0], right[0])), return_inverse=True)
    correlation = np.concatenate((left[1], right[1]))
    if not len(correlation):
        return correlation, correlation
    low, high = int(correlation.min()), int(correlation.max())
    if (high - low + 1) * len(processes) > np.iinfo(np.int64).max:
        _, correlation = np.unique(correlation, return_inverse=True)
        low, high = 0, len(correlation)
    keys = process.astype(np.int64) * (high - low + 1) + (correlation - low)
    return keys[: len(left[0])], keys[len(left[0]) :]


def _match(kernel_keys: NDArray[Any], api_keys: NDArray[Any]) -> Launches:
    order = np.argsort(api_keys, kind="stable")
    ordered = api_keys[order]
    first = np.searchsorted(ordered, kernel_keys, "left")
    matches = np.searchsorted(ordered, kernel_keys, "right") - first
    kernel = np.repeat(np.arange(len(kernel_keys)), matches)
    within = np.arange(len(kernel)) - np.repeat(np.cumsum(matches) - matches, matches)
    return Launches(kernel, order[np.repeat(first, matches) + within], int((matches == 0).sum()))
