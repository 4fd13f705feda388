"""The signatures of a TFLite file that writes, named as LiteRT-LM names them.

A phone's loop is outside of the graph, so the cache goes in and comes out with each
call, under the same names. Shapes are fixed, of one text: `C` slots of the cache, `S`
tokens of a source, `G` heads of keys and values, `K` numbers of a head, `V` tokens of
the vocabulary.
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
    """A model as phones call it, and the sizes of the pieces that it reads.

    Both are of `export.tflite_cache` and `export.tflite_prefill`.
    """
    slots = cache_slots(trained.config)
    sizes = {min(size, slots) for size in trained.config.export.tflite_prefill}
    return ExternalCacheModel(trained.model, slots), tuple(sorted(sizes))


def cache_slots(config: RunConfig) -> int:
    """Tokens that the cache of a run's TFLite file holds."""
    return config.export.tflite_cache or config.model.max_sequence_length


def decoder_endpoints(
    calls: ExternalCacheModel, sizes: Sequence[int]
) -> dict[str, Endpoint]:
    """The signatures of a decoder.

    - `prefill_N`: `tokens` int32 (1, N), `input_pos` int32 (N,), of which the first
      counts, and the cache, `kv_cache_k_0`, `kv_cache_v_0`, `kv_cache_k_1`, …, float32
      (1, G, C, K) → the cache. What fills up `tokens` is never seen: each token that is
      read later is written over it.
    - `decode`: the same for one token → the cache, and `logits` float32 (1, 1, V).

    Args:
        calls: The model.
        sizes: How many tokens a prefill reads, each at most `C`.
    """
    prefills = {f"{PREFILL}{size}": _reading(calls, size) for size in sizes}
    return {**prefills, DECODE: _reading(calls, 1)}


def prefix_endpoints(
    calls: ExternalCacheModel, sizes: Sequence[int]
) -> dict[str, Endpoint]:
    """The signatures of a decoder whose prompt sees itself in both directions.

    Such a prompt cannot be read in pieces, and its last token cannot come later. So
    these are no prefills as LiteRT-LM understands them, and have another name.

    - `prefix_N`: `tokens` int32 (1, N), the whole prompt, and `padding_mask` int32
      (1, N), 0 behind it → the cache.
    - `decode`: as of a decoder. First the last token of the prompt is read again.

    Args:
        calls: The model.
        sizes: How many tokens a prompt may have, each at most `C`.
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
    """The signatures of an encoder and its decoder.

    - `encode`: `token_ids` and `padding_mask` int32 (1, S), of the source → what the
      decoder reads of it, `context_k_0`, `context_v_0`, …, float32 (1, G, S, K).
    - `prefill_N` and `decode`: as of a decoder, and they also take the source's
      `padding_mask` and what `encode` gave.

    Args:
        calls: The model.
        sizes: How many tokens a prefill reads, each at most `C`.
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
    """Reads so many tokens; one token alone is told what comes next."""
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
    """The tensors of all blocks by their names."""
    return {
        f"{name}_{key[0]}_{number}": layer[key]
        for number, layer in enumerate(layers)
        for key in ("key", "value")
    }


def _layers(name: str, tensors: Mapping[Any, tf.Tensor]) -> Layers:
    """The same the other way."""
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
