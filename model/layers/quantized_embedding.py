"""Base of layers with one large matrix, in float or quantized to int8."""

from typing import Any

import keras
from keras import ops

from transbeam.model.layers.base_layer import ConfiguredLayer


class Int8Table(ConfiguredLayer):
    """Base of layers with one large weight that can be quantized to int8.

    Each vector of the table is divided by its largest absolute value and rounded to
    -127..127, with a scale per vector: the norms of the vectors of frequent and rare
    tokens differ greatly. Products are computed with the integers and divided by the
    scales afterwards; nothing else is rounded.

    A subclass sets the weight's name, creates the weight with `add_table` in `build`,
    and passes its results to `rescale`. Keras's `quantize` supports such a subclass,
    and a saved quantized layer is loaded as int8.
    """

    # The weight's name, and the axis of one vector in it.
    table_name = "embeddings"
    vector_axis = -1

    def add_table(self, shape: tuple[int, int], initializer: Any, **options) -> None:
        """Adds the weight, and its scales if the dtype policy is int8.

        Args:
            shape: Shape of the table.
            initializer: Keras initializer of a float table.
            options: Options of `add_weight` for a float table.
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
            x: Rows of the table, `(..., D)`, or products of vectors with all rows:
                `(..., V)`.
            ids: The token ids of the rows, if `x` contains rows of the table.

        Returns:
            The rescaled `x` in float32 if the table is int8, else `x` unchanged.
        """
        if self.quantization_mode is None:
            return x
        scale = ops.convert_to_tensor(self.table_scale)
        if ids is not None:
            scale = ops.expand_dims(ops.take(scale, ids, axis=0), -1)
        return ops.cast(x, "float32") / scale

    def quantize(self, mode=None, type_check=True, config=None):
        """Quantizes the table, in place; called by Keras's `model.quantize`.

        Args:
            mode: `"int8"`. `"int4"` is also stored in 8 bits: 4 bits are too few for a
                table that is also the output matrix.
            type_check: Not used; required by Keras's interface.
            config: Not used; required by Keras's interface.
        """
        if mode not in ("int8", "int4"):
            raise NotImplementedError(f"{self.name} has no quantization mode {mode!r}")
        table = getattr(self, self.table_name)
        shape = tuple(table.shape)
        value, scale = keras.quantizers.abs_max_quantize(
            table, axis=self.vector_axis, to_numpy=True
        )
        delattr(self, self.table_name)
        self._is_quantized = True  # otherwise the new policy would call this again
        policy = f"int8_from_{self.dtype_policy.name}"
        self.dtype_policy = keras.dtype_policies.get(policy)
        self.add_table(shape, None)
        getattr(self, self.table_name).assign(value)
        self.table_scale.assign(ops.squeeze(scale, axis=self.vector_axis))

    def quantized_call(self, *args, **kwargs):
        return self.call(*args, **kwargs)
