"""The kernels of a made-up program: their shapes, and names as long as those of PyTorch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from made_calls import Ints
from numpy.typing import NDArray

_MEAN_CHARACTERS = 262
_TAIL = ", (bool)0>(T1, T2 *, const T3 *)"
_BASES = (
    *("elementwise_kernel", "vectorized_kernel", "reduce_kernel", "softmax_forward", "layer_norm_backward"),
    *("gemm_kernel", "splitk_reduce_kernel", "cat_batched_copy", "embedding_backward", "multi_tensor_apply"),
)
_FUNCTORS = ("AddFunctor", "MulFunctor", "BUnaryFunctor", "WhereFunctor", "CastFunctor", "FusedAdamFunctor")
_TYPES = ("float", "double", "c10::Half", "c10::BFloat16", "long", "std::array<char *, (unsigned long)3>")


class Name(NamedTuple):
    """One kernel as the three columns of an export call it."""

    full: str
    base: str
    mangled: str


@dataclass(frozen=True)
class Kernels:
    """What all launches of a kernel share, by kernel: columns, its part of all launches, its time."""

    columns: dict[str, Ints]
    shares: NDArray[np.float64]
    median_ns: NDArray[np.float64]


def made_names(count: int, dice: np.random.Generator) -> list[Name]:
    """Return ``count`` different names: most are short, a few are very long."""
    lengths = dice.lognormal(0, 0.6, count)
    lengths *= _MEAN_CHARACTERS / lengths.mean()
    return [_name(number, round(length), dice) for number, length in enumerate(lengths)]


def made_kernels(name_ids: Sequence[Ints], dice: np.random.Generator) -> Kernels:
    """Return kernels of these names: a few run most of the time, and most are short."""
    count = len(name_ids[0])
    often = dice.permutation(1 / np.arange(1, count + 1))
    columns = {
        **dict(zip(("demangledName", "shortName", "mangledName"), name_ids, strict=True)),
        "registersPerThread": dice.integers(2, 32, count) * 8,
        "gridX": np.exp2(dice.uniform(0, 14, count)).astype(np.int64),
        "gridY": dice.choice([1, 1, 1, 8], count),
        "blockX": dice.choice([32, 128, 128, 256, 512], count),
        "staticSharedMemory": dice.choice([0, 0, 16, 1_024], count),
        "dynamicSharedMemory": dice.choice([0, 0, 49_152], count),
    }
    return Kernels(columns, often / often.sum(), dice.lognormal(np.log(4_000), 1, count))


def _name(number: int, characters: int, dice: np.random.Generator) -> Name:
    """Write arguments until the name is long enough; its number makes it unlike all others."""
    base = _BASES[number % len(_BASES)]
    full = f"void at::native::{base}<(int){number}"
    while (room := characters - len(full) - len(_TAIL)) > 0:
        functor = _FUNCTORS[dice.integers(len(_FUNCTORS))]
        one, other = (_TYPES[place] for place in dice.integers(len(_TYPES), size=2))
        full += f", at::native::{functor}<{one}, {other}>"[:room]
    mangled = f"_ZN2at6native{len(base)}{base}ILi{number}E{'x' * (characters // 2)}"
    return Name(full + _TAIL, base, mangled)
