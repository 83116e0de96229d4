"""Say how much GPU work lies outside CUDA graphs, where graphs are used."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nsyswrap.analysis.advice.context import AdviceContext
from nsyswrap.analysis.finding import Finding
from nsyswrap.analysis.gpu_operations import communicating
from nsyswrap.analysis.launches import launches_of

_LEAST_PERCENT = 5.0  # of the time judged
_USED = 0.1  # of the compute in graphs: less is not their use


def outside_graphs(context: AdviceContext) -> Iterator[Finding]:
    """Yield the share of the time judged in which kernels run that no graph launched, if graphs are used."""
    launches, operations = launches_of(context.capture.whole), context.operations  # some queue far ahead
    calls = launches.call[launches.of_graph]
    if not len(calls):
        return
    computes = operations.computes & ~communicating(context.capture, operations)
    in_graphs = computes & np.isin(operations.call, calls)
    outside = context.running(computes & ~in_graphs)
    inside = context.running(in_graphs).length
    percent = 100.0 * outside.length / context.window_ns
    if percent < _LEAST_PERCENT or inside < _USED * (inside + outside.length):
        return
    yield context.fact("outside_graphs", outside, "launch_overhead", kernels_percent=percent)


FACTS = (outside_graphs,)
