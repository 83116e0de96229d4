"""Train a small network with JAX, where only the gradient is compiled and the update of each array is not.

Lost time: Python dispatches some hundred tiny operations a step, one by one.
"""

import json
import os
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp

STEPS, LAYERS = 40, 12
keys = jax.random.split(jax.random.PRNGKey(0), LAYERS)
parameters = [(0.05 * jax.random.normal(key, (256, 256)), jnp.zeros(256)) for key in keys]
moments = jax.tree_util.tree_map(jnp.zeros_like, parameters)
x = jax.random.normal(keys[0], (128, 256))


def loss_of(parameters: list, x: jax.Array) -> jax.Array:
    for weight, bias in parameters:
        x = jnp.tanh(x @ weight + bias)
    return jnp.mean(x**2)


gradient_of = jax.jit(jax.grad(loss_of))


def train_step(parameters: list, moments: list) -> tuple[list, list]:
    gradients = gradient_of(parameters, x)
    moments = jax.tree_util.tree_map(lambda m, g: 0.9 * m + 0.1 * g, moments, gradients)
    parameters = jax.tree_util.tree_map(
        lambda p, m, g: p - 1e-3 * m / (jnp.abs(g) + 1e-3), parameters, moments, gradients
    )
    return parameters, moments


for _ in range(2):
    parameters, moments = train_step(parameters, moments)
jax.block_until_ready(parameters)
started = time.perf_counter()
for _ in range(STEPS):
    parameters, moments = train_step(parameters, moments)
jax.block_until_ready(parameters)
truth = {"cause": "host dispatch of small operations outside jit", "steps": STEPS}
print("TRUTH", json.dumps({**truth, "seconds_per_step": (time.perf_counter() - started) / STEPS}))
