"""Peak rates of GPUs: operations by type, and the bandwidth of their memory.

A peak is multiprocessors x operations of each in a clock cycle x clock. The operations are those that NVIDIA
documents for a compute capability, so that one table holds for all products with it; a multiply-add counts as
two, matrices are dense, and sums are in FP32 (FP64, int32). The clock is the highest of the GPU, as nsys
records it; for matrices of small types the one to which some GPUs keep their tensor cores.

Sources are the table "Throughput of Native Arithmetic Instructions" in the CUDA programming guide for CUDA
cores; for tensor cores the architecture papers of V100, TU102, A100, GA102, AD102, H100 and GB202, the brief
of Jetson AGX Orin, and the data sheet of HGX B200.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.kernel_names import classify
from nsyswrap.analysis.kernel_names.arithmetic import (
    CUDA_CORE,
    MEMORY,
    OTHER_UNIT,
    PRODUCTS,
    TENSOR_CORE,
    Arithmetic,
    arithmetic,
    unit_of,
)
from nsyswrap.analysis.kernel_names.classes import Rules
from nsyswrap.analysis.names import full_names, kinds_of_kernels
from nsyswrap.base.lazy import regex
from nsyswrap.base.run_facts import Peaks, conditions_of
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.stream import looked_up

KINDS = {CUDA_CORE: "CUDA core products", MEMORY: "memory-bound products", OTHER_UNIT: "other products"}


class _Rates(NamedTuple):
    """Operations in a clock cycle of one multiprocessor, by type, on CUDA cores and on tensor cores."""

    cuda_cores: dict[str, int]
    tensor_cores: dict[str, int]


def _tensor(f16: int, **more: int) -> dict[str, int]:
    """Return the rates of tensor cores that have bfloat16 and TF32."""
    return {"f16": f16, "bf16": f16, "tf32": f16 // 2, **more}


_WITHOUT_HALVES = {"f32": 256, "f64": 4}
_RATES = {
    (7, 0): _Rates({"f32": 128, "f64": 64, "f16": 256}, {"f16": 1024}),
    (7, 5): _Rates({"f32": 128, "f64": 4, "f16": 256}, {"f16": 1024, "i8": 2048}),
    (8, 0): _Rates({"f32": 128, "f64": 64, "f16": 512, "bf16": 256}, _tensor(2048, i8=4096, f64=128)),
    (8, 6): _Rates({**_WITHOUT_HALVES, "f16": 256, "bf16": 256}, _tensor(1024, i8=2048)),
    (8, 7): _Rates({"f32": 256}, {"f16": 2048, "i8": 4096}),
    (8, 9): _Rates({**_WITHOUT_HALVES, "f16": 256, "bf16": 256}, _tensor(1024, i8=2048, f8=2048)),
    (9, 0): _Rates(
        {"f32": 256, "f64": 128, "f16": 512, "bf16": 512}, _tensor(4096, i8=8192, f8=8192, f64=256)
    ),
    (10, 0): _Rates({"f32": 256, "f64": 128}, _tensor(8192, i8=16384, f8=16384, f4=32768, f64=128)),
    (12, 0): _Rates({**_WITHOUT_HALVES, "f16": 256, "bf16": 256}, _tensor(1024, i8=2048, f8=2048, f4=4096)),
}
# GeForce sums in FP32 at half the rate of the same chip in other products.
_HALVED = ("GeForce", {"f16", "bf16", "tf32", "f8"})
# Share of the highest clock that tensor cores reach in all types but FP64: 1830 of 1980 MHz and 1620 of
# 1755 MHz by NVIDIA's H100 paper, others by their data sheets.
_TENSOR_CLOCK = (((9, 0), r"NVL\b", 0.8655), ((9, 0), "", 61 / 66), ((10, 0), r"\bB200", 0.944))
# What has other rates than its capability, or a part of a GPU.
HALF = regex("_w?g?mma_f16_")  # of cuDNN: it writes f16 for bfloat16, too, whose peak is the same
_UNKNOWN = regex(r"\b(?:MIG|CMP|H20|H800|L20?|RTX [45]090 D|RTX 5880)\b")


def peak_flops(whole: Capture, kind: str, *, tensor_cores: bool) -> float | None:
    """Return the operations per second of a GPU with this type, at its highest clock; None if not known.

    ``kind`` is a type as in ``kernel_names.arithmetic``, such as ``bf16``. None if the GPUs differ.
    """
    rate = _rate(whole, kind, tensor_cores=tensor_cores)
    count, clock = (_amount(whole, field) for field in ("multiprocessors", "clock_hz"))
    return rate and count and clock and float(rate * count * clock)


def peak_bandwidth(whole: Capture) -> float | None:
    """Return the bytes per second of a GPU's memory; None if it is not recorded, or the GPUs differ."""
    found = _amount(whole, "memory_bytes_per_s")
    return found and float(found)


@per_capture
def measured_peaks(whole: Capture) -> Peaks | None:
    """Return the peaks that were measured before the run; None if there are none, or they differ."""
    facts = conditions_of(whole.run_facts)
    known = [gpu.peaks for gpu in facts.gpus] if facts else []
    return known[0] if known and all(one == known[0] for one in known) else None


def peak_of(whole: Capture, name: str, *, measured: bool = False) -> float | None:
    """Return the peak operations per second of what a kernel of this name computes with; None if not known.

    ``measured``: a measured peak comes first.
    """
    said = arithmetic(name)
    kind, cores = said.input_type or ("f16" if HALF.search(name) else ""), said.tensor_cores
    if cores is None:
        return None
    return (measured and _measured(whole, kind, cores)) or peak_flops(whole, kind, tensor_cores=cores)


@per_capture
def kernel_peaks(whole: Capture) -> NDArray[np.float64]:
    """Return the peak operations per second of what each kernel computes with, NaN where not known."""
    codes, names = full_names(whole)
    return looked_up(np.array([peak_of(whole, name) for name in names], np.float64), codes)


def _measured(whole: Capture, kind: str, cores: bool) -> float | None:  # noqa: FBT001
    """Return a measured peak. Libraries multiply on tensor cores in each type that these have."""
    peaks, capability = measured_peaks(whole), _capability(whole)
    if peaks is None or capability not in _RATES or cores != (kind in _RATES[capability].tensor_cores):
        return None
    return peaks.flop_per_s.get(kind)


def tf32_speedup(whole: Capture) -> float | None:
    """Return how many times as fast products in TF32 are as in FP32, at the peak rates of the GPUs.

    It is 1 for GPUs without TF32, or where TF32 is no faster. None if it is not known, or the GPUs differ.
    """
    capability = _capability(whole)
    if capability is not None and capability < (8, 0):
        return 1.0
    return _ratio(_rate(whole, "tf32", tensor_cores=True), _rate(whole, "f32", tensor_cores=False))


def tf32_over_fp64(whole: Capture) -> float | None:
    """Return how many times as fast products in TF32 are as in FP64 on tensor cores; None if not known."""
    return _ratio(_rate(whole, "tf32", tensor_cores=True), _rate(whole, "f64", tensor_cores=True))


def _ratio(fast: float | None, slow: float | None) -> float | None:
    return fast / slow if fast and slow else None


def _rate(whole: Capture, kind: str, *, tensor_cores: bool) -> float | None:
    """Return the operations of a multiprocessor in a cycle of the highest clock; None if not known."""
    capability = _capability(whole)
    if capability is None or (rates := _RATES.get(capability)) is None:
        return None
    each = rates.tensor_cores if tensor_cores else rates.cuda_cores
    names = whole.info.gpus or ("",)
    if kind not in each or any(map(_UNKNOWN.search, names)):
        return None
    known = {each[kind] * (_reached(capability, name, kind) if tensor_cores else 1.0) for name in names}
    return known.pop() if len(known) == 1 else None


def _reached(capability: tuple[int, int], name: str, kind: str) -> float:
    """Return the part of the rate of tensor cores that a GPU of this name reaches."""
    if kind == "f64":
        return 1.0
    slow, halved = _HALVED
    clocks = (part for of, text, part in _TENSOR_CLOCK if of == capability and re.search(text, name))
    return next(clocks, 1.0) / (2 if slow in name and kind in halved else 1)


def _capability(whole: Capture) -> tuple[int, int] | None:
    """Return the compute capability of the GPUs; None if it is not known, or they differ."""
    major, minor = (_amount(whole, f"compute_{part}", least=0) for part in ("major", "minor"))
    return None if major is None or minor is None else (major, minor)


def _amount(whole: Capture, field: str, least: int = 1) -> int | None:
    """Return what is recorded of all GPUs; None if it is less, or they differ."""
    if not whole.has("gpu"):
        return None
    known = set(whole.columns("gpu", field)[field].tolist())
    return next(iter(known)) if len(known) == 1 and min(known) >= least else None


# What the kernels of a capture compute with, by their full names.
#
# Pictures draw kernels by their kind: the class, and for products what bounds them. On tensor cores a product
# keeps its class, `tensor core gemm`. Of other products the unit matters, not the class.


@per_capture
def kernel_kinds(capture: Capture) -> tuple[NDArray[Any], list[str]]:
    """Return one code per kernel and the sorted kinds; the view's own classes come first."""
    return kinds_of_kernels(capture, lambda name: _kind(name, capture.view.classes))


def _kind(name: str | None, rules: Rules) -> str:
    kernel_class = classify(name, rules)
    if name is None or kernel_class not in PRODUCTS:
        return kernel_class
    unit = unit_of(name, kernel_class)
    return KINDS.get(unit, f"{TENSOR_CORE} {kernel_class}")


@per_capture
def kernel_arithmetic(capture: Capture) -> tuple[NDArray[Any], list[Arithmetic]]:
    """Return one code per kernel, and what the name of each code says about its arithmetic."""
    codes, names = full_names(capture)
    return codes, list(map(arithmetic, names))
