"""Ablation: a model's loss without single heads, sub-layers or blocks.

What is ablated is an input of the computation, a vector of switches, so that one traced
function serves all ablations of a model.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from transbeam.configs.base.errors import ArtifactError
from transbeam.model.base.activation_hooks import hooked, recorded
from transbeam.model.layers.attention.base_attention import Attention
from transbeam.model.layers.block import SUBLAYERS, TransformerBlock
from transbeam.model.layers.residual import Residual

HEADS, UPDATE = "/heads", "_residual/update"

# From a batch and the switches to the costs and the numbers of targets of each record.
Evaluate = Callable[[Any, Any], tuple[Any, Any]]


@dataclass(frozen=True)
class Ablation:
    """A part of a model that is ablated.

    Attributes:
        layer: The path of a sub-layer, such as `encoder_layer_0/self_attention`, or of
            a block, `encoder_layer_0`.
        head: A head of an attention layer, from 0; None for the whole sub-layer or
            block.
    """

    layer: str
    head: int | None = None


@dataclass(frozen=True)
class AblationSwitches:
    """The switches of a model's heads and sub-layers.

    A switched off head is replaced before the output projection, whose bias therefore
    stays, as do the other heads. A switched off sub-layer adds nothing, or its mean, to
    the residual stream: its whole update goes, with the bias of its last layer and
    behind the residual connection's scale and dropout. In a block that is switched off
    all sub-layers are; with `norm.placement: post` its norms stay.

    Attributes:
        sizes: The number of switches of each activation, by the activation's path:
            heads of an attention layer, or 1 of an update.

    Example:
    >>> from transbeam.configs.schema.model import EncoderConfig
    >>> from transbeam.model.encoder import build_encoder
    >>> encoder = build_encoder(EncoderConfig(num_layers=1, hidden_dim=8), 10)
    >>> switches = AblationSwitches.from_model(encoder)
    >>> list(switches.sizes.values())
    [4, 1, 1]
    >>> switches.turn_off(Ablation("encoder_layer_0/self_attention", 2)).astype(int)
    array([0, 0, 1, 0, 0, 0])
    >>> ones = np.ones((1, 3), "int32")
    >>> inputs = {"token_ids": ones, "padding_mask": ones}
    >>> with switches.applied(switches.turn_off(Ablation("encoder_layer_0"))):
    ...     outputs = encoder(inputs)["sequence_output"]

    References:
        - [Michel et al., 2019](https://arxiv.org/abs/1905.10650), equation 1 (heads)
        - [Wang et al., 2022](https://arxiv.org/abs/2211.00593), section 2.1 (means)
    """

    sizes: Mapping[str, int]

    @classmethod
    def from_model(cls, model: keras.Model) -> "AblationSwitches":
        """Finds the heads and sub-layers of all blocks of a model."""
        sizes = {}
        for block in model._flatten_layers():
            if not isinstance(block, TransformerBlock):
                continue
            for name in SUBLAYERS:
                layer = getattr(block, name)
                if isinstance(layer, Attention):
                    sizes[layer.path + HEADS] = layer.num_heads
                residual = getattr(block, f"{name}_residual")
                if isinstance(residual, Residual):
                    sizes[f"{residual.path}/update"] = 1
        return cls(sizes)

    def ablations(self) -> list[Ablation]:
        """Lists every head, then every sub-layer, then every block."""
        heads = [
            Ablation(path.removesuffix(HEADS), head)
            for path, size in self.sizes.items()
            if path.endswith(HEADS)
            for head in range(size)
        ]
        updates = [path for path in self.sizes if path.endswith(UPDATE)]
        sublayers = [Ablation(path.removesuffix(UPDATE)) for path in updates]
        blocks = dict.fromkeys(layer.layer.rpartition("/")[0] for layer in sublayers)
        return [*heads, *sublayers, *map(Ablation, blocks)]

    def turn_off(self, *ablations: Ablation) -> np.ndarray:
        """Returns the switches: bool `(N,)`, true for what is ablated.

        Raises:
            ArtifactError: The model has no such layer or head.
        """
        off = np.zeros(sum(self.sizes.values()), bool)
        for ablation in ablations:
            numbers = self._numbers(ablation)
            if not numbers:
                raise ArtifactError(
                    f"{ablation}: the model has no such part; it has "
                    + ", ".join(self.sizes)
                )
            off[numbers] = True
        return off

    def _numbers(self, ablation: Ablation) -> list[int]:
        """Finds the switches of a part."""
        head, slices = ablation.head, self._slices()
        if head is None:
            updates = [path for path in slices if _is_within(path, ablation.layer)]
            return [slices[path].start for path in updates]
        path = ablation.layer + HEADS
        exists = head in range(self.sizes.get(path, 0))
        return [slices[path].start + head] if exists else []

    @contextmanager
    def applied(
        self, off: Any, means: Mapping[str, Any] | None = None
    ) -> Iterator[None]:
        """A context in which the model computes without what is switched off.

        Inside of a traced function `off` may be the function's argument.

        Args:
            off: bool `(N,)`, of `turn_off`.
            means: What takes an activation's place, by the activation's path: `(H, K)`
                of heads, `(D,)` of an update; see `mean_activations`. None for zeros.

        Raises:
            ArtifactError: An activation was not computed inside of the context, because
                the function was traced outside of it: nothing would be ablated.
        """
        off, slices, seen = ops.convert_to_tensor(off), self._slices(), set()

        def ablate(path: str, value: Any) -> Any:
            if path not in slices:
                return value
            seen.add(path)
            mean = ops.zeros_like(value)
            if means is not None:
                mean = ops.cast(means[path], value.dtype)
            # One switch for each head (H, 1), or one for the whole update (1,). Not a
            # product: what is not switched off stays as it is to the last bit.
            switch = off[slices[path]]
            if path.endswith(HEADS):
                switch = ops.expand_dims(switch, -1)
            return ops.where(switch, mean, value)

        with hooked(ablate):
            yield
        if left := [path for path in slices if path not in seen]:
            raise ArtifactError(
                f"{left[0]}: was not computed, so nothing was ablated. Call the model "
                "itself, or trace the function inside of the context"
            )

    def _slices(self) -> dict[str, slice]:
        ends = np.cumsum(list(self.sizes.values())).tolist()
        starts = (
            end - size for end, size in zip(ends, self.sizes.values(), strict=True)
        )
        return {
            path: slice(start, end)
            for path, start, end in zip(self.sizes, starts, ends, strict=True)
        }


def token_weights(inputs: Mapping[str, Any], path: str) -> Any:
    """Computes the weights of an activation's tokens: 0 for padding, else 1.

    Args:
        inputs: The inputs of a model, of packed rows or of one text in each row.
        path: The path of the activation: it tells the stack of an encoder-decoder.

    Returns:
        float32 `(B, T)`; None for images, all of whose patches are real.
    """
    stack = path.partition("layer_")[0]
    prefix = stack if f"{stack}token_ids" in inputs else ""
    for name in ("document_ids", "padding_mask"):
        if (mask := inputs.get(prefix + name)) is not None:
            return ops.cast(ops.greater(mask, 0), "float32")
    return None


def activation_sums(
    model: keras.Model, paths: Iterable[str], inputs: Mapping[str, Any]
) -> dict[str, tuple[Any, Any]]:
    """Sums activations over the real tokens of a batch.

    Args:
        model: The model.
        paths: Paths of activations `(B, T, ...)`, such as those of `AblationSwitches`.
        inputs: The model's inputs.

    Returns:
        For each path the sum `(...)` and the number of tokens, float32.
    """
    with recorded(*paths) as seen:
        model(inputs, training=False)
    sums = {}
    for path in paths:
        value = ops.cast(seen[path], "float32")
        weights = token_weights(inputs, path)
        if weights is None:
            weights = ops.ones(ops.shape(value)[:2], "float32")
        wide = ops.reshape(weights, ops.shape(weights) + (1,) * (len(value.shape) - 2))
        # Padding may hold anything, which times zero is not zero.
        kept = ops.where(wide > 0, value, 0.0)
        sums[path] = ops.sum(kept, axis=(0, 1)), ops.sum(weights)
    return sums


def mean_activations(
    sums: Callable[[Any], Mapping[str, tuple[Any, Any]]], batches: Iterable[Any]
) -> dict[str, np.ndarray]:
    """Computes the means of activations over the real tokens of all batches.

    Args:
        sums: Function from a batch to `activation_sums`, which may be compiled.
        batches: The batches.

    Returns:
        The means by path, float32.

    Raises:
        ArtifactError: There is no real token.
    """
    totals: dict[str, np.ndarray] = {}
    counts: dict[str, float] = {}
    for batch in batches:
        for path, (value, count) in sums(batch).items():
            value = ops.convert_to_numpy(value).astype(np.float64)
            totals[path] = totals.get(path, 0.0) + value
            counts[path] = counts.get(path, 0.0) + float(count)
    if not counts or not min(counts.values()):
        raise ArtifactError("no real token of which a mean could be taken")
    return {
        path: (total / counts[path]).astype(np.float32)
        for path, total in totals.items()
    }


def ablated_costs(
    evaluate: Evaluate, switches: Sequence[np.ndarray], batches: Iterable[Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Computes the costs of every record under every ablation.

    Args:
        evaluate: Function from a batch and switches, bool `(N,)`, to the sums of each
            record's costs and the numbers of its targets, `(R, ...)` each, with
            further axes for several losses. It calls the model inside of
            `AblationSwitches.applied`, and may be compiled.
        switches: The switches of each ablation; all false for the whole model.
        batches: The batches of records.

    Returns:
        Costs, float64 `(A, R, ...)` with the records of all batches, and the numbers
        of targets, `(R, ...)`.
    """
    costs, counts = [], []
    for batch in batches:
        found = [evaluate(batch, off) for off in switches]
        costs.append(np.stack([ops.convert_to_numpy(cost) for cost, _ in found]))
        counts.append(ops.convert_to_numpy(found[0][1]))
    return (
        np.concatenate(costs, axis=1).astype(np.float64),
        np.concatenate(counts).astype(np.float64),
    )


def _is_within(path: str, layer: str) -> bool:
    """Checks if an activation is the update of a sub-layer or within a block."""
    sublayer = path.removesuffix(UPDATE)
    return sublayer != path and f"{sublayer}/".startswith(f"{layer}/")
