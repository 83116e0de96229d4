"""Train beside a large replay buffer of Python objects, with a cyclic graph of objects in each step.

Lost time: full garbage collections, which visit the whole buffer and stop the training thread.
"""

import gc
import time

import torch
from common import report, start

STEPS = 40


class Node:
    def __init__(self, value: int) -> None:
        self.links = [self]  # a cycle
        self.value = value


gc.disable()
replay = [Node(number) for number in range(1_000_000)]
gc.enable()
gc.collect()
pauses: list[float] = []


def time_pause(phase: str, _info: dict[str, int]) -> None:
    pauses.append(-time.perf_counter() if phase == "start" else time.perf_counter())


gc.callbacks.append(time_pause)
model = torch.nn.Linear(4096, 4096, dtype=torch.bfloat16, device="cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(4096, 4096, dtype=torch.bfloat16, device="cuda")


def train_step() -> None:
    episode = [Node(number) for number in range(40_000)]
    loss = model(x).square().mean() * len(episode)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


train_step()
pauses.clear()
started = start()
for _ in range(STEPS):
    train_step()
seconds = sum(pauses)
report("garbage collection pauses", STEPS, started, collecting_seconds_per_step=seconds / STEPS)
gc.disable()
