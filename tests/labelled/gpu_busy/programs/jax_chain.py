"""Step a reaction and diffusion on a large grid with JAX, one operation at a time.

Avoidable: without jax.jit each operation is a kernel that reads and writes the whole grid.
"""

import jax
import jax.numpy as jnp
from common import report, start

CAUSE = "a chain of elementwise kernels outside jit"
STEPS, SIDE = 20, 16384
Fields = tuple[jax.Array, jax.Array]


def spread(a: jax.Array) -> jax.Array:
    return jnp.roll(a, 1, 0) + jnp.roll(a, -1, 0) + jnp.roll(a, 1, 1) + jnp.roll(a, -1, 1) - 4 * a


def step(u: jax.Array, v: jax.Array) -> Fields:
    reaction = u * v * v
    return u + 0.16 * spread(u) - reaction + 0.06 * (1 - u), v + 0.08 * spread(v) + reaction - 0.122 * v


u = jax.random.uniform(jax.random.key(0), (SIDE, SIDE))
v = 1 - u
for _ in range(3):
    u, v = step(u, v)
started = start(lambda: jax.block_until_ready((u, v)))
for _ in range(STEPS):
    u, v = step(u, v)
report(CAUSE, STEPS, started, lambda: jax.block_until_ready((u, v)))
