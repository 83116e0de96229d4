"""Train a convolutional network with JAX's example libraries.

What repeats: 100 updates, without any range.
"""

import jax
import jax.numpy as jnp
from jax.example_libraries import optimizers, stax
from truth import begin, end, tell

UPDATES = 100
BATCH = 512

initialize, predict = stax.serial(
    stax.Conv(64, (3, 3), padding="SAME"),
    stax.Relu,
    stax.Conv(128, (3, 3), strides=(2, 2), padding="SAME"),
    stax.Relu,
    stax.Flatten,
    stax.Dense(512),
    stax.Relu,
    stax.Dense(10),
    stax.LogSoftmax,
)
start, apply_update, parameters_of = optimizers.momentum(1e-3, mass=0.9)


def loss(parameters: list, images: jax.Array, classes: jax.Array) -> jax.Array:
    return -jnp.mean(jnp.sum(predict(parameters, images) * jax.nn.one_hot(classes, 10), axis=1))


@jax.jit
def update(step: int, state: optimizers.OptimizerState, images: jax.Array, classes: jax.Array) -> tuple:
    value, gradient = jax.value_and_grad(loss)(parameters_of(state), images, classes)
    return value, apply_update(step, gradient, state)


key = jax.random.PRNGKey(0)
_, parameters = initialize(key, (-1, 32, 32, 3))
state = start(parameters)
images = jax.random.normal(key, (4, BATCH, 32, 32, 3))
classes = jax.random.randint(key, (4, BATCH), 0, 10)
jax.block_until_ready((state, images, classes))

begin("updates")
for step in range(UPDATES):
    value, state = update(step, state, images[step % 4], classes[step % 4])
jax.block_until_ready(state)
end("updates", UPDATES)
print(float(value))
tell("updates")
