"""Iterate an echo state network with JAX, on arrays that numpy made.

Avoidable: jax_enable_x64 is on and nobody asked for FP64 digits, so products and tanh are FP64.
"""

import jax
import jax.numpy as jnp
import numpy as np
from common import report, start

CAUSE = "FP64 by accident, from jax_enable_x64 and numpy's default type"
STEPS = 25
jax.config.update("jax_enable_x64", True)  # noqa: FBT003 - JAX's own signature
random = np.random.default_rng(0)
weights = jnp.asarray(random.normal(size=(4096, 4096)) / 64)
state = jnp.asarray(random.random((4096, 4096)))


@jax.jit
def step(state: jax.Array) -> jax.Array:
    for _ in range(4):
        state = jnp.tanh(state @ weights)
    return state


for _ in range(3):
    state = step(state)
started = start(lambda: jax.block_until_ready(state))
for _ in range(STEPS):
    state = step(state)
report(CAUSE, STEPS, started, lambda: jax.block_until_ready(state))
