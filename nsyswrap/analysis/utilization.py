"""How much of the peak rates of a GPU kernels reach, where their FLOPs and bytes are known.

Model FLOP utilization (MFU) is the rate of floating-point operations in a step, idle time included, as a
share of the GPU's peak rate (PaLM, arXiv:2204.02311, appendix B). Operations that run again, as in an
activation checkpoint, count here, too. Each type has its own peak: what is shared is the time that all
operations would take at their peaks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.gpu_operations import KERNEL, gpu_operations_of, places_of
from nsyswrap.analysis.judged_process import JudgedProcess
from nsyswrap.analysis.known_work import known_work
from nsyswrap.analysis.peaks import kernel_peaks, peak_bandwidth
from nsyswrap.analysis.range_tree.figures import computing
from nsyswrap.base.records import dataclass
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture

Floats = NDArray[np.float64]
Ints = NDArray[Any]

_KNOWN = 0.8  # of the time of kernels: from here on a rate is given
_NS = 1e9
_ALL = 100.0


class WorkSums(NamedTuple):
    """The known work of GPU operations, or sums of it; 0 where it is not known.

    ``flop`` are floating-point operations, ``at_peak_ns`` is the time that they take at the peak of their
    type, NaN without one. ``known_ns`` is the time of the kernels of operations with known work, ``total_ns``
    that of all.
    """

    flop: Floats
    at_peak_ns: Floats
    bytes: Floats
    known_ns: Floats
    total_ns: Floats

    def each(self, change: Callable[[Floats], Floats]) -> WorkSums:
        """Return the work with each of its arrays changed."""
        return WorkSums(*(change(values) for values in self))

    def rates(self, in_ns: Ints | None = None) -> tuple[Floats, Floats]:
        """Return operations per second and percent of the peak; NaN without FLOPs or if too little is known.

        ``in_ns`` is the time that passed; without it, that of the kernels counts.
        """
        shown = (self.known_ns >= _KNOWN * self.total_ns) & (self.flop > 0)
        time_ns = np.where(shown, np.maximum(self.total_ns if in_ns is None else in_ns, 1), np.nan)
        return self.flop / time_ns * _NS, self.at_peak_ns / time_ns * _ALL


@dataclass(frozen=True)
class Utilization:
    """What is known of the part that is judged, over all devices; rates are of its time, idle time included.

    ``known_percent`` is the share of kernel time with known FLOPs or bytes. Below 80 % there are no rates.
    ``mfu_percent`` and ``bandwidth_percent`` are None, too, if the peak is not known.
    """

    known_percent: float
    flop_per_s: float | None = None
    mfu_percent: float | None = None
    bytes_per_s: float | None = None
    bandwidth_percent: float | None = None


@per_capture
def _work(whole: Capture) -> WorkSums:
    operations = gpu_operations_of(whole)
    duration_ns = (operations.end_ns - operations.start_ns).astype(np.float64)
    work = WorkSums(*(np.zeros(len(operations)) for _ in range(4)), duration_ns)  # type: ignore[call-arg]
    kernels = known_work(whole)
    if kernels.recorded:
        place, none = places_of(whole)[KERNEL], np.isnan(kernels.flops)
        work.flop[place] = np.nan_to_num(kernels.flops)
        work.at_peak_ns[place] = np.where(none, 0, kernels.flops / kernel_peaks(whole) * _NS)
        work.bytes[place] = np.nan_to_num(kernels.bytes)
        work.known_ns[place] = np.where(kernels.known, duration_ns[place], 0)
    return work


def summed(views: Sequence[Capture], group: Ints, count: int) -> WorkSums:
    """Return the work of views of a capture in ``count`` groups.

    ``group`` has the number of the group by position among the operations of the capture; those below 0 are
    left out. An operation that is cut has the part of its work that its time is.
    """
    place, ns = map(np.concatenate, zip(*map(computing, views), strict=True))
    number, work = group[place], _work(views[0].whole)
    part = ns / np.maximum(work.total_ns[place], 1)
    mine = number >= 0

    def of_groups(values: Floats) -> Floats:
        return np.bincount(number[mine], (values[place] * part)[mine], count).astype(np.float64)

    return work.each(of_groups)


def utilization_of(processes: Sequence[JudgedProcess], window_ns: int) -> Utilization | None:
    """Return what is known of the judged parts of processes; None if no shapes were recorded.

    ``window_ns`` is their time, summed over devices.
    """
    if not processes or not window_ns or not known_work(processes[0].view.whole).recorded:
        return None
    whole = processes[0].view.whole
    work = summed(
        [process.view for process in processes], np.zeros(len(gpu_operations_of(whole)), np.int64), 1
    )
    known = _ALL * float(work.known_ns[0]) / max(float(work.total_ns[0]), 1)
    if known < _ALL * _KNOWN:
        return Utilization(known)
    (rate,), (share,) = work.rates(np.array([window_ns]))
    moving, bandwidth = float(work.bytes[0]) / window_ns * _NS or None, peak_bandwidth(whole)
    return Utilization(
        known,
        None if np.isnan(rate) else float(rate),
        None if np.isnan(share) else float(share),
        moving,
        _ALL * moving / bandwidth if moving and bandwidth else None,
    )
