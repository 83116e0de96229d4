"""Minimize a cost with JAX; one jitted step of large products, after a start-up of 2 s.

Healthy: JAX dispatches ahead of the GPU, and the cost is printed every tenth step.
"""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp
import nvtx
from pieces import start_up

if jax.default_backend() != "gpu":
    sys.exit("JAX finds no GPU")
start_up(2)
SIDE = 8192


def cost(weights: jax.Array, batch: jax.Array) -> jax.Array:
    return jnp.mean(jnp.square(jnp.tanh(batch @ weights)))


def descend(weights: jax.Array, batch: jax.Array) -> tuple[jax.Array, jax.Array]:
    value, slope = jax.value_and_grad(cost)(weights, batch)
    return value, weights - 0.1 * slope


step = jax.jit(descend)
keys = jax.random.split(jax.random.key(7))
weights, batch = (jax.random.normal(key, (SIDE, SIDE), dtype=jnp.bfloat16) for key in keys)
value, weights = step(weights, batch)
value.block_until_ready()
for number in range(50):
    with nvtx.annotate("descent"):
        value, weights = step(weights, batch)
        if number % 10 == 9:
            print(number, float(value))
weights.block_until_ready()
