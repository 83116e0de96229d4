"""Launch forty small kernels one by one, and as one CUDA graph.

A chain of KERNELS pointwise operations works in place on N floats, alternately
x.mul_(0.9) and x.add_(0.1). Each is one small kernel that takes less time than
its launch. The variants run the same kernels in the same order:

  eager  PyTorch launches them one by one
  graph  they were captured into a torch.cuda.CUDAGraph, which is replayed. nsys
         records each replay as a whole (--cuda-graph-trace=graph)
  nodes  the same as graph, but nsys records every kernel in it
         (--cuda-graph-trace=node). Without nsys there is no difference

The graph is captured before anything is measured, after the usual warm-up on a
side stream. A replay always works on the memory that was captured, this x.

What to look for in nsyswrap's output:

* Launches and API Med in the closing table. There are forty launch calls per
  iteration in eager, and a single cudaGraphLaunch in graph and nodes. Program
  is mostly launch time in eager, so it falls with their number.
* In graph nsys records one graph execution per replay and none of its kernels.
  It lasts from the start of the first kernel to the end of the last, gaps
  included. Kernel Med is that time. cuda_gpu_kern_sum still lists the kernels
  that were launched one by one, in the ranges `check` and `capture`.
* In nodes nsys records all forty kernels of each replay. Kernel Med is their
  sum, without the gaps. Recording them makes the replay itself slower. Compare
  Program in graph and in nodes, but quote neither from a run under nsys.
* Queued Med in eager is a sum over the kernels: the time from the end of the
  launch call to the start of the kernel. A graph has one launch and one queue
  time.
* An NVTX range for each iteration, as in `eager/chain`. In the range `capture`
  the chain is launched twice. The first time is the warm-up. The second time
  the calls start no kernel, but add it to the graph. cudaGraphInstantiate is
  the one-time cost of a graph.

A CUDA graph saves only launch time. It needs the same kernels, shapes and
addresses every time, and no synchronize in between. If the kernels are longer
than their launches, eager hides the launches as well.

The results are compared before anything is measured. eager must agree with the
CPU to the tolerance of float32, and the replays must equal eager exactly. The
last line on stdout is the result as JSON, times in microseconds.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from nsyswrap.record.in_program.clocks import time_operation
from nsyswrap.record.in_program.compilers import capture_graph
from nsyswrap.record.in_program.script import chosen, counted, main, make_parser, platform
from nsyswrap.record.in_program.torch_extension import import_torch

if TYPE_CHECKING:
    import argparse
    from types import ModuleType

    from torch import Tensor

    from nsyswrap.record.in_program.clocks import Operation

# The runner reads these literals without importing this file.
VARIANTS = ("eager", "graph", "nodes")
NEEDS = ("torch", "gpu")
NSYS = {"graph": {"graphs": "graph"}, "nodes": {"graphs": "node"}}
LOOK_FOR = (
    "'eager' has forty launch calls per iteration, 'graph' and 'nodes' have one cudaGraphLaunch "
    "(Launches, API Med). In 'graph' nsys records one execution per replay, in 'nodes' every kernel."
)
COUNTS = {
    "n": (1, 4096, "elements of the vector"),
    "kernels": (1, 40, "operations in the chain"),
    "warmup": (0, 5, "untimed iterations before each block"),
    "iterations": (1, 20, "timed iterations of each block"),
}
SEED = 7


def run_chain(x: Tensor, kernels: int) -> Tensor:
    """Apply the operations to `x` in place and return `x`."""
    for number in range(kernels):
        # The two operations together converge to 1, however often they run.
        if number % 2:
            x.add_(0.1)
        else:
            x.mul_(0.9)
    return x


def make_operations(
    torch: ModuleType, variants: tuple[str, ...], x: Tensor, kernels: int
) -> dict[str, Operation]:
    """Return the chain on `x` for each variant. eager is always included."""
    operations: dict[str, Operation] = {"eager": lambda: run_chain(x, kernels)}
    if variants != ("eager",):
        with torch.cuda.nvtx.range("capture"):
            replay = capture_graph(torch, operations["eager"])
        operations |= {variant: replay for variant in variants if variant != "eager"}
    return operations


def check(torch: ModuleType, operations: dict[str, Operation], x: Tensor, kernels: int) -> None:
    """Raise AssertionError unless eager agrees with the CPU and all others equal eager exactly."""
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
    """Capture the graph, check the results, then time every variant."""
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
