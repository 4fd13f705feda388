"""The update of AdamW in one kernel."""

import numpy as np
import pytest
from keras import ops

from transbeam.model.kernels.elementwise import adam_update
from transbeam.model.kernels.elementwise_reference import plain_adam_update


@pytest.mark.quick_on_jax
def test_kernel_is_the_reference() -> None:
    random = np.random.default_rng(0)
    values = tuple(
        ops.array(np.square(x) if place == 2 else x)
        for place, x in enumerate(random.normal(size=(3, 5, 7)).astype("float32"))
    )
    gradient = ops.array(random.normal(size=(5, 7)).astype("float32"))
    rates = tuple(map(ops.array, np.array([0.1, 0.01, 1e-6], "float32")))
    found = adam_update(values, gradient, rates, (0.9, 0.98))
    expected = plain_adam_update(values, gradient, rates, (0.9, 0.98))
    for ours, reference in zip(found, expected, strict=True):
        # XLA multiplies and adds in one rounding.
        np.testing.assert_allclose(ours, reference, rtol=2e-6, atol=1e-7)
