"""The vector of a text: the signatures of a body, and a part of a masked model's."""

from typing import Any

import keras
import tensorflow as tf

from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.signatures.base.attention_maps import LONGEST, attention_endpoint
from transbeam.serving.signatures.base.interface import TEXT, Endpoint, ids_spec
from transbeam.serving.text_ops.text_encoder import TextEncoder

SEQUENCE = ("token_ids", "padding_mask")


class Embedder:
    """Makes one vector of each text, as `export.embedding_pooling` says.

    Shapes: `B` texts, `T` tokens of the longest, `D` hidden width.

    Args:
        trained: The tokenizer and the model.
    """

    def __init__(self, trained: TrainedRun):
        export = trained.config.export
        self.tokenizer = trained.tokenizer
        self.body = body_of(trained.model)
        self.pooling = export.embedding_pooling
        self.normalize = export.normalize_embeddings
        longest = trained.config.model.max_sequence_length
        self.max_length = min(export.embedding_length or longest, longest)
        self.encoder = TextEncoder(self.tokenizer, self.max_length)

    def phone_endpoint(self) -> Endpoint:
        """The same of the ids of one text."""
        return Endpoint(self.embed_ids, [ids_spec(name, 1, None) for name in SEQUENCE])

    def embed(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """One vector for each text: the mean of its tokens' last vectors, or another.

        The pieces that frame a text (`[CLS]`, `[SEP]`) count as tokens, so that the
        empty text has a vector, too.

        Args:
            text: string (B,), any bytes.

        Returns:
            `embedding`: float32 (B, D), of length 1 if `export.normalize_embeddings`
            says so. `truncated`: bool (B,).
        """
        encoded = self.encoder.text(self.tokenizer.tokenize(text))
        vectors = self.embed_ids(encoded.token_ids, encoded.padding_mask)
        return {**vectors, "truncated": encoded.truncated}

    def embed_ids(
        self, token_ids: tf.Tensor, padding_mask: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """The same of ids (B, T): `embedding`, float32 (B, D)."""
        inputs = {"token_ids": token_ids, "padding_mask": padding_mask}
        vectors = self.body(inputs, training=False)["sequence_output"]  # (B, T, D)
        vector = self._pooled(tf.cast(vectors, tf.float32), padding_mask)
        if self.normalize:
            vector = tf.math.l2_normalize(vector, axis=1)
        return {"embedding": vector}

    def _pooled(self, vectors: tf.Tensor, padding_mask: tf.Tensor) -> tf.Tensor:
        """One vector of each row's real tokens, (B, T, D) to (B, D)."""
        if self.pooling == "first":
            return vectors[:, 0]
        real = tf.expand_dims(padding_mask, axis=2)
        if self.pooling == "max":
            least = tf.fill(tf.shape(vectors), vectors.dtype.min)
            return tf.reduce_max(tf.where(real > 0, vectors, least), axis=1)
        weights = tf.cast(real, tf.float32)
        total = tf.reduce_sum(vectors * weights, axis=1)
        # Of length 1 it is the same, undivided.
        return total if self.normalize else total / tf.reduce_sum(weights, axis=1)


class EmbeddingTask:
    """The signatures of an encoder whose head has learned nothing.

    - `serving_default` and `embed`: `text`, string (B,) → `embedding`; see
      `Embedder.embed`.
    - `tokenize`: `text` → the ids that it reads.
    - `attention`: `text` → who looks at whom; see `attention_endpoint`.

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
            "tokenize": Endpoint(self.tokenize, [TEXT]),
            **attention_endpoint(self.trained, body, [TEXT], self._looked_at),
        }

    def phone_endpoints(self) -> dict[str, Endpoint]:
        return {"embed": self.embedder.phone_endpoint()}

    def tokenize(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """The ids the model reads for a text: what a phone has to reproduce.

        Args:
            text: string (B,), any bytes.

        Returns:
            `token_ids`: int32 (B, T), padded with the id of `[PAD]`. `length`: int32
            (B,), the real ones of each row. `truncated`: bool (B,).
        """
        return tokenized(self.embedder.encoder, text)

    def _looked_at(self, text: tf.Tensor) -> Any:
        encoder = self.embedder.encoder.shorter(LONGEST)
        encoded = encoder.text(encoder.tokenizer.tokenize(text))
        return {n: getattr(encoded, n) for n in SEQUENCE}, encoded.truncated


def tokenized(encoder: TextEncoder, text: tf.Tensor) -> dict[str, tf.Tensor]:
    """The signature `tokenize` of a task that reads one text at a time."""
    encoded = encoder.text(encoder.tokenizer.tokenize(text))
    return {
        "token_ids": encoded.token_ids,
        "length": encoded.lengths,
        "truncated": encoded.truncated,
    }


def body_of(model: keras.Model) -> keras.Model:
    """The part of a masked language model below its head, with the same weights.

    Args:
        model: As `build_model` makes it, not packed.

    Returns:
        The inputs are the model's without `masked_positions`; the output is
        `sequence_output` (B, T, D).
    """
    sequence_output = model.get_layer("masked_tokens").input[0]
    inputs = dict(model.input)
    del inputs["masked_positions"]
    return keras.Model(inputs, {"sequence_output": sequence_output}, name="encoder")
