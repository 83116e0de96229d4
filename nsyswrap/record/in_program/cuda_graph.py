"""Capture PyTorch operations as a CUDA graph, for scenarios."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from torch import Tensor

    from nsyswrap.record.in_program.clocks import Operation


def capture(torch: ModuleType, operation: Operation) -> Operation:
    """Run ``operation`` once, capture it as a CUDA graph, and return a function that replays that.

    A replay returns the tensor that was captured, with its new values.
    """
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # loading and allocating at the first use cannot be captured
        operation()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = operation()

    def replay() -> Tensor:
        graph.replay()
        return result

    return replay
