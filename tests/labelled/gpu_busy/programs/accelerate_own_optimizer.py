"""Train a wide network with Accelerate in BF16, and an optimizer of three lines a parameter.

Avoidable: the optimizer's elementwise kernels; a fused AdamW does the same in one pass.
"""

import torch
from accelerate import Accelerator
from common import measure

CAUSE = "a handwritten optimizer loop"
STEPS, WIDTH = 20, 8192


class OwnAdam(torch.optim.Optimizer):
    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # noqa: ARG002 - the base's signature
        for p in self.param_groups[0]["params"]:
            state = self.state[p]
            state["m"] = 0.9 * state.get("m", torch.zeros_like(p)) + 0.1 * p.grad
            state["v"] = 0.999 * state.get("v", torch.zeros_like(p)) + 0.001 * p.grad * p.grad
            p.sub_(1e-5 * (state["m"] / 0.1) / ((state["v"] / 0.001).sqrt() + 1e-8))


layers = [torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(8)]
model = torch.nn.Sequential(*layers)
accelerator = Accelerator(mixed_precision="bf16")
model, optimizer = accelerator.prepare(model, OwnAdam(model.parameters(), {}))
x = torch.randn(2048, WIDTH, device=accelerator.device)


def step() -> None:
    accelerator.backward(model(x).mean())
    optimizer.step()
    optimizer.zero_grad()


measure(step, STEPS, CAUSE)
