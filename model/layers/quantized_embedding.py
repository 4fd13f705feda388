"""A layer's one table, in float or in whole numbers of eight bits."""

from typing import Any

import keras
from keras import ops


class Int8Table(keras.layers.Layer):
    """Base of layers whose one large weight can be kept in int8.

    Each vector of the table is divided by its largest number and rounded to -127..127,
    and has a scale of its own: a table of words, rare ones among them, has vectors of
    very different lengths. Products are made with the whole numbers and divided by the
    scales afterwards; nothing else is rounded.

    A subclass says which weight it is, adds it by `add_table` in its `build`, and hands
    what it made with it to `rescale`. Keras's `quantize` then does the rest, and a
    saved layer is built in int8 again.
    """

    # The weight's name, and the axis along which one vector of it lies.
    table_name = "embeddings"
    vector_axis = -1

    def add_table(self, shape: tuple[int, int], initializer: Any, **options) -> None:
        """Adds the weight, and its scales where the dtype policy asks for int8.

        Args:
            shape: Of the table.
            initializer: Keras initializer of a float one.
            options: Of `add_weight`, for a float one.
        """
        name = self.table_name
        if self.quantization_mode is None:
            table = self.add_weight(
                name=name, shape=shape, initializer=initializer, **options
            )
        else:
            self._is_quantized = True
            table = self.add_weight(
                name=name,
                shape=shape,
                initializer="zeros",
                dtype="int8",
                trainable=False,
            )
            self.table_scale = self.add_weight(
                name=f"{name}_scale",
                shape=(shape[1 + self.vector_axis],),
                initializer="ones",
                dtype="float32",
                trainable=False,
                autocast=False,
            )
        setattr(self, name, table)

    def rescale(self, x: Any, ids: Any = None) -> Any:
        """Rescales a product with the table's integers.

        Args:
            x: Vectors of the table, or products with all of them: `(..., V)`.
            ids: Which vectors these are, if `x` is vectors.

        Returns:
            `x`; if the table is in int8, float32.
        """
        if self.quantization_mode is None:
            return x
        scale = ops.convert_to_tensor(self.table_scale)
        if ids is not None:
            scale = ops.expand_dims(ops.take(scale, ids, axis=0), -1)
        return ops.cast(x, "float32") / scale

    def quantize(self, mode=None, type_check=True, config=None):
        """Rounds the table, in place; called by Keras's `model.quantize`.

        Args:
            mode: `"int8"`. `"int4"` gives the same: four bits are too few for a table
                whose vectors are also scores.
            type_check: Not used; a part of Keras's protocol.
            config: Not used; a part of Keras's protocol.
        """
        if mode not in ("int8", "int4"):
            raise NotImplementedError(f"{self.name} has no quantization mode {mode!r}")
        table = getattr(self, self.table_name)
        shape = tuple(table.shape)
        value, scale = keras.quantizers.abs_max_quantize(
            table, axis=self.vector_axis, to_numpy=True
        )
        delattr(self, self.table_name)
        self._is_quantized = True  # or the new policy would call this method again
        policy = f"int8_from_{self.dtype_policy.name}"
        self.dtype_policy = keras.dtype_policies.get(policy)
        self.add_table(shape, None)
        getattr(self, self.table_name).assign(value)
        self.table_scale.assign(ops.squeeze(scale, axis=self.vector_axis))

    def quantized_call(self, *args, **kwargs):
        return self.call(*args, **kwargs)
