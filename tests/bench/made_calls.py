"""The API calls of a process that trains a model, in the order of time."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Columns = dict[str, Ints]


class Call(NamedTuple):
    """One function of the API: calls for each kernel, and their median time."""

    name: str
    per_kernel: float
    median_ns: int


NODES = 40  # kernels of one graph
LAUNCHES = (
    Call("cudaLaunchKernel_v7000", 0.63, 4_500),
    Call("cudaLaunchKernelExC_v11060", 0.18, 5_500),
    Call("cuLaunchKernel", 0.09, 4_000),
)
GRAPH = Call("cudaGraphLaunch_v10000", 0.1 / NODES, 60_000)
COPY = Call("cudaMemcpyAsync_v3020", 0.1, 6_000)
SET = Call("cudaMemsetAsync_v3020", 0.03, 4_000)
CALLS = (
    *(*LAUNCHES, GRAPH, COPY, SET),
    Call("cudaEventRecordWithFlags_v11010", 0.14, 1_200),
    Call("cudaEventQuery_v3020", 0.10, 1_500),
    Call("cudaStreamIsCapturing_v10000", 0.08, 450),
    Call("cudaStreamWaitEvent_v3020", 0.06, 900),
    Call("cudaStreamSynchronize_v3020", 0.02, 12_000),
    Call("cudaDeviceSynchronize_v3020", 0.005, 40_000),
    Call("cudaMalloc_v3020", 0.001, 200_000),
)
_START_NS, _CONTEXT_NS, _LOAD_NS = 4_000_000_000, 180_000_000, 2_000_000
_IDLE_NS = 3_000  # between two calls, on average
_TURN = 256  # calls that one thread makes before another takes over
_LOST = 1 / 5000  # of all launch calls


def made_kinds(kernels: int, dice: np.random.Generator) -> Ints:
    """Return the calls, as places in CALLS, that start exactly these kernels, and all others between them."""
    counts = np.array([round(kernels * call.per_kernel) for call in CALLS])
    graph = CALLS.index(GRAPH)
    counts[graph] = max(1, counts[graph])
    counts[0] = kernels - NODES * counts[graph] - counts[1 : len(LAUNCHES)].sum()
    return dice.permutation(np.repeat(np.arange(len(CALLS)), counts))


def made_calls(kinds: Ints, first_launches: Ints, threads: list[int], dice: np.random.Generator) -> Columns:
    """Return start, end, thread and correlation id: the first launch of each kernel is slow, it is loaded."""
    count = len(kinds)
    spent = np.array([call.median_ns for call in CALLS])[kinds] * dice.lognormal(0, 0.35, count)
    spent[first_launches] += _LOAD_NS * dice.lognormal(0, 0.8, len(first_launches))
    spent[0] += _CONTEXT_NS
    ends = _START_NS + np.cumsum(spent + dice.exponential(_IDLE_NS, count))
    return {
        "start": (ends - spent).astype(np.int64),
        "end": ends.astype(np.int64),
        "globalTid": np.array(threads)[np.arange(count) // _TURN % len(threads)],
        "correlationId": 100 + np.cumsum(dice.integers(1, 4, count)),
    }


def without_lost(calls: Columns, kinds: Ints, dice: np.random.Generator) -> Columns:
    """Drop some launch calls, as an nsys does that cannot keep up: what they launched stays."""
    launches = np.flatnonzero(kinds < len(LAUNCHES))
    lost = dice.choice(launches, max(1, round(len(launches) * _LOST)), replace=False)
    return {column: np.delete(numbers, lost) for column, numbers in calls.items()}
