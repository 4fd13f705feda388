"""Decoding by calls of fixed shapes, with a KV cache owned by the caller.

In a decoding loop inside a graph, the cache is a loop variable. TFLite programs on
phones have no loop inside the graph: they call a function for each token and pass the
cache returned by the previous call.
"""

from typing import Any

import keras
from keras import ops

from transbeam.model.generation.cache_rows import CONTEXT
from transbeam.model.generation.cached_forward import CachedForward, find_encoder
from transbeam.model.stack.layer_stack import LayerStack

# The keys and values of each block, in the order of the blocks.
Layers = tuple[dict[str, Any], ...]


class ExternalCacheModel:
    """A generative model as pure functions of tensors.

    Shapes: `B` batch, `Q` new tokens, `C` slots of the cache, `S` length of the
    source, `V` vocabulary. Unused slots may have any content: a token attends only to
    its own slot and to those before it.

    Args:
        model: A model of `build_decoder` or `build_seq2seq` without packing, with its
            weights. The model's self-attention must cache each token in a slot of its
            own.
        slots: `C`, the largest number of tokens in a decoder's row.

    Example:
    >>> from transbeam.configs.schema.model import DecoderConfig
    >>> from transbeam.model.decoder import build_decoder
    >>> decoder = build_decoder(
    ...     DecoderConfig(num_layers=1, hidden_dim=8), vocabulary_size=10
    ... )
    >>> calls = ExternalCacheModel(decoder, slots=4)
    >>> logits, layers = calls.read(ops.array([[1, 2]]), 0, calls.empty(1))
    >>> logits, layers = calls.read(ops.array([[3]]), 2, layers)
    >>> tuple(logits.shape)
    (1, 1, 10)
    """

    def __init__(self, model: keras.Model, slots: int):
        pair = any(tensor.name == "encoder_token_ids" for tensor in model.inputs)
        prefix = "decoder_" if pair else ""
        self.slots = slots
        self._walk = CachedForward(
            model, LayerStack.from_model(model, prefix), keep_hidden=False
        )
        self._encoder = find_encoder(model) if pair else None

    def empty(self, batch_size: int) -> Layers:
        """An empty cache, `(B, G, C, K)` for each tensor."""
        return tuple(
            block.self_attention.make_cache(batch_size, self.slots)
            for block in self._walk.stack.blocks
        )

    def encode(self, token_ids: Any, padding_mask: Any) -> Layers:
        """Encodes a source, int32 `(B, S)`, into keys and values for each block."""
        assert self._encoder is not None
        inputs = {"encoder_token_ids": token_ids, "encoder_padding_mask": padding_mask}
        context = self._encoder(inputs, training=False)
        return self._walk.fill_context(context, padding_mask)["layers"]

    def read(
        self,
        token_ids: Any,
        index: Any,
        layers: Layers,
        context: Layers | None = None,
        context_mask: Any = None,
    ) -> tuple[Any, Layers]:
        """Reads more tokens.

        Args:
            token_ids: int32 `(B, Q)`. Padding at the end of the tokens is allowed: the
                next call overwrites the cache slots of the padding.
            index: int or int32 scalar, the number of tokens processed by earlier calls.
            layers: The cache.
            context: The result of `encode`: keys and values of the source for each
                block.
            context_mask: int32 `(B, S)`, the source's padding mask.

        Returns:
            float32 `(B, Q, V)`, the logits after each token, and the new cache.
        """
        cache = self._cache(token_ids, layers)
        if context is not None:
            cache[CONTEXT] = {"padding_mask": context_mask, "layers": context}
        logits, cache = self._walk.step(token_ids, cache, index)
        return logits, cache["layers"]

    def read_prefix(self, token_ids: Any, padding_mask: Any) -> Layers:
        """Processes a whole prompt with bidirectional attention (prefix LM).

        Args:
            token_ids: int32 `(B, Q)`, padded on the right.
            padding_mask: int32 `(B, Q)`, 0 for padding.

        Returns:
            The cache. To get the logits after the prompt, process the prompt's last
            token again: the repeated token attends to the same tokens, so its output is
            the same.
        """
        batch, length = token_ids.shape
        prefix = ops.pad(padding_mask, ((0, 0), (0, self.slots - length)))
        cache = self._cache(token_ids, self.empty(batch))
        _, cache = self._walk.read(token_ids, cache, 0, {"prefix_mask": prefix})
        return cache["layers"]

    def _cache(self, token_ids: Any, layers: Layers) -> dict[str, Any]:
        # The causal mask hides slots that are not filled yet.
        mask = ops.ones((token_ids.shape[0], self.slots), "int32")
        return {"padding_mask": mask, "layers": layers}
