"""What --modules costs the host in each call of a module, beside the host's time for a step.

    python tests/bench/modules.py

A Llama of 16 layers that are so narrow that hardly anything is computed is trained on the CPU: what is left
is the work of PyTorch on the host, which a GPU waits for where a program is launch-bound. A tool that does
nothing stands in for nsys: what nsys itself takes to write a range is not in these figures, nor are the
ranges that autograd writes with CUDA. The least of many times counts, as other work only adds to it.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, TypeAlias

torch: Any = importlib.import_module("torch")
nn = torch.nn
Tensor: TypeAlias = Any  # PyTorch may not be installed where types are checked
HOOK = Path(__file__).resolve().parents[2] / "nsyswrap" / "record" / "in_program" / "hook"
_LAYERS, _HIDDEN, _HEADS, _STEPS = 16, 64, 2, 300
_CALLS, _REPEATS = 300, 400
_TOOL = """
#include <stddef.h>
#include <stdint.h>
typedef const void* (*GetExportTable)(uint32_t);
typedef struct { size_t size; int (*get)(int, void****, unsigned*); } Callbacks;
static int number;
static void nothing(void) {}
static int* created(void) { return &number; }
static uint64_t started(void) { return 1; }
int InitializeInjectionNvtx2(GetExportTable table) {
  const Callbacks* callbacks = (const Callbacks*)table(1);
  void*** slots = 0; unsigned size = 0;
  if (!callbacks->get(5, &slots, &size)) return 0;
  for (unsigned i = 1; i < size; i++) *slots[i] = (void*)nothing;
  *slots[4] = (void*)started; *slots[10] = (void*)created; *slots[12] = (void*)created;
  return 1;
}
"""


def main() -> None:
    """Print the time of a step and of a call without and with marks."""
    with tempfile.TemporaryDirectory() as scratch:
        library = Path(scratch, "tool.so")
        source = library.with_suffix(".c")
        source.write_text(_TOOL)
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", source, "-o", library], check=True)
        torch.set_num_threads(1)
        plain = step_s(), call_s()
        os.environ |= {"NVTX_INJECTION64_PATH": str(library), "NSYSWRAP_HOOK_NOTES": scratch}
        sys.path.insert(0, str(HOOK))
        for module, call, *arguments in (("modules", "mark", 9), ("steps", "open_part")):
            getattr(importlib.import_module(f"nsyswrap_hook.{module}"), str(call))(*arguments)
        marked = step_s(), call_s()
    calls = sum(1 for _ in _llama().modules())
    more = marked[1] - plain[1]
    print(f"a step of {calls} calls: {1e3 * plain[0]:.2f} ms, marked {1e3 * marked[0]:.2f} ms")
    print(
        f"a call: {1e6 * plain[1]:.2f} us, marked {1e6 * marked[1]:.2f} us: {1e6 * more:.2f} us more, ",
        end="",
    )
    print(f"{100 * calls * more / plain[0]:.1f} % of a step")


class Norm(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(_HIDDEN))

    def forward(self, x: Tensor) -> Tensor:
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * (x * scale)


class Attention(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(_HIDDEN, _HIDDEN, bias=False) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = (one(x).view(batch, length, _HEADS, -1).transpose(1, 2) for one in (self.q, self.k, self.v))
        q, k = (one * 0.5 + torch.cat((-one[..., 16:], one[..., :16]), -1) * 0.5 for one in (q, k))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(mixed.transpose(1, 2).reshape(batch, length, _HIDDEN))


class Mlp(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(_HIDDEN, 4 * _HIDDEN, bias=False) for _ in range(2))
        self.down, self.act = nn.Linear(4 * _HIDDEN, _HIDDEN, bias=False), nn.SiLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.act(self.gate(x)) * self.up(x))


class Layer(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.before, self.after, self.attention, self.mlp = Norm(), Norm(), Attention(), Mlp()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.before(x))
        return x + self.mlp(self.after(x))


class Outer(nn.Module):  # type: ignore[misc, name-defined]
    """Calls a module that does nothing, as a layer calls its parts."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Identity()

    def forward(self, x: Tensor) -> float:
        inner, begun = self.inner, time.perf_counter()
        for _ in range(_CALLS):
            inner(x)
        return (time.perf_counter() - begun) / _CALLS


def call_s() -> float:
    """Return the time of a call of a module in another one, in seconds."""
    outer, x = Outer(), torch.ones(1, requires_grad=True)
    return min(float(outer(x)) for _ in range(_REPEATS))


def _llama() -> Any:  # noqa: ANN401 - of PyTorch
    return nn.Sequential(nn.Embedding(100, _HIDDEN), *(Layer() for _ in range(_LAYERS)), Norm())


def step_s() -> float:
    """Return the CPU time of a training step in seconds."""
    model, tokens, times = _llama(), torch.zeros(1, 8, dtype=torch.long), []
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    for _ in range(_STEPS):
        begun = time.process_time()
        model(tokens).sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        times.append(time.process_time() - begun)
    return min(times)


if __name__ == "__main__":
    main()
