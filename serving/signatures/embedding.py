"""Text embedding signatures of encoders and decoders, language models included."""

from typing import Any

import keras
import tensorflow as tf

from transbeam.configs.schema.objectives.objective import EmbeddingObjective
from transbeam.model.stack.layer_stack import LayerStack
from transbeam.pipeline.tokenizers.base.text_frame import embedding_frame
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.signatures.base.attention_maps import LONGEST, attention_endpoint
from transbeam.serving.signatures.base.interface import TEXT, Endpoint, ids_spec
from transbeam.serving.text_ops.text_encoder import TextEncoder

SEQUENCE = ("token_ids", "padding_mask")


class Embedder:
    """Computes one embedding per text, with pooling by `export.embedding_pooling`.

    A model that was trained for embeddings pools as in its training.

    Shapes: `B` texts, `T` tokens of the longest text, `D` hidden width.

    Args:
        trained: The tokenizer and the model.
    """

    def __init__(self, trained: TrainedRun):
        export = trained.config.export
        self.tokenizer = trained.tokenizer
        self.body = find_body(trained.model)
        self.pooled = None
        if isinstance(trained.config.objective, EmbeddingObjective):
            self.pooled = find_pooled(trained.model)
        self.pooling = export.embedding_pooling
        self.normalize = export.normalize_embeddings
        longest = trained.config.model.max_sequence_length
        self.max_length = min(export.embedding_length or longest, longest)
        frame = embedding_frame(trained.config, self.tokenizer.special)
        self.encoder = TextEncoder(self.tokenizer, self.max_length, frame)

    def phone_endpoint(self) -> Endpoint:
        """Returns the signature that takes the token ids of one text."""
        return Endpoint(self.embed_ids, [ids_spec(name, 1, None) for name in SEQUENCE])

    def embed(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Computes one embedding per text by pooling the last hidden states.

        Special tokens count as tokens, so that the empty text has an embedding, too.

        Args:
            text: string (B,), any bytes.

        Returns:
            `embedding`: float32 (B, D), of unit length if
                `export.normalize_embeddings`.
            `truncated`: bool (B,).
        """
        encoded = self.encoder.text(self.tokenizer.tokenize(text))
        vectors = self.embed_ids(encoded.token_ids, encoded.padding_mask)
        return {**vectors, "truncated": encoded.truncated}

    def embed_ids(
        self, token_ids: tf.Tensor, padding_mask: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Computes `embedding`, float32 (B, D), from ids (B, T)."""
        inputs = {"token_ids": token_ids, "padding_mask": padding_mask}
        if self.pooled is not None:
            pooled = self.pooled(inputs, training=False)["pooled_output"]
            vector = tf.cast(pooled, tf.float32)
        else:
            vectors = self.body(inputs, training=False)["sequence_output"]  # (B, T, D)
            vector = self._pooled(tf.cast(vectors, tf.float32), padding_mask)
        if self.normalize:
            vector = tf.math.l2_normalize(vector, axis=1)
        return {"embedding": vector}

    def _pooled(self, vectors: tf.Tensor, padding_mask: tf.Tensor) -> tf.Tensor:
        """Pools the hidden states of each row's real tokens, (B, T, D) to (B, D)."""
        if self.pooling == "first":
            return vectors[:, 0]
        real = tf.expand_dims(padding_mask, axis=2)
        if self.pooling in ("last", "end_token"):
            places = tf.range(1, tf.shape(vectors)[1] + 1)[None, :, None] * real
            last = tf.reduce_max(places, axis=1, keepdims=True)
            chosen = (places == last) & (real > 0)
            return tf.reduce_sum(tf.where(chosen, vectors, 0.0), axis=1)
        if self.pooling == "max":
            least = tf.fill(tf.shape(vectors), vectors.dtype.min)
            return tf.reduce_max(tf.where(real > 0, vectors, least), axis=1)
        weights = tf.cast(real, tf.float32)
        total = tf.reduce_sum(vectors * weights, axis=1)
        # L2 normalization makes the division superfluous.
        return total if self.normalize else total / tf.reduce_sum(weights, axis=1)


class EmbeddingTask:
    """The signatures of a model that embeds texts, or whose head was not trained.

    - `serving_default` and `embed`: `text`, string (B,) → `embedding`; see
      `Embedder.embed`.
    - `tokenize`: `text` → the model's token ids.
    - `attention`: `text` → attention weights; see `attention_endpoint`.

    Args:
        trained: The tokenizer and the model.
    """

    methods = {}

    def __init__(self, trained: TrainedRun):
        self.trained = trained
        self.embedder = Embedder(trained)
        self.max_length = self.embedder.max_length

    def endpoints(self) -> dict[str, Endpoint]:
        body = self.embedder.body
        return {
            "serving_default": Endpoint(self.embedder.embed, [TEXT]),
            "embed": Endpoint(self.embedder.embed, [TEXT]),
            "tokenize": tokenize_endpoint(self.embedder.encoder),
            **attention_endpoint(self.trained, body, [TEXT], self.read_for_attention),
        }

    def phone_endpoints(self) -> dict[str, Endpoint]:
        return {"embed": self.embedder.phone_endpoint()}

    def read_for_attention(self, *texts: tf.Tensor, longest: int = LONGEST) -> Any:
        """Reads texts for the signature `attention`; see `AttentionReader`."""
        encoder = self.embedder.encoder.shorter(longest)
        encoded = encoder.text(*map(encoder.tokenizer.tokenize, texts))
        return {n: getattr(encoded, n) for n in SEQUENCE}, encoded.truncated


def tokenize_endpoint(encoder: TextEncoder) -> Endpoint:
    """Creates the signature `tokenize`: token ids that apps must reproduce."""

    def tokenize(text: tf.Tensor) -> dict[str, tf.Tensor]:
        return tokenized(encoder, text)

    return Endpoint(tokenize, [TEXT])


def tokenized(encoder: TextEncoder, text: tf.Tensor) -> dict[str, tf.Tensor]:
    """Tokenizes texts for the model; phone apps need an equivalent tokenizer.

    Args:
        encoder: Text encoder with the tokenizer and the maximum length.
        text: string (B,), any bytes.

    Returns:
        `token_ids`: int32 (B, T), padded with the id of `[PAD]`. `length`: int32 (B,),
        the number of real tokens in each row. `truncated`: bool (B,).
    """
    encoded = encoder.text(encoder.tokenizer.tokenize(text))
    return {
        "token_ids": encoded.token_ids,
        "length": encoded.lengths,
        "truncated": encoded.truncated,
    }


def find_body(model: keras.Model) -> keras.Model:
    """Returns a language model or embedder without its output, with shared weights.

    Args:
        model: A masked or causal language model built by `build_model`, for rows that
            are not packed.

    Returns:
        A model with the same inputs as the given model except `masked_positions`, and
        with the output `sequence_output` (B, T, D).
    """
    inputs = {name: x for name, x in model.input.items() if name != "masked_positions"}
    if "masked_positions" in model.input:
        x, name = model.get_layer("masked_tokens").input[0], "encoder"
    elif "embedding" in model.output:
        x, name = model.get_layer("pooling").input[0], "encoder"
    else:
        stack = LayerStack.from_model(model)
        x, name = (stack.final_norm or stack.blocks[-1]).output, "decoder"
    return keras.Model(inputs, {"sequence_output": x}, name=name)


def find_pooled(model: keras.Model) -> keras.Model:
    """Returns an embedder without its normalization, with shared weights.

    Args:
        model: A model built by `build_model` for the objective `contrastive_pairs`.

    Returns:
        A model with the same inputs, and with the output `pooled_output` (B, D).
    """
    names = {layer.name for layer in model.layers}
    last = model.get_layer("pooler" if "pooler" in names else "pooling")
    return keras.Model(model.input, {"pooled_output": last.output}, name="pooled")
