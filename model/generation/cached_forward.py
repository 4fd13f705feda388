"""Forward pass of new tokens through the layers of a built model, with a KV cache."""

import keras
from keras import ops

from transbeam.model.generation.cache_rows import CONTEXT, add_slots, has_slots
from transbeam.model.generation.decode_functions import DecodeFunctions
from transbeam.model.kernels.cache_update import update_slice
from transbeam.model.kernels.shared_trace import share_trace
from transbeam.model.layers.attention.fused_qkv import (
    join_projections,
    joined_projection,
    joined_projections,
)
from transbeam.model.layers.embeddings import TokenEmbedding
from transbeam.model.stack.layer_stack import LayerStack


class CachedForward:
    """Forward pass of new tokens through the layers.

    The cache is a dict: `layers`, a tuple with the cache of each block's
    self-attention; `padding_mask` `(B, S)` of all slots, 1 also for free slots; in an
    encoder-decoder `context`, with the encoder's padding mask and its keys and values
    for each block; and, if `keep_hidden` is true, `hidden` `(B, S, D)`.
    """

    def __init__(self, model: keras.Model, stack: LayerStack, keep_hidden: bool):
        self.model = model
        self.stack = stack
        self.keep_hidden = keep_hidden
        self.prefix = find_prefix_mask(model)
        self.token_embedding: TokenEmbedding = model.get_layer("token_embedding")
        # All layers between the last hidden states and the logits.
        self.score = keras.Model(stack.output, model.output["logits"])
        self.max_length = getattr(stack.position_embedding, "max_sequence_length", None)
        for block in stack.blocks:
            if not hasattr(block.self_attention, "step"):
                raise ValueError(
                    f"{block.name}: {type(block.self_attention).__name__} has no cache "
                    "to decode with"
                )

    def steps(self, prefill) -> DecodeFunctions:
        can_rewind = has_slots(self.stack.blocks[0].self_attention.make_cache(1, 1))

        def begin():
            weights = self._cast_weights()
            joined = with_weights(self._join_projections, weights)()

            def prepared(function):
                def call(*arguments):
                    with joined_projections(joined):
                        return function(*arguments)

                return with_weights(call, weights)

            return DecodeFunctions(
                prepared(prefill),
                prepared(self.step),
                self.max_length,
                can_rewind,
            )

        return DecodeFunctions(prefill, self.step, self.max_length, can_rewind, begin)

    def _join_projections(self):
        joined = {
            id(block.self_attention): join_projections(block.self_attention)
            for block in self.stack.blocks
        }
        return {layer: pair for layer, pair in joined.items() if pair is not None}

    def _cast_weights(self):
        """Casts the weights to the compute dtype once, instead of at every step.

        With mixed precision, casting the weights at every step would cause most of a
        step's memory traffic.
        """
        dtype = self.token_embedding.compute_dtype
        table = self.token_embedding.embeddings
        return [
            (weight, ops.cast(weight, dtype))
            for weight in self.model.weights
            if len(weight.shape) > 1
            and keras.backend.is_float_dtype(weight.dtype)
            and weight.dtype != dtype
            and (weight._autocast or weight is table)
        ]

    def prefill(self, token_ids, padding_mask, slots, context=None, context_mask=None):
        batch, length = ops.shape(token_ids)
        # Free slots count as real: the causal mask hides them until they are filled.
        # There is always one, because Keras warns of a softmax over a single key.
        free = ops.ones((batch, slots - length), "int32")
        mask = ops.concatenate([padding_mask, free], axis=1)
        cache = {
            "padding_mask": mask[:, : length + 1],
            "layers": tuple(
                block.self_attention.make_cache(batch, length + 1)
                for block in self.stack.blocks
            ),
        }
        if context is not None:
            cache[CONTEXT] = self.fill_context(context, context_mask)
        # Later tokens attend to all before them by causality.
        prefix = ops.pad(padding_mask, ((0, 0), (0, 1)))
        x, cache = self.read(token_ids, cache, 0, dict.fromkeys(self.prefix, prefix))
        room = slots - length - 1
        layers = tuple(add_slots(layer, room) for layer in cache["layers"])
        cache = {**cache, "padding_mask": mask, "layers": layers}
        if self.keep_hidden:
            cache["hidden"] = ops.pad(x, ((0, 0), (0, slots - length), (0, 0)))
        return self.score(x[:, -1:])[:, 0], cache

    def fill_context(self, context, mask):
        """Computes the cached projections of an encoder's output `(B, S, D)`."""
        layers = (block.cross_attention for block in self.stack.blocks)
        filled = tuple(layer.fill_cache(context) for layer in layers if layer)
        return {"padding_mask": mask, "layers": filled}

    def step(self, token_ids, cache, index):
        x, cache = self.read(token_ids, cache, index, {})
        if self.keep_hidden:
            hidden = update_slice(cache["hidden"], index, x, axis=1)
            cache = {**cache, "hidden": hidden}
        return self.score(x), cache

    def read(self, token_ids, cache, index, prefix):
        """Runs new tokens through the blocks: `(B, Q, D)` and the new cache."""
        mask = cache["padding_mask"]
        columns = index + ops.arange(ops.shape(token_ids)[1], dtype="int32")
        padding = ops.sum(1 - mask, axis=1, keepdims=True)  # (B, 1)
        position_ids = ops.maximum(ops.expand_dims(columns, 0) - padding, 0)
        if self.max_length is not None:
            # Speculative tokens beyond the maximum length, which are discarded.
            position_ids = ops.minimum(position_ids, self.max_length - 1)
        x = self.stack.embed(self.token_embedding(token_ids), position_ids)
        sequence_info = {"padding_mask": mask, "position_ids": position_ids, **prefix}
        sequence_info = self.stack.with_bias_table(sequence_info, x)

        context = cache.get(CONTEXT)
        layers = []
        blocks = self.stack.blocks
        for number, step in enumerate(share_trace(blocks, _step)):
            kept, context_info = {"self_attention": cache["layers"][number]}, None
            if context is not None:
                kept["cross_attention"] = context["layers"][number]
                context_info = {"padding_mask": context["padding_mask"]}
            joined = joined_projection(blocks[number].self_attention)
            x, kept = step(joined, x, sequence_info, kept, index, context_info)
            layers.append(kept["self_attention"])
        return self.stack.normalise(x), {**cache, "layers": tuple(layers)}


def _step(block, joined, *arguments):
    """Runs a step of a block, with its fused QKV projections if there are any."""
    pairs = {} if joined is None else {id(block.self_attention): joined}
    with joined_projections(pairs):
        return block.step(*arguments)


def with_weights(function, weights):
    """Wraps a function to run with other values of weights: pairs (weight, tensor)."""
    if not weights:
        return function

    def call(*arguments):
        # Variables that wait elsewhere for a value must not get it in a trace.
        with keras.StatelessScope(initialize_variables=False) as scope:
            for pair in weights:
                scope.add_update(pair)
            return function(*arguments)

    return call


def find_encoder(model: keras.Model) -> keras.Model:
    """Extracts an encoder-decoder's encoder: ids and mask to output `(B, S, D)`."""
    inputs = {tensor.name: tensor for tensor in model.inputs}
    names = ("encoder_token_ids", "encoder_padding_mask")
    output = LayerStack.from_model(model, "encoder_").output
    return keras.Model({name: inputs[name] for name in names}, output)


def find_prefix_mask(model: keras.Model) -> list[str]:
    """The name of the prefix mask's input, if there is one."""
    return [tensor.name for tensor in model.inputs if tensor.name == "prefix_mask"]
