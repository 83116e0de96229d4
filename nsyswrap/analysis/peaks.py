"""Peak rates of GPUs, from NVIDIA's data sheets."""

from __future__ import annotations

from typing import NamedTuple

from nsyswrap.base.constants import MISSING
from nsyswrap.capture.capture import Capture


class _Rates(NamedTuple):
    tf32: float
    fp32: float
    fp64: float = 0.0  # not on tensor cores


_FIRST_WITH_TF32 = (8, 0)
# Dense peak rates in TFLOP/s by compute capability: TF32 on tensor cores, FP32 without, FP64 on tensor cores.
# Sources are NVIDIA's data sheets of A100 SXM, A10, L40S, H100 SXM, and HGX B200.
_RATES = {
    (8, 0): _Rates(156.0, 19.5, 19.5),
    (8, 6): _Rates(62.5, 31.2),
    (8, 9): _Rates(183.0, 91.6),
    (9, 0): _Rates(494.7, 66.9, 66.9),
    (10, 0): _Rates(1100.0, 75.0, 37.0),
}
_SLOW = ("GeForce", "TITAN")  # by the whitepapers of GA102, AD102 and GB202, TF32 is no faster there


def tf32_speedup(whole: Capture) -> float | None:
    """Return how many times as fast products in TF32 are as in FP32, at the peak rates of the GPUs.

    It is 1 for GPUs without TF32, or where TF32 is no faster. None if it is not known, or the GPUs differ.
    """
    version = _compute_capability(whole)
    if version is None:
        return None
    if version < _FIRST_WITH_TF32 or any(word in name for name in whole.info.gpus for word in _SLOW):
        return 1.0
    rates = _RATES.get(version)
    return rates.tf32 / rates.fp32 if rates else None


def tf32_over_fp64(whole: Capture) -> float | None:
    """Return how many times as fast products in TF32 are as in FP64, at peak rates; None if not known."""
    rates = _RATES.get(_compute_capability(whole) or (0, 0))
    return rates.tf32 / rates.fp64 if rates and rates.fp64 else None


def _compute_capability(whole: Capture) -> tuple[int, int] | None:
    """Return the compute capability of the GPUs; None if it is not known, or they differ."""
    if not whole.has("gpu"):
        return None
    columns = whole.columns("gpu", "compute_major", "compute_minor")
    versions = set(zip(*(column.tolist() for column in columns.values()), strict=True))
    return versions.pop() if len(versions) == 1 and MISSING not in next(iter(versions)) else None
