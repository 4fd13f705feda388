"""The signatures of a generative TFLite file, with LiteRT-LM's names.

On a phone the decoding loop is outside of the graph, so the cache is an input and an
output of each call, under the same names. Shapes are fixed, for one text: `C` slots of
the cache, `S` source tokens, `G` key/value heads, `K` head size, `V` vocabulary size.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from transbeam.configs.schema.run import RunConfig
from transbeam.model.generation.external_kv_cache import ExternalCacheModel, Layers
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.signatures.base.interface import Endpoint, ids_spec

CACHE, CONTEXT = "kv_cache", "context"
DECODE, ENCODE = "decode", "encode"
PREFILL, PREFIX = "prefill_", "prefix_"


def phone_calls(trained: TrainedRun) -> tuple[ExternalCacheModel, tuple[int, ...]]:
    """Returns a model with external cache, and the chunk sizes of its prefill.

    The cache size and the chunk sizes depend on `export.tflite_cache` and
    `export.tflite_prefill`.
    """
    slots = cache_slots(trained.config)
    sizes = {min(size, slots) for size in trained.config.export.tflite_prefill}
    return ExternalCacheModel(trained.model, slots), tuple(sorted(sizes))


def cache_slots(config: RunConfig) -> int:
    """Returns the number of tokens that the cache of a run's TFLite file holds."""
    return config.export.tflite_cache or config.model.max_sequence_length


def decoder_endpoints(
    calls: ExternalCacheModel, sizes: Sequence[int]
) -> dict[str, Endpoint]:
    """Returns the signatures of a decoder-only model.

    - `prefill_N`: `tokens` int32 (1, N), `input_pos` int32 (N,) (only its first entry
      is used), and the cache, `kv_cache_k_0`, `kv_cache_v_0`, `kv_cache_k_1`, …,
      float32 (1, G, C, K) → the cache. Padding in `tokens` is never attended to: later
      tokens overwrite its slots.
    - `decode`: the inputs of `prefill_N` for one token → the cache, and `logits`
      float32 (1, 1, V).

    Args:
        calls: The model.
        sizes: The chunk sizes of prefill, each at most `C`.
    """
    prefills = {f"{PREFILL}{size}": _reading(calls, size) for size in sizes}
    return {**prefills, DECODE: _reading(calls, 1)}


def prefix_endpoints(
    calls: ExternalCacheModel, sizes: Sequence[int]
) -> dict[str, Endpoint]:
    """Returns the signatures of a decoder with bidirectional attention on the prompt.

    A prompt with bidirectional attention must be processed in one call, including its
    last token, and not in chunks. So the prompt signatures are not prefills as defined
    by LiteRT-LM, and have another name.

    - `prefix_N`: `tokens` int32 (1, N), the whole prompt, and `padding_mask` int32 (1,
      N), 0 after the prompt → the cache.
    - `decode`: as in decoder-only files. The first call of `decode` processes the last
      token of the prompt again.

    Args:
        calls: The model.
        sizes: The maximum prompt lengths, each at most `C`.
    """

    def read(tokens: tf.Tensor, padding_mask: tf.Tensor) -> dict[str, tf.Tensor]:
        return _named(CACHE, calls.read_prefix(tokens, padding_mask))

    def prefix(size: int) -> Endpoint:
        specs = [ids_spec("tokens", 1, size), ids_spec("padding_mask", 1, size)]
        return Endpoint(read, specs)

    prefixes = {f"{PREFIX}{size}": prefix(size) for size in sizes}
    return {**prefixes, DECODE: _reading(calls, 1)}


def seq2seq_endpoints(
    calls: ExternalCacheModel, sizes: Sequence[int], source_length: int
) -> dict[str, Endpoint]:
    """Returns the signatures of an encoder-decoder model.

    - `encode`: `token_ids` and `padding_mask` int32 (1, S), of the source → its keys
      and values for cross-attention, `context_k_0`, `context_v_0`, …, float32 (1, G, S,
      K).
    - `prefill_N` and `decode`: the same as for a decoder-only model, with further
      inputs: the source's `padding_mask` and the outputs of `encode`.

    Args:
        calls: The model.
        sizes: The chunk sizes of prefill, each at most `C`.
        source_length: `S`.
    """
    source = [
        ids_spec(name, 1, source_length) for name in ("token_ids", "padding_mask")
    ]

    def encode(token_ids: tf.Tensor, padding_mask: tf.Tensor) -> dict[str, tf.Tensor]:
        return _named(CONTEXT, calls.encode(token_ids, padding_mask))

    traced = tf.function(calls.encode, autograph=False).get_concrete_function(*source)
    context = [source[1], *_specs(CONTEXT, traced.structured_outputs)]
    prefills = {f"{PREFILL}{size}": _reading(calls, size, context) for size in sizes}
    return {
        ENCODE: Endpoint(encode, source),
        **prefills,
        DECODE: _reading(calls, 1, context),
    }


def _reading(
    calls: ExternalCacheModel, size: int, context: Sequence[tf.TensorSpec] = ()
) -> Endpoint:
    """Returns a signature that processes tokens; with a single token, also logits."""
    cache = _specs(CACHE, calls.empty(1))
    specs = [ids_spec("tokens", 1, size), ids_spec("input_pos", size), *cache, *context]

    def read(*inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        named = {spec.name: x for spec, x in zip(specs, inputs, strict=True)}
        layers = _layers(CACHE, named)
        kept = _layers(CONTEXT, named) if context else None
        logits, layers = calls.read(
            named["tokens"],
            named["input_pos"][0],
            layers,
            context=kept,
            context_mask=named.get("padding_mask"),
        )
        scores = {"logits": logits} if size == 1 else {}
        return {**scores, **_named(CACHE, layers)}

    return Endpoint(read, specs)


def _named(name: str, layers: Layers) -> dict[str, tf.Tensor]:
    """Returns the keys and values of all layers by tensor name."""
    return {
        f"{name}_{key[0]}_{number}": layer[key]
        for number, layer in enumerate(layers)
        for key in ("key", "value")
    }


def _layers(name: str, tensors: Mapping[Any, tf.Tensor]) -> Layers:
    """Groups named keys and values by layer: the inverse of `_named`."""
    number = sum(each.startswith(f"{name}_k_") for each in tensors)
    return tuple(
        {key: tensors[f"{name}_{key[0]}_{block}"] for key in ("key", "value")}
        for block in range(number)
    )


def _specs(name: str, layers: Layers) -> list[tf.TensorSpec]:
    return [
        tf.TensorSpec(tensor.shape, tensor.dtype, name=each)
        for each, tensor in _named(name, layers).items()
    ]
