"""The work of kernels per second, against the peaks of the GPU, and the roof that bounds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.gpu_operations import KERNEL
from nsyswrap.analysis.kernel_names import classify
from nsyswrap.analysis.kernel_names.arithmetic import MEMORY, unit_of
from nsyswrap.analysis.known_work import known_work
from nsyswrap.analysis.names import full_names
from nsyswrap.analysis.peaks import measured_peaks, peak_bandwidth, peak_of
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import SPANS
from nsyswrap.capture.stream import looked_up

Floats = NDArray[np.float64]

COMPUTE_ROOF, MEMORY_ROOF = "compute", "memory"
_NS_PER_S = 1e9


@dataclass(frozen=True, eq=False)
class Roofline:
    """The work of groups of kernels, an entry each; NaN where it is not known.

    ``flop`` and ``bytes`` are means of the kernels whose work is known, the rates their work by their time.
    ``peak_flop_per_s`` is that of the GPU for the type of the kernel: the measured one if there is one.
    """

    flop: Floats
    bytes: Floats
    flop_per_s: Floats
    bytes_per_s: Floats
    peak_flop_per_s: Floats
    peak_bytes_per_s: float
    moves: NDArray[np.bool_]

    @property
    def intensity(self) -> Floats:
        """Return the operations for each byte."""
        return _divided(self.flop, self.bytes)

    @property
    def roof(self) -> list[str]:
        """Return what bounds the kernels: ``compute``, ``memory``, or an empty text if it is not known.

        Operations for each byte decide. Without known operations, the kinds of kernels that only move data
        are bound by memory.
        """
        ridge = self.peak_flop_per_s / self.peak_bytes_per_s
        known = ~np.isnan(self.intensity / ridge)
        computes = known & (self.intensity >= ridge)
        moves = np.where(known, ~computes, self.moves & ~np.isnan(self.bytes))
        return np.select([computes, moves], [COMPUTE_ROOF, MEMORY_ROOF], "").tolist()  # type: ignore[no-any-return]


def roofline_of(capture: Capture, group: NDArray[Any], first: NDArray[Any]) -> Roofline:
    """Return the work of groups of the selected kernels.

    ``group`` has the number of each kernel's group, ``first`` the position of a kernel of each group. All
    kernels of a group have one name.
    """
    whole, work = capture.whole, known_work(capture)
    measured = measured_peaks(whole)
    start, end = whole.columns(KERNEL, *SPANS).values()
    duration_ns = end - start  # of whole kernels, whatever the selection cuts
    if capture.view.selection.narrows:
        duration_ns = duration_ns[capture.columns(KERNEL, "row")["row"] - 1]
    codes, names = full_names(capture)
    moves = np.array([unit_of(name, classify(name)) == MEMORY for name in names], bool)
    peaks = np.array([peak_of(whole, name, measured=True) for name in names], float)
    flop, flop_per_s = _rates(work.flops, duration_ns, group, len(first))
    moved, bytes_per_s = _rates(work.bytes, duration_ns, group, len(first))
    return Roofline(
        flop,
        moved,
        flop_per_s,
        bytes_per_s,
        looked_up(peaks, codes[first]),
        measured.bytes_per_s if measured else peak_bandwidth(whole) or np.nan,
        looked_up(moves, codes[first]),
    )


def _rates(work: Floats, duration_ns: NDArray[Any], group: NDArray[Any], count: int) -> tuple[Floats, Floats]:
    """Return the mean work of the kernels of each group that have it, and their work per second."""
    has = ~np.isnan(work)
    numbers = (work, np.ones(len(work)), duration_ns)
    total, number, ns = (np.bincount(group[has], values[has], count).astype(float) for values in numbers)
    return _divided(total, number), _divided(total * _NS_PER_S, ns)


def _divided(values: Floats, by: Floats) -> Floats:
    """Return quotients, NaN for those by zero."""
    quotients: Floats = np.divide(values, by, out=np.full(len(values), np.nan), where=by > 0)
    return quotients
