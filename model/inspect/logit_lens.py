"""The logit lens: the output layer applied to the hidden states of every layer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from transbeam.configs.base.errors import ConfigError
from transbeam.model.inspect.hidden_states import with_hidden_states
from transbeam.model.layers.attention.document_masks import look_up
from transbeam.model.stack.layer_stack import LayerStack

POSITIONS = "masked_positions"
# Positions whose logits are held at once.
_HELD = 256

# From the index of a layer and its hidden states to the states that are unembedded.
Translate = Callable[[int, Any], Any]


@dataclass(frozen=True)
class LogitLens:
    """Predictions from the hidden states of every layer.

    Shapes: `L + 1` layers, `B` batch, `T` positions, `k` tokens.

    Attributes:
        layers: Names of the hidden states: the embeddings, then the `L` blocks; the
            last are what the model predicts from.
        top_ids: int32 `(L + 1, B, T, k)`. The most probable tokens, the first first.
        top_probabilities: float32 `(L + 1, B, T, k)`.
        target_probabilities: float32 `(L + 1, B, T)`, of the target.
        target_ranks: int32 `(L + 1, B, T)`. The number of tokens that are more probable
            than the target.
        divergences: float32 `(L + 1, B, T)`. Kullback-Leibler divergence of the
            prediction from the model's own, in nats.
    """

    layers: tuple[str, ...]
    top_ids: np.ndarray
    top_probabilities: np.ndarray
    target_probabilities: np.ndarray
    target_ranks: np.ndarray
    divergences: np.ndarray


class LensModel:
    """A model with its hidden states, and its output layer for each of them.

    Decoders, encoder-decoders (the decoder's hidden states) and encoders with the head
    of masked tokens (at the masked positions) have such an output layer. It includes
    the final norm, whose scale is that of the hidden states it is applied to. Layers
    and weights are the model's own.

    Shapes: `B` batch, `T` length, `P` positions: the masked ones, else all `T`.

    Args:
        model: A model of `transbeam.model`.

    Attributes:
        layers: Names of the hidden states, `L + 1`: first the embeddings.
        width: `D`.
        inputs: The model's inputs by name.

    Raises:
        ConfigError: The model has no logits over its vocabulary.

    References:
        - [nostalgebraist, 2020](https://www.lesswrong.com/posts/AcKRB8wDpdaN6v6ru/interpreting-gpt-the-logit-lens)
    """

    def __init__(self, model: keras.Model):
        names = {layer.name for layer in model.layers}
        is_decoder = "decoder_layer_0" in names
        if "logits" not in model.output or not (is_decoder or "head_bias" in names):
            raise ConfigError(
                "the model has no logits over its vocabulary, with which its hidden "
                "states could be read. Give a decoder, an encoder-decoder or an "
                "encoder with the head of masked tokens"
            )
        prefix = "decoder_" if is_decoder and "encoder_layer_0" in names else ""
        stack = LayerStack.from_model(model, prefix)
        last = stack.blocks[-1].output
        self.layers = (f"{prefix}embeddings", *(block.name for block in stack.blocks))
        self.width = int(last.shape[-1])
        self.inputs = model.input
        self._model = with_hidden_states(model)
        self._reads_masked = POSITIONS in model.input
        inputs = [last, model.input[POSITIONS]] if self._reads_masked else [last]
        # No model: `keras.Model` would add calls to the layers of the given one.
        self._output = keras.Function(inputs, model.output["logits"])

    def compute_states(self, inputs: Mapping[str, Any]) -> list[Any]:
        """Computes hidden states of all layers: `L + 1` times `(B, P, D)`."""
        outputs = self._model(inputs, training=False)
        states = [outputs[name] for name in self.layers]
        if not self._reads_masked:
            return states
        # Not `ops.take_along_axis`, whose indices of int64 oneDNN warns of.
        positions = ops.expand_dims(ops.cast(inputs[POSITIONS], "int32"), 0)
        return [look_up(state, positions)[0] for state in states]

    def unembed(self, states: Any) -> Any:
        """Computes logits from hidden states.

        Args:
            states: `(B, P, D)`.

        Returns:
            float32 `(B, P, V)`.
        """
        if not self._reads_masked:
            return self._output([states])
        batch, positions, _ = ops.shape(states)
        every = ops.broadcast_to(
            ops.arange(positions, dtype="int32"), (batch, positions)
        )
        return self._output([states, every])


def apply_logit_lens(
    model: keras.Model | LensModel,
    inputs: Mapping[str, Any],
    *,
    targets: np.typing.ArrayLike | None = None,
    top_k: int = 5,
    translate: Translate | None = None,
) -> LogitLens:
    """Reads the hidden states of every layer with the model's own output layer.

    The final norm is computed anew for each layer. Logits are held for one layer and
    256 positions at a time. Results at padding have no meaning.

    Args:
        model: A decoder, an encoder-decoder, or an encoder with the head of masked
            tokens, which is read at the input `masked_positions`.
        inputs: The model's inputs, by name.
        targets: int `(B, P)`, the tokens whose probabilities and ranks are computed;
            None for those that the model predicts.
        top_k: Number of the most probable tokens.
        translate: If given, called with the index of a layer and its hidden states;
            what it returns is read instead. Not called for the last layer.

    Returns:
        Predictions for each layer; the last layer's are the model's.

    Raises:
        ConfigError: The model has no logits over its vocabulary.

    Example:
    >>> from transbeam.configs.schema.model import DecoderConfig
    >>> from transbeam.model.decoder import build_decoder
    >>> decoder = build_decoder(DecoderConfig(num_layers=2, hidden_dim=8), 10)
    >>> ids = np.array([[1, 2, 3]], "int32")
    >>> lens = apply_logit_lens(
    ...     decoder, {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    ... )
    >>> lens.layers, lens.top_ids.shape
    (('embeddings', 'decoder_layer_0', 'decoder_layer_1'), (3, 1, 3, 5))

    References:
        - [nostalgebraist, 2020](https://www.lesswrong.com/posts/AcKRB8wDpdaN6v6ru/interpreting-gpt-the-logit-lens)
        - [Belrose et al., 2023](https://arxiv.org/abs/2303.08112), section 2
    """
    lens = model if isinstance(model, LensModel) else LensModel(model)
    states = lens.compute_states(
        {name: ops.convert_to_tensor(x) for name, x in inputs.items()}
    )
    wanted: Any = None
    if targets is not None:
        wanted = ops.cast(ops.convert_to_tensor(targets), "int32")
    pieces = []
    for start in range(0, states[-1].shape[1], _HELD):
        part = slice(start, start + _HELD)
        pieces.append(
            _read_states(
                lens,
                [state[:, part] for state in states],
                None if wanted is None else wanted[:, part],
                top_k,
                translate,
            )
        )
    columns = {
        name: np.concatenate([piece[name] for piece in pieces], axis=2)
        for name in pieces[0]
    }
    return LogitLens(lens.layers, **columns)


def _read_states(
    lens: LensModel,
    states: list[Any],
    targets: Any,
    top_k: int,
    translate: Translate | None,
) -> dict[str, np.ndarray]:
    """Reads the states of some positions: the attributes of `LogitLens` by name."""
    final = ops.log_softmax(lens.unembed(states[-1]), axis=-1)
    if targets is None:
        targets = ops.cast(ops.argmax(final, axis=-1), "int32")
    columns: dict[str, list[np.ndarray]] = {}
    for index, state in enumerate(states):
        logs = final
        if index < len(states) - 1:
            if translate is not None:
                state = translate(index, state)
            logs = ops.log_softmax(lens.unembed(state), axis=-1)
        for name, value in _describe(logs, final, targets, top_k).items():
            columns.setdefault(name, []).append(ops.convert_to_numpy(value))
    return {name: np.stack(x) for name, x in columns.items()}


def compute_divergence(final: Any, logs: Any) -> Any:
    """Computes the Kullback-Leibler divergence of predictions from the model's own.

    Args:
        final: float32 `(..., V)`, logarithms of the model's probabilities.
        logs: float32 `(..., V)`, logarithms of the other prediction's.

    Returns:
        float32 `(...)`, in nats.

    Example:
    >>> half, quarters = np.log([0.5, 0.5]), np.log([0.25, 0.75])
    >>> round(float(compute_divergence(half, quarters)), 4)
    0.1438
    """
    return ops.sum(ops.exp(final) * (final - logs), axis=-1)


def _describe(logs: Any, final: Any, targets: Any, top_k: int) -> dict[str, Any]:
    """Reduces the predictions `(B, P, V)` of a layer to what is kept of them."""
    values, top_ids = ops.top_k(logs, min(top_k, logs.shape[-1]))
    batch, positions, size = ops.shape(logs)
    rows = ops.reshape(logs, (batch * positions, size))
    target = look_up(rows, ops.reshape(targets, (1, batch * positions, 1)))
    target = ops.reshape(target, (batch, positions, 1))
    above = ops.cast(logs > target, "int32")
    return {
        "top_ids": ops.cast(top_ids, "int32"),
        "top_probabilities": ops.exp(values),
        "target_probabilities": ops.exp(target[..., 0]),
        "target_ranks": ops.sum(above, axis=-1),
        "divergences": compute_divergence(final, logs),
    }
