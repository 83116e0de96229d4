"""Peak rates of GPUs, from NVIDIA's data sheets."""

from __future__ import annotations

from nsyswrap.base.constants import MISSING
from nsyswrap.capture.capture import Capture

_FIRST_WITH_TF32 = (8, 0)
# Dense peak rates in TFLOP/s by compute capability: TF32 on tensor cores, FP32 without. Sources are NVIDIA's
# data sheets of A100 SXM, A10, L40S, H100 SXM, and HGX B200.
_TF32_FP32 = {
    (8, 0): (156.0, 19.5),
    (8, 6): (62.5, 31.2),
    (8, 9): (183.0, 91.6),
    (9, 0): (494.7, 66.9),
    (10, 0): (1100.0, 75.0),
}
_SLOW = ("GeForce", "TITAN")  # by the whitepapers of GA102, AD102 and GB202, TF32 is no faster there


def tf32_speedup(whole: Capture) -> float | None:
    """Return how many times as fast products in TF32 are as in FP32, at the peak rates of the GPUs.

    It is 1 for GPUs without TF32, or where TF32 is no faster. None if it is not known, or the GPUs differ.
    """
    if not whole.has("gpu"):
        return None
    columns = whole.columns("gpu", "compute_major", "compute_minor")
    versions = set(zip(*(column.tolist() for column in columns.values()), strict=True))
    if len(versions) != 1 or MISSING in (version := versions.pop()):
        return None
    if version < _FIRST_WITH_TF32 or any(word in name for name in whole.info.gpus for word in _SLOW):
        return 1.0
    tf32, fp32 = _TF32_FP32.get(version, (None, None))
    return tf32 / fp32 if tf32 and fp32 else None
