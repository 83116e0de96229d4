"""Train two blocks of a transformer in BF16 with JAX, compiled by XLA, with the fused attention of cuDNN."""

import jax
import jax.numpy as jnp
from common import report, start

STEPS, HEADS, WIDTH = 30, 16, 2048
Weights = list[dict[str, jax.Array]]


def block(x: jax.Array, w: dict[str, jax.Array]) -> jax.Array:
    shape = (*x.shape[:2], HEADS, WIDTH // HEADS)
    query, key, value = (part.reshape(shape) for part in jnp.split(x @ w["project"], 3, axis=-1))
    y = jax.nn.dot_product_attention(query, key, value, is_causal=True, implementation="cudnn")
    x = x + y.reshape(x.shape) @ w["merge"]
    return x + jax.nn.gelu(x @ w["up"]) @ w["down"]


def loss(weights: Weights, x: jax.Array) -> jax.Array:
    for w in weights:
        x = block(x, w)
    return jnp.square(x.astype(jnp.float32)).mean()


@jax.jit
def step(weights: Weights, x: jax.Array) -> Weights:
    gradients = jax.grad(loss)(weights, x)
    return jax.tree.map(lambda w, g: w - 1e-3 * g, weights, gradients)


sizes = {
    "project": (WIDTH, 3 * WIDTH),
    "merge": (WIDTH, WIDTH),
    "up": (WIDTH, 4 * WIDTH),
    "down": (4 * WIDTH, WIDTH),
}
key = jax.random.key(0)
weights = [
    {name: jax.random.normal(key, size, jnp.bfloat16) / 64 for name, size in sizes.items()} for _ in range(2)
]
x = jax.random.normal(key, (16, 1024, WIDTH), jnp.bfloat16)
for _ in range(3):
    weights = step(weights, x)
started = start(lambda: jax.block_until_ready(weights))
for _ in range(STEPS):
    weights = step(weights, x)
report("", STEPS, started, lambda: jax.block_until_ready(weights))
