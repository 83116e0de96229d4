"""Repair a slow PyTorch training step rung by rung, with the same losses on every rung.

A network of LAYERS linear layers with GELUs learns to return its input. Each
variant mends one thing in the one before, and keeps what was mended:

  start      everything that makes training slow
  loader     worker processes load batches into pinned memory, and a stream of
             its own copies each batch during the step before it
  fused      GELU is one kernel, not eight operations
  optimizer  Adam is one kernel for all parameters, not a loop over them
  no_item    losses and gradient norms stay on the GPU, without .item()
  graph      the step is captured once and replayed as a CUDA graph

What to look for in nsyswrap's output:

* The table of the rungs. Repairs is a finding of the rung above, as
  `nsyswrap report --advice` has it, and Share the part of the step that it
  concerns. Change, Largest Part and Saved are those of `nsyswrap compare`.
* start waits for input: it prepares sample after sample, and copies the batch
  from pageable memory. loader hides both, and its range `load` is short.
* fused and optimizer launch fewer kernels (Launches). These read memory less
  often, too.
* Each .item() waits for the GPU, which has nothing to do until the next launch.
  After no_item nothing waits, but the GPU still waits for the host. So no_item
  saves little, and less than the host's pace varies: it can come out slower.
* graph: one launch a step, and no Python between kernels. So it saves more than
  the launches. The GPU is then busy, unless the workers are too slow for it.
* Only ten steps are recorded, as by `nsyswrap profile --steps 4-13`.
  `nsyswrap report RUN -r step_budget` has a row for each, and
  `-r nvtx_tree` has load, forward, backward, log and optimizer.

The log of the first steps must agree with a training in float64 on the CPU to
0.2 %, before anything is timed: the losses and the norms of all gradients. A
step is timed by CUDA events, from the end of one to that of the next, as the
last rungs do not wait for it. The last line on stdout is the result as JSON,
with the losses of all steps, times in microseconds.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

from nsyswrap.record.in_program.compilers import capture_graph
from nsyswrap.record.in_program.script import chosen, counted, main, make_parser, platform, summarize
from nsyswrap.record.in_program.torch_extension import import_torch

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator
    from types import ModuleType
    from typing import TypeAlias

    from torch import Tensor

    Step: TypeAlias = Callable[[Tensor], Tensor]

# The runner reads these literals without importing this file.
VARIANTS = ("start", "loader", "fused", "optimizer", "no_item", "graph")
NEEDS = ("torch", "gpu")
LADDER = {
    "loader": "waiting_for_input",
    "fused": "launch_bound",
    "optimizer": "launch_bound",
    "no_item": "synchronizing",
    "graph": "launch_bound",
}
# Ten timed steps; the others run, and are not recorded.
NSYS = {
    "start": {"steps": "4-13", "step_at": "nvtx:step"},
    "loader": {"steps": "4-13", "step_at": "nvtx:step"},
    "fused": {"steps": "4-13", "step_at": "nvtx:step"},
    "optimizer": {"steps": "4-13", "step_at": "nvtx:step"},
    "no_item": {"steps": "4-13", "step_at": "nvtx:step"},
    "graph": {"steps": "4-13", "step_at": "nvtx:step"},
}
LOOK_FOR = (
    "Repairs is a finding of the rung above, and rung by rung the step takes less time. First the GPU waits "
    "for input, then for the host. In 'graph' it is busy. Until then the host sets the pace, which varies "
    "from run to run: 'no_item' saves less than that."
)
COUNTS = {
    "layers": (1, 4, "layers of the network"),
    "batch": (1, 128, "samples in a batch"),
    "warmup": (2, 3, "untimed steps, whose losses are checked"),
    "iterations": (1, 20, "timed steps"),
}
SEED = 5
STEP = "step"  # the range and the operator, the same on every rung
RATE = 1e-4  # of learning
WIDTH = 3072  # of a layer and of a sample
SAMPLES, MEAN, SCALE = 512, 0.5, 4.0
WORKERS = 8
SPARE = 2  # batches: the end of a loader, which waits for its workers, is no part of a step
TOLERANCE = {"rtol": 2e-3, "atol": 1e-6}


class Samples:
    """A data set of COUNT samples, each prepared when it is asked for."""

    def __init__(self, torch: ModuleType, count: int) -> None:
        """Make the data that the samples are taken from, in turns."""
        generator = torch.Generator().manual_seed(SEED)
        self.data = torch.rand(min(count, SAMPLES), WIDTH, generator=generator)
        self.count = count

    def __len__(self) -> int:
        """Return the number of samples."""
        return self.count

    def __getitem__(self, index: int) -> Tensor:
        """Return a sample, shape (WIDTH,), scaled."""
        sample: Tensor = (self.data[index % len(self.data)] - MEAN) * SCALE
        return sample


def batches(torch: ModuleType, samples: Samples, size: int, *, ahead: bool) -> Iterator[Tensor]:
    """Yield the batches on the GPU, shape (size, WIDTH): when they are needed, or loaded and copied ahead."""
    loader = torch.utils.data.DataLoader
    if not ahead:
        for batch in loader(samples, size):
            yield batch.cuda()
        return
    copies, waiting = torch.cuda.Stream(), None
    for batch in loader(samples, size, num_workers=min(WORKERS, os.cpu_count() or 1), pin_memory=True):
        ready = waiting
        torch.cuda.current_stream().wait_stream(copies)
        with torch.cuda.stream(copies):
            waiting = batch.cuda(non_blocking=True)
        if ready is not None:
            ready.record_stream(torch.cuda.current_stream())
            yield ready
    torch.cuda.current_stream().wait_stream(copies)
    if waiting is not None:
        yield waiting


def gelu(torch: ModuleType, x: Tensor) -> Tensor:
    """Return the tanh approximation of GELU, by eight operations."""
    result: Tensor = 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x**3)))
    return result


def make_weights(torch: ModuleType, layers: int) -> list[Tensor]:
    """Return the weights of the layers on the CPU, each (WIDTH, WIDTH)."""
    generator = torch.Generator().manual_seed(SEED)
    deviation = (2 / WIDTH) ** 0.5
    return [deviation * torch.randn(WIDTH, WIDTH, generator=generator) for _ in range(layers)]


class Training:
    """A network and its optimizer. Each step has a row in a log: its loss, and the norm of each gradient."""

    def __init__(self, torch: ModuleType, weights: list[Tensor], repaired: tuple[str, ...]) -> None:
        """Begin with these weights, which decide the device and the type."""
        self.torch, self.repaired = torch, repaired
        self.weights = [weight.clone().requires_grad_() for weight in weights]
        self.biases = [weight.new_zeros(WIDTH).requires_grad_() for weight in weights]
        self.parameters = [*self.weights, *self.biases]
        adam = {"fused": True} if "optimizer" in repaired else {"foreach": False}
        self.optimizer = torch.optim.Adam(self.parameters, lr=RATE, capturable="graph" in repaired, **adam)

    def step(self, batch: Tensor) -> Tensor:
        """Train with one batch, and return the row of the log."""
        span = self.torch.cuda.nvtx.range
        with span("forward"):
            loss = self.loss(batch)
        with span("backward"):
            loss.backward()  # type: ignore[no-untyped-call, unused-ignore]
        with span("log"):
            row = self.row(loss.detach())
        with span("optimizer"):
            self.optimizer.step()
            self.optimizer.zero_grad()
        return row

    def loss(self, x: Tensor) -> Tensor:
        """Return the mean squared difference between x and what the network makes of it."""
        functional = self.torch.nn.functional
        y = functional.linear(x, self.weights[0], self.biases[0])
        for weight, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            is_fused = "fused" in self.repaired
            y = functional.gelu(y, approximate="tanh") if is_fused else gelu(self.torch, y)
            y = functional.linear(y, weight, bias)
        result: Tensor = functional.mse_loss(y, x)
        return result

    def row(self, loss: Tensor) -> Tensor:
        """Return the loss and the norms: on the GPU, or on the host, where each waits for the GPU."""
        figures = chain([loss], (p.grad.norm() for p in self.parameters if p.grad is not None))
        row: Tensor
        if "no_item" in self.repaired:
            row = self.torch.stack(list(figures))
        else:
            row = self.torch.tensor([figure.item() for figure in figures])
        return row


def captured(torch: ModuleType, training: Training, size: int) -> Step:
    """Capture a step with ``size`` samples as a graph, and return a step that replays it."""
    # Capturing runs a step. Its gradients are 0, so it changes no more than the optimizer's state.
    kept = training.weights[0].new_zeros(size, WIDTH)
    replay = capture_graph(torch, partial(training.step, kept))
    for state in training.optimizer.state.values():
        for value in state.values():
            value.zero_()

    def step(batch: Tensor) -> Tensor:
        kept.copy_(batch)
        return replay().clone()

    return step


def expected_log(torch: ModuleType, options: argparse.Namespace, weights: list[Tensor]) -> Tensor:
    """Return the log of the warm-up in float64 on the CPU, by PyTorch's own GELU and Adam."""
    training = Training(torch, [weight.double() for weight in weights], ("fused", "no_item"))
    samples = Samples(torch, options.warmup * options.batch)
    loader = torch.utils.data.DataLoader(samples, options.batch)
    log: Tensor = torch.stack([training.step(batch.double()) for batch in loader])
    return log


def run_steps(
    torch: ModuleType, step: Step, feed: Iterator[Tensor], count: int
) -> tuple[list[float], list[Tensor]]:
    """Return the seconds from the end of each step to that of the next, on the GPU, and the log."""
    ends, log = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)], []
    torch.cuda.synchronize()
    ends[0].record()
    for end in ends[1:]:
        with torch.cuda.nvtx.range(STEP):
            with torch.cuda.nvtx.range("load"):
                batch = next(feed)
            log.append(step(batch))
            end.record()
    torch.cuda.synchronize()
    return [1e-3 * before.elapsed_time(end) for before, end in pairwise(ends)], log


def climb(
    torch: ModuleType, options: argparse.Namespace, variant: str, weights: list[Tensor], expected: Tensor
) -> dict[str, Any]:
    """Check the log of the warm-up, then time the steps after it. Return the timing, with all losses."""
    repaired = VARIANTS[1 : VARIANTS.index(variant) + 1]
    steps = options.warmup + options.iterations
    samples = Samples(torch, (steps + SPARE) * options.batch)
    feed = batches(torch, samples, options.batch, ahead="loader" in repaired)
    training = Training(torch, [weight.cuda() for weight in weights], repaired)
    step: Step = training.step
    if "graph" in repaired:
        step = captured(torch, training, options.batch)
    _, log = run_steps(torch, step, feed, options.warmup)
    with torch.cuda.nvtx.range("check"):
        torch.testing.assert_close(torch.stack(log).cpu().double(), expected, **TOLERANCE)
    samples_s, more = run_steps(torch, step, feed, options.iterations)
    losses = torch.stack([*log, *more])[:, 0].tolist()
    return {**summarize(variant, STEP, samples_s, span=STEP, launches=steps), "losses": losses}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Climb the requested rungs one by one."""
    torch = import_torch()
    torch.set_float32_matmul_precision("high")
    weights = make_weights(torch, options.layers)
    expected = expected_log(torch, options, weights)
    timings = [climb(torch, options, variant, weights, expected) for variant in chosen(options, VARIANTS)]
    return {**counted(options, COUNTS), **platform(torch), "timings": timings}


if __name__ == "__main__":
    parser = make_parser(__doc__, VARIANTS, counts=COUNTS, builds=False)
    sys.exit(main("ladder", parser.parse_args(), measure))
