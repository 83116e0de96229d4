"""Let a small transformer read a prompt, then write tokens one by one, with and without a CUDA graph.

A decoder of LAYERS layers and a vocabulary of 1000 tokens, with random weights
in float32, in PyTorch operations. Keys and values of all tokens so far are kept
in a cache. The variants are the two phases of every language model:

  prefill  all tokens of the prompt go through the layers at once
  decode   TOKENS steps: each takes one token, and writes the most likely next
  graph    the same steps, captured into a torch.cuda.CUDAGraph and replayed

What to look for in nsyswrap's output:

* Launches and Kernel Med in the closing table. prefill launches about as many
  kernels for the whole prompt as decode for a single token. Its kernels are
  large: matrix products with as many rows as the prompt has tokens.
* In decode API Med is above Kernel Med: the GPU waits for launches. A product
  of one row reads every weight for a single token.
* In graph a step is one cudaGraphLaunch. Program falls by the launch time that
  decode could not hide. nsys records each replay as a whole, so the kernels of
  the steps are not listed.
* `nsyswrap report --advice` on decode says launch-bound, and names graphs as
  the cure.
* The names: the same layer calls other kernels in prefill and in decode, as
  cuBLAS chooses by the number of rows (`gemm` against `gemv` or split-k).

A graph always reads and writes the same memory. So the token, its position and
the cache are tensors that every step changes in place.

Before anything is measured, prefill must agree with the CPU in float64, and the
tokens of decode with those of one prefill over prompt and answer. graph must
write the same tokens as decode. Tracing makes every launch slower, so quote the
samples of a run without nsys. The last line on stdout is the result as JSON,
times in microseconds.
"""

from __future__ import annotations

import sys
from functools import partial
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
VARIANTS = ("prefill", "decode", "graph")
NEEDS = ("torch", "gpu")
LOOK_FOR = (
    "'prefill' works on the whole prompt with fewer launches than 'decode' needs for its tokens. In 'decode' "
    "API Med is above Kernel Med: the GPU waits for launches. 'graph' writes the same tokens with one launch "
    "each."
)
COUNTS = {
    "prompt": (1, 512, "tokens of the prompt"),
    "tokens": (1, 8, "tokens to write"),
    "layers": (1, 4, "layers of the model"),
    "warmup": (0, 5, "untimed calls of each variant"),
    "iterations": (1, 20, "timed calls of each variant"),
}
OPERATORS = {"prefill": "prompt", "decode": "tokens", "graph": "tokens"}
SEED = 13
WIDTH, HEADS, VOCABULARY = 512, 8, 1000
TOLERANCE = {"rtol": 1e-3, "atol": 1e-3}


def make_weights(torch: ModuleType, layers: int, context: int) -> list[Tensor]:
    """Return the weights on the CPU in float64: of tokens and positions, then four matrices a layer."""
    generator = torch.Generator().manual_seed(SEED)

    def matrix(rows: int, columns: int, deviation: float) -> Tensor:
        made: Tensor = deviation * torch.randn(rows, columns, generator=generator, dtype=torch.float64)
        return made

    shapes = ((WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH))
    return [
        matrix(VOCABULARY, WIDTH, 0.1),
        matrix(context, WIDTH, 0.1),
        *(matrix(*shape, shape[0] ** -0.5) for _ in range(layers) for shape in shapes),
    ]


class Model:
    """A decoder with a cache of keys and values, which has the place and the type of its weights."""

    def __init__(self, torch: ModuleType, weights: list[Tensor]) -> None:
        """Take the weights of ``make_weights``; the cache begins empty."""
        self.torch = torch
        self.tokens, self.positions, *rest = weights
        self.layers = [rest[first : first + 4] for first in range(0, len(rest), 4)]
        shape = (2, len(self.positions), HEADS, WIDTH // HEADS)
        self.caches = [weights[0].new_zeros(shape) for _ in self.layers]
        self.places = torch.arange(len(self.positions), device=self.tokens.device)

    def __call__(self, tokens: Tensor, at: Tensor) -> Tensor:
        """Return the logits after each token, (tokens, VOCABULARY); ``at`` has the tokens' positions."""
        functional = self.torch.nn.functional
        x = self.tokens[tokens] + self.positions[at]
        seen = self.places <= at[:, None]
        for (project, out, up, down), (keys, values) in zip(self.layers, self.caches, strict=True):
            projected = functional.layer_norm(x, (WIDTH,)) @ project
            query, key, value = projected.view(len(tokens), 3, HEADS, -1).unbind(1)
            keys.index_copy_(0, at, key)
            values.index_copy_(0, at, value)
            heads = (part.transpose(0, 1)[None] for part in (query, keys, values))
            mixed = functional.scaled_dot_product_attention(*heads, attn_mask=seen)
            x = x + mixed[0].transpose(0, 1).reshape(len(tokens), WIDTH) @ out
            x = x + functional.gelu(functional.layer_norm(x, (WIDTH,)) @ up) @ down
        logits: Tensor = functional.layer_norm(x, (WIDTH,)) @ self.tokens.T
        return logits


class Answer:
    """The tokens that a model writes after a prompt, one step at a time."""

    def __init__(self, torch: ModuleType, model: Model, prompt: Tensor, tokens: int) -> None:
        """Read the prompt: the first of the tokens is what it makes most likely."""
        self.model, self.prompt = model, prompt
        self.places = torch.arange(len(prompt), device=prompt.device)
        self.first = self.prefill()[-1:].argmax(1)
        self.token, self.at = self.first.clone(), self.places[-1:] + 1
        self.written = prompt.new_zeros(tokens)

    def prefill(self) -> Tensor:
        """Return the logits after each token of the prompt."""
        return self.model(self.prompt, self.places)

    def step(self) -> Tensor:
        """Take one token and write the next. All tensors stay where they are, as a graph needs."""
        logits = self.model(self.token, self.at)
        self.token.copy_(logits.argmax(1))
        self.written.index_copy_(0, self.at - len(self.prompt), self.token)
        self.at.add_(1)
        return self.written

    def write(self, step: Operation) -> Tensor:
        """Write all tokens by ``step``, which is the method or its replay."""
        self.token.copy_(self.first)
        self.at.fill_(len(self.prompt))
        for _ in range(len(self.written)):
            step()
        return self.written


def check(torch: ModuleType, answer: Answer, reference: Model, steps: dict[str, Operation]) -> None:
    """Raise AssertionError unless prefill agrees with ``reference``, and the tokens with prefill."""
    prompt, length = answer.prompt.cpu(), len(answer.prompt)
    expected = reference(prompt, torch.arange(length))
    torch.testing.assert_close(answer.prefill().cpu().double(), expected, **TOLERANCE)
    written = {name: answer.write(step).cpu().clone() for name, step in steps.items()}
    for tokens in written.values():
        whole = torch.cat([prompt, answer.first.cpu(), tokens])
        logits = reference(whole[:-1], torch.arange(len(whole) - 1))[length:]
        best = logits.max(1).values
        torch.testing.assert_close(logits.gather(1, tokens[:, None])[:, 0], best, **TOLERANCE)
        torch.testing.assert_close(tokens, next(iter(written.values())), rtol=0, atol=0)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Check the requested variants, then time them."""
    torch = import_torch()
    weights = make_weights(torch, options.layers, options.prompt + options.tokens)
    generator = torch.Generator().manual_seed(SEED)
    prompt = torch.randint(VOCABULARY, (options.prompt,), generator=generator).cuda()
    variants = chosen(options, VARIANTS)
    with torch.no_grad():
        with torch.cuda.nvtx.range("check"):
            model = Model(torch, [weight.float().cuda() for weight in weights])
            answer = Answer(torch, model, prompt, options.tokens)
            steps: dict[str, Operation] = {}
            if "decode" in variants:
                steps["decode"] = answer.step
            if "graph" in variants:
                answer.at.fill_(len(prompt))  # capturing runs a step
                steps["graph"] = capture_graph(torch, answer.step)
            check(torch, answer, Model(torch, weights), steps)
        timings = [
            time_operation(
                torch,
                partial(answer.write, steps[variant]) if variant in steps else answer.prefill,
                variant=variant,
                operator=OPERATORS[variant],
                warmup=options.warmup,
                iterations=options.iterations,
            )
            for variant in variants
        ]
    return {**counted(options, COUNTS), **platform(torch), "timings": timings}


if __name__ == "__main__":
    parser = make_parser(__doc__, VARIANTS, counts=COUNTS, builds=False)
    sys.exit(main("inference", parser.parse_args(), measure))
