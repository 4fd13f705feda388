"""Elementwise operations that XLA fuses to one kernel, for TensorFlow.

The operations are XLA clusters in a TensorFlow graph, without matrix products: on a
CPU, XLA computes matrix products more slowly than TensorFlow, much more slowly in
bfloat16. Inputs and outputs may be in half precision; the computation is in float32.
The gradient of each operation is a second cluster, which keeps only the input of the
first cluster.
"""

import math
from typing import Any

import tensorflow as tf

from transbeam.model.kernels.elementwise_reference import (
    plain_adam_update,
    plain_dropout,
)

_INV_SQRT_2 = math.sqrt(0.5)
_TANH_SCALE = math.sqrt(2 / math.pi)
_TANH_CUBE = 0.044715


def _island(function) -> Any:
    return tf.function(
        function, jit_compile=True, autograph=False, reduce_retracing=True
    )


def gelu(x, approximate):
    """See `transbeam.model.kernels.elementwise.gelu`."""
    x = tf.convert_to_tensor(x)
    # In float32 TensorFlow's graph optimizer fuses its own op with a matrix product.
    make = tf.nn.gelu if x.dtype == tf.float32 else _gelu

    @tf.custom_gradient
    def forward(x):
        return make(x, approximate), lambda upstream: _gelu_gradient(
            upstream, x, approximate
        )

    return forward(x)


def layer_normalization(x, gamma, beta, epsilon):
    """See `transbeam.model.kernels.elementwise.layer_normalization`."""

    @tf.custom_gradient
    def forward(x, gamma, beta):
        normal, mean, inverse = _normalize(x, gamma, beta, epsilon)

        def backward(upstream):
            to_x, to_gamma = _normalize_gradient(upstream, x, gamma, mean, inverse)
            to_gamma, to_beta = _sum_tokens(to_gamma), _sum_tokens(_wide(upstream))
            return to_x, tf.cast(to_gamma, gamma.dtype), tf.cast(to_beta, beta.dtype)

        return normal, backward

    return forward(*map(tf.convert_to_tensor, (x, gamma, beta)))


def dropout(x, rate, seed):
    """See `transbeam.model.kernels.elementwise.dropout`."""

    @tf.custom_gradient
    def forward(x):
        # The second-order gradient uses the same mask again.
        return _dropped(x, rate, seed), lambda upstream: dropout(upstream, rate, seed)

    x = tf.convert_to_tensor(x)
    # Flattened, so that inputs of different ranks do not need separate compilations.
    return tf.reshape(forward(tf.reshape(x, [-1])), tf.shape(x))


def adam_update(values, gradient, rates, betas):
    """See `transbeam.model.kernels.elementwise.adam_update`."""
    # As tensors, because a function of variables would be traced for each of them.
    return _adam_update(
        tuple(map(tf.convert_to_tensor, values)), gradient, rates, betas
    )


@_island
def _adam_update(*arguments):
    return plain_adam_update(*arguments)


@_island
def _dropped(x, rate, seed):
    return plain_dropout(x, rate, seed)


@_island
def _gelu(x, approximate):
    return tf.cast(tf.nn.gelu(_wide(x), approximate), x.dtype)


@_island
def _gelu_gradient(upstream, x, approximate):
    wide = _wide(x)
    if approximate:
        bend = tf.tanh(_TANH_SCALE * (wide + _TANH_CUBE * wide**3))
        slope = _TANH_SCALE * (1 + 3 * _TANH_CUBE * wide**2)
        steepness = 0.5 * (1 + bend) + 0.5 * wide * (1 - bend**2) * slope
    else:
        density = tf.exp(-0.5 * wide**2) / math.sqrt(2 * math.pi)
        steepness = 0.5 * (1 + tf.math.erf(wide * _INV_SQRT_2)) + wide * density
    return tf.cast(_wide(upstream) * steepness, x.dtype)


@_island
def _normalize(x, gamma, beta, epsilon):
    wide = _wide(x)
    mean = tf.reduce_mean(wide, axis=-1, keepdims=True)
    centred = wide - mean
    variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)
    inverse = tf.math.rsqrt(variance + epsilon)
    normal = centred * inverse * _wide(gamma) + _wide(beta)
    return tf.cast(normal, x.dtype), mean, inverse


@_island
def _normalize_gradient(upstream, x, gamma, mean, inverse):
    """Gradients of the input, and of `gamma` for each token, not yet summed."""
    upstream, normalised = _wide(upstream), (_wide(x) - mean) * inverse
    scaled = upstream * _wide(gamma)
    along = tf.reduce_mean(scaled * normalised, axis=-1, keepdims=True)
    level = tf.reduce_mean(scaled, axis=-1, keepdims=True)
    to_x = inverse * (scaled - level - normalised * along)
    return tf.cast(to_x, x.dtype), upstream * normalised


def _sum_tokens(x):
    """Sums `(..., D)` to `(D,)` by a matrix product, faster than a reduction."""
    x = tf.reshape(x, (-1, x.shape[-1]))
    ones = tf.ones((1, tf.shape(x)[0]), x.dtype)
    return tf.reshape(tf.matmul(ones, x), (x.shape[-1],))


def _wide(x):
    return tf.cast(x, "float32")
