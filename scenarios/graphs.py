"""Launch forty small kernels one by one, and as one CUDA graph.

A chain of KERNELS pointwise operations works in place on N floats, alternately
x.mul_(0.9) and x.add_(0.1): one small kernel each, which takes less time than
its launch. The variants run the same kernels in the same order:

  eager  PyTorch launches them one by one
  graph  they were captured into a torch.cuda.CUDAGraph, which is replayed; nsys
         records each replay as a whole (--cuda-graph-trace=graph)
  nodes  what graph runs, but nsys records every kernel in it
         (--cuda-graph-trace=node). Without nsys it is the same as graph

The capture is made before anything is measured, after the usual warm-up on a
side stream. A replay works on the memory that was captured: always on this x.

What to look for in nsyswrap's output:

* Launches and API Med in the closing table: forty launch calls an iteration in
  eager, a single cudaGraphLaunch in graph and nodes. Program is mostly
  launching in eager, so it falls with them.
* In graph nsys has no kernels for a replay but one execution of the graph,
  from the start of its first kernel to the end of its last, gaps included:
  Kernel Med is that. The kernels that cuda_gpu_kern_sum still lists there were
  launched one by one, in the ranges `check` and `capture`.
* In nodes all forty kernels of each replay are there, and Kernel Med is their
  sum, without the gaps. Recording them makes the replay itself slower: compare
  Program in graph and in nodes, and quote neither from a run under nsys.
* Queue Med in eager adds up, kernel by kernel, the time from the end of the
  launch call to the start. Of a graph there is one launch and one queue time.
* A range for each iteration, `eager/chain` and so on. In the range `capture`
  the chain is launched twice: the warm-up, and then the calls that start no
  kernel but add it to the graph. cudaGraphInstantiate is the one-time price of
  a graph.

A CUDA graph saves launching and nothing else. It needs the same kernels,
shapes and addresses every time, and no synchronise in between; and where the
kernels are longer than their launches, eager hides the launches just as well.

The results are compared before anything is measured: eager with the CPU's, to
the tolerance of float32, and replayed with eager, exactly. The last line on
stdout is the result as JSON, times in microseconds.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from nsyswrap.record.in_program.clocks import time_operation
from nsyswrap.record.in_program.script import chosen, counted, main, make_parser, platform
from nsyswrap.record.in_program.torch_extension import import_torch

if TYPE_CHECKING:
    import argparse
    from types import ModuleType

    from torch import Tensor

    from nsyswrap.record.in_program.clocks import Operation

# Read by the runner as literals, without importing this file.
VARIANTS = ("eager", "graph", "nodes")
NEEDS = ("torch", "gpu")
NSYS = {"graph": {"graphs": "graph"}, "nodes": {"graphs": "node"}}
LOOK_FOR = (
    "forty launch calls an iteration in eager, one cudaGraphLaunch in graph and nodes (Launches, API Med); "
    "graph sees one execution a replay and none of its kernels, nodes sees them all."
)
COUNTS = {
    "n": (1, 4096, "elements of the vector"),
    "kernels": (1, 40, "operations in the chain"),
    "warmup": (0, 5, "untimed iterations before each block"),
    "iterations": (1, 20, "timed iterations of each block"),
}
SEED = 7


def run_chain(x: Tensor, kernels: int) -> Tensor:
    """Apply the operations to `x` in place, and return it."""
    for number in range(kernels):
        # Both together draw the elements towards 1, however often they are run.
        if number % 2:
            x.add_(0.1)
        else:
            x.mul_(0.9)
    return x


def capture(torch: ModuleType, chain: Operation) -> Operation:
    """Return the replay of a CUDA graph made of `chain`."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # what is loaded or allocated at first use cannot be captured
        chain()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x = chain()

    def replay() -> Tensor:
        graph.replay()
        return x

    return replay


def make_operations(
    torch: ModuleType, variants: tuple[str, ...], x: Tensor, kernels: int
) -> dict[str, Operation]:
    """Return the chain on `x` by variant: eager, and what else was asked for."""
    operations: dict[str, Operation] = {"eager": lambda: run_chain(x, kernels)}
    if variants != ("eager",):
        with torch.cuda.nvtx.range("capture"):
            replay = capture(torch, operations["eager"])
        operations |= {variant: replay for variant in variants if variant != "eager"}
    return operations


def check(torch: ModuleType, operations: dict[str, Operation], x: Tensor, kernels: int) -> None:
    """Raise AssertionError unless eager gives what the CPU does, and all others exactly what eager gives."""
    start = torch.rand(x.shape, generator=torch.Generator().manual_seed(SEED))
    results = {}
    for variant, operation in operations.items():
        x.copy_(start)
        operation()
        results[variant] = x.cpu().clone()
    torch.testing.assert_close(results["eager"], run_chain(start, kernels))
    for result in results.values():
        torch.testing.assert_close(result, results["eager"], rtol=0, atol=0)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Capture, check, then time every variant."""
    torch = import_torch()
    variants = chosen(options, VARIANTS)
    x = torch.zeros(options.n).cuda()
    operations = make_operations(torch, variants, x, options.kernels)
    with torch.cuda.nvtx.range("check"):
        check(torch, operations, x, options.kernels)
    timings = [
        time_operation(
            torch,
            operations[variant],
            variant=variant,
            operator="chain",
            warmup=options.warmup,
            iterations=options.iterations,
        )
        for variant in variants
    ]
    return {**counted(options, COUNTS), **platform(torch), "timings": timings}


if __name__ == "__main__":
    parser = make_parser(__doc__, VARIANTS, counts=COUNTS, builds=False)
    sys.exit(main("graphs", parser.parse_args(), measure))
