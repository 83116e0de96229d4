"""Train on two or more GPUs with DistributedDataParallel, one rank slower than the rest.

RANKS processes on one machine, each with its own GPU, train the same small
network of two linear layers. Every rank has its own data. In the backward pass
an NCCL all-reduce averages the gradients, and each rank takes the same SGD
step.

  even       all ranks do the same work
  straggler  the last rank does two large matrix products before every step

What to look for in nsyswrap's output:

* `nsyswrap report FOLDER --by rank` names the straggler and its cost.
* Kernel Med in the closing table, which has a row for each rank. In straggler
  it is about as long for rank 0, which computes no more than in even. The rest
  is its NCCL kernel (ncclDevKernel_AllReduce...). The kernel starts when rank 0
  reaches the all-reduce, and cannot end before the last rank has reached it
  too. Waiting inside a kernel counts as kernel time, and the GPU looks busy.
* That kernel is short on the straggler itself. The rank that waits least is the
  rank that all others wait for.
* Program is about the same for all ranks, as no step ends before the all-reduce
  ends. So the time of a step does not show which rank is slow.
* Launches: the last rank has two more in straggler. It is slower because of
  more work, not because of a slower GPU.
* The NVTX range of each step, `straggler/rank 1`; the first step is in `check`.
  The backward pass stays on the thread that calls it. Otherwise autograd would
  launch its kernels from other threads.

The network has no loss; the gradient of its output is given. This leaves only
the kernels of interest in a step. After the first step each rank compares its
parameters with the CPU's for the data of all ranks (float64, to within 1e-5).
Between the ranks they must be bit-identical after the first step and at the
end.

Each rank is a separate process, which nsys follows. The ranks meet in a file.
They end with this process or when one of them fails. The last line on stdout is
the result as JSON, times in microseconds.

Under torchrun this process is one rank of its group. The range of a step is
then `straggler/step` on all ranks. To record a capture for each rank:

  torchrun --nproc-per-node 2 --no-python nsyswrap profile scenarios/ddp.py
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from argparse import SUPPRESS
from contextlib import ExitStack, redirect_stdout
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nsyswrap.base.errors import Unavailable
from nsyswrap.record.in_program.rank_processes import await_ranks, leave_result
from nsyswrap.record.in_program.script import chosen, counted, main, make_parser, platform, summarize
from nsyswrap.record.in_program.torch_extension import import_torch

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from types import ModuleType

    from torch import Tensor
    from torch.nn import Module

    from nsyswrap.record.in_program.script import Timing

# The runner reads these literals without importing this file.
VARIANTS = ("even", "straggler")
NEEDS = ("torch", "gpus")
LOOK_FOR = (
    "In 'straggler' the last rank computes more, and Kernel Med of rank 0 grows too. The NCCL kernel of a "
    "fast rank waits for the slow rank. This wait counts as kernel time."
)
COUNTS = {
    "ranks": (2, 2, "processes, one GPU each"),
    "width": (1, 256, "inputs, outputs and samples of each layer"),
    "warmup": (0, 3, "untimed steps"),
    "iterations": (1, 10, "timed steps"),
}
SEED = 13
LEARNING_RATE = 0.01
EXTRA_PRODUCTS = 2  # matrix products of the straggler before every step
EXTRA_WIDTH = 16  # side of these matrices, in widths of the network
DEADLINE = timedelta(seconds=60)  # for the rendezvous, and for one collective


class Place(NamedTuple):
    """The device of a rank. ``synchronise`` waits for the device, ``span`` opens an NVTX range."""

    device: str
    synchronise: Callable[[], None]
    span: Callable[[str], AbstractContextManager[object]]


def make_network(torch: ModuleType, width: int) -> Module:
    """Return the initial network on the CPU, which is the same for every rank."""
    torch.manual_seed(SEED)
    layers = [torch.nn.Linear(width, width, bias=False) for _ in range(2)]
    network: Module = torch.nn.Sequential(layers[0], torch.nn.Tanh(), layers[1])
    return network


def make_data(torch: ModuleType, rank: int, width: int) -> tuple[Tensor, Tensor]:
    """Return the input of a rank and the gradient of its output on the CPU: float32, (width, width)."""
    generator = torch.Generator().manual_seed(SEED + 1 + rank)
    samples, gradient = (torch.rand(width, width, generator=generator) for _ in range(2))
    return samples, gradient / width


def expected_parameters(torch: ModuleType, ranks: int, width: int) -> list[Tensor]:
    """Return the parameters after one step in one process with the data of all ranks, in float64."""
    network = make_network(torch, width).double()
    for rank in range(ranks):
        samples, gradient = (tensor.double() for tensor in make_data(torch, rank, width))
        network(samples).backward(gradient / ranks)
    torch.optim.SGD(network.parameters(), lr=LEARNING_RATE).step()
    return [parameter.detach() for parameter in network.parameters()]


def lag(torch: ModuleType, matrix: Tensor) -> None:
    """Do the extra work of the straggler."""
    for _ in range(EXTRA_PRODUCTS):
        torch.mm(matrix, matrix)


def make_step(
    torch: ModuleType, place: Place, network: Module, options: argparse.Namespace
) -> Callable[[], None]:
    """Return a function that does one training step of this rank."""
    samples, gradient = (tensor.to(place.device) for tensor in make_data(torch, options.rank, options.width))
    optimizer = torch.optim.SGD(network.parameters(), lr=LEARNING_RATE)
    late = options.variant == "straggler" and options.rank == options.ranks - 1
    side = EXTRA_WIDTH * options.width if late else 0
    matrix = torch.rand(side, side).to(place.device)

    def step() -> None:
        if late:
            lag(torch, matrix)
        optimizer.zero_grad()
        # Otherwise another thread launches the kernels of backward, outside the range of the step.
        with torch.autograd.set_multithreading_enabled(False):
            network(samples).backward(gradient)
        optimizer.step()

    return step


def digest(parameters: Sequence[Tensor]) -> str:
    """Return a hash that is equal for bit-identical parameters."""
    content = b"".join(parameter.detach().cpu().numpy().tobytes() for parameter in parameters)
    return hashlib.sha256(content).hexdigest()


def time_steps(step: Callable[[], None], place: Place, options: argparse.Namespace) -> Timing:
    """Warm up, then take one sample per step."""
    operator = f"rank {options.rank}"
    span = f"{options.variant}/{'step' if launched() else operator}"
    with place.span(f"warm-up {span}"):
        for _ in range(options.warmup):
            step()
    place.synchronise()
    samples = []
    for _ in range(options.iterations):
        with place.span(span):
            start = time.perf_counter()
            step()
            place.synchronise()
            samples.append(time.perf_counter() - start)
    count = options.warmup + options.iterations
    return summarize(options.variant, operator, samples, span=span, launches=count)


def train(torch: ModuleType, place: Place, options: argparse.Namespace) -> dict[str, Any]:
    """Train as one rank of the process group. Check the first step and time the others."""
    with place.span("check"):
        network = torch.nn.parallel.DistributedDataParallel(
            make_network(torch, options.width).to(place.device), gradient_as_bucket_view=True
        )
        parameters = list(network.parameters())
        step = make_step(torch, place, network, options)
        step()
        first = digest(parameters)
        expected = expected_parameters(torch, options.ranks, options.width)
        for parameter, value in zip(parameters, expected, strict=True):
            torch.testing.assert_close(parameter.detach().cpu().double(), value, rtol=0, atol=1e-5)
    timing = time_steps(step, place, options)
    return {"parameters": [first, digest(parameters)], "timing": timing}


def take_place(backend: str, device: int) -> tuple[ModuleType, Place, dict[str, str]]:
    """Return PyTorch, the device of this rank and its description. With gloo the device is the CPU."""
    if backend == "gloo":
        span = importlib.import_module("nvtx").annotate
        return importlib.import_module("torch"), Place("cpu", lambda: None, span), {}
    torch = import_torch()
    if device >= (gpus := torch.cuda.device_count()):
        raise Unavailable(f"this rank needs GPU {device}; PyTorch found {gpus} GPUs")
    torch.cuda.set_device(device)
    place = Place(f"cuda:{device}", torch.cuda.synchronize, torch.cuda.nvtx.range)
    return torch, place, platform(torch)


def join_group(options: argparse.Namespace, variants: Sequence[str]) -> tuple[list[dict[str, Any]], Any]:
    """Join the other ranks and train each variant. Return the results of this rank and the shared store."""
    device = int(os.environ["LOCAL_RANK"]) if launched() else options.rank
    torch, place, measured_on = take_place(options.backend, device)
    if launched():
        store, _, _ = next(torch.distributed.rendezvous("env://"))
    else:
        store = torch.distributed.FileStore(str(options.folder / "store"), options.ranks)
    store.set_timeout(DEADLINE)
    torch.distributed.init_process_group(
        options.backend, store=store, rank=options.rank, world_size=options.ranks, timeout=DEADLINE
    )
    results = []
    for options.variant in variants:
        results.append({**train(torch, place, options), "platform": measured_on})
    # The network is in a reference cycle and keeps the group alive, whose threads would outlive Python.
    gc.collect()
    torch.distributed.destroy_process_group()
    return results, store


def start_rank(options: argparse.Namespace, variant: str, rank: int, folder: Path) -> subprocess.Popen[bytes]:
    """Start one rank. Its stdin closes when this process ends.

    Its stdout goes to stderr, because NCCL writes to stdout.
    """
    own = {"variant": variant, "backend": options.backend, "rank": rank, "folder": folder}
    values = {**counted(options, COUNTS), **own}
    argv = [sys.executable, __file__, *(f"--{name}={value}" for name, value in values.items())]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=sys.stderr)


def run_variant(options: argparse.Namespace, variant: str) -> list[dict[str, Any]]:
    """Run all ranks of one variant and return their results. Raises AssertionError if they differ."""
    with tempfile.TemporaryDirectory(prefix="nsyswrap-ddp-") as name, ExitStack() as started:
        folder, count = Path(name), options.ranks
        ranks = [started.enter_context(start_rank(options, variant, rank, folder)) for rank in range(count)]
        return agreeing(await_ranks(ranks, folder))


def agreeing(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the results of all ranks. Raises AssertionError if the parameters differ between ranks."""
    for rank, result in enumerate(results):
        if result["parameters"] != results[0]["parameters"]:
            raise AssertionError(f"the parameters of rank {rank} differ from those of rank 0")
    return results


def launched() -> bool:
    """Return True if torchrun or a similar launcher started this process as one rank."""
    return {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR"} <= set(os.environ)


def run_launched(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Run as one rank of the launcher's group. Return the results of all ranks, variant by variant."""
    options.rank, options.ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    own, store = join_group(options, chosen(options, VARIANTS))
    store.set(f"results/{options.rank}", json.dumps(own))
    every = [json.loads(store.get(f"results/{rank}")) for rank in range(options.ranks)]
    return [result for results in zip(*every, strict=True) for result in agreeing(list(results))]


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run every requested variant and return the timings of all ranks."""
    if launched():
        results = run_launched(options)
    elif options.backend == "nccl" and options.ranks > (gpus := import_torch().cuda.device_count()):
        raise Unavailable(f"{options.ranks} ranks need as many GPUs; PyTorch found {gpus}")
    else:
        results = [
            result for variant in chosen(options, VARIANTS) for result in run_variant(options, variant)
        ]
    timings = {"timings": [result["timing"] for result in results]}
    return {**counted(options, COUNTS), **results[0]["platform"], **timings}


if __name__ == "__main__":
    parser = make_parser(__doc__, VARIANTS, counts=COUNTS, builds=False)
    # Options for the processes that this one starts. gloo is for tests without a GPU.
    parser.add_argument("--backend", choices=("nccl", "gloo"), default="nccl", help=SUPPRESS)
    parser.add_argument("--rank", type=int, help=SUPPRESS)
    parser.add_argument("--folder", type=Path, help=SUPPRESS)
    arguments = parser.parse_args()
    if launched():
        with redirect_stdout(sys.stdout if os.environ["RANK"] == "0" else None):
            status = main("ddp", arguments, measure)
        if status:  # skip the destructors, because those of NCCL may wait for the other ranks
            os._exit(status)
        sys.exit()
    if arguments.rank is None:
        sys.exit(main("ddp", arguments, measure))
    leave_result(arguments.folder, arguments.rank, lambda: join_group(arguments, arguments.variants)[0][0])
