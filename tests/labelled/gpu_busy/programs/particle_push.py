"""Push charged particles through a magnetic field, with the Boris scheme in PyTorch.

Avoidable: some fifty elementwise kernels a step each read and write whole arrays.
"""

import torch
from common import measure

CAUSE = "a chain of elementwise kernels without fusion"
STEPS = 30
position, velocity, field = ([torch.rand(32 << 20, device="cuda") for _ in range(3)] for _ in range(3))
Vector = list[torch.Tensor]


def cross(a: Vector, b: Vector) -> Vector:
    return [a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3] for i in range(3)]


def step() -> None:
    half = [0.01 * part for part in field]
    square = half[0] ** 2 + half[1] ** 2 + half[2] ** 2
    turned = [v + c for v, c in zip(velocity, cross(velocity, half), strict=True)]
    bend = cross(turned, [2 * part / (1 + square) for part in half])
    for i in range(3):
        velocity[i] = velocity[i] + bend[i]
        position[i] = (position[i] + 0.1 * velocity[i]) % 1.0


measure(step, STEPS, CAUSE)
