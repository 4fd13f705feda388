"""What the exported model can be asked, from raw text to answers, all in the graph.

The tokenizer runs inside, so a client sends strings and nothing else, and a server
that batches requests cannot spoil a mask: the padding is made here, from the texts.
Only `fill_mask` takes ids: who judges a model has records of them and wants all scores.
"""

from typing import NamedTuple

import keras
import tensorflow as tf

from serving.trained import Trained

TEXT = tf.TensorSpec([None], tf.string, name="text")
IDS = tuple(
    tf.TensorSpec([None, None], tf.int32, name=name)
    for name in ("token_ids", "padding_mask", "masked_positions")
)


class Encoded(NamedTuple):
    """Texts as the model reads them: `[CLS] … [SEP]`, padded to the longest.

    Attributes:
        token_ids: int32 (B, T).
        lengths: int32 (B,). Real tokens of each row.
        truncated: bool (B,). Whether the end of the text was cut off.
    """

    token_ids: tf.Tensor
    lengths: tf.Tensor
    truncated: tf.Tensor

    @property
    def padding_mask(self) -> tf.Tensor:
        """int32 (B, T), 1 for a real token."""
        length = tf.shape(self.token_ids)[1]
        return tf.sequence_mask(self.lengths, length, dtype=tf.int32)


class TextSignatures:
    """The functions behind the signatures of the SavedModel.

    A text longer than the model can read loses its end, and says so in `truncated`.
    Special pieces written in a text are ordinary text, as they were for the training
    data, except for `[MASK]` in `fill_masks`.

    Shapes: `B` texts, `T` tokens of the longest, `M` masks of the text that has most,
    `K` guesses, `D` hidden width.

    Args:
        trained: The tokenizer and the models.
    """

    def __init__(self, trained: Trained):
        self.tokenizer = trained.tokenizer
        self.model = trained.model
        self.encoder = trained.encoder
        self.max_length = trained.config.model.max_sequence_length
        self.top_k = min(trained.config.export.top_k, self.tokenizer.vocabulary_size)

    def fill_masks(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """The most probable pieces for each `[MASK]`, in the order of the text.

        Args:
            text: string (B,), any bytes.

        Returns:
            `fills`: string (B, M, K), the best first; a piece that continues a word
            begins with `##`. `scores`: float32 (B, M, K), their probabilities over
            the whole vocabulary. `truncated`: bool (B,); a `[MASK]` that was cut off
            has no place in M. Texts with fewer than M masks have `""` and 0 in the
            places left over.
        """
        encoded = self._encode(self.tokenizer.tokenize_with_masks(text))
        positions = _positions(encoded.token_ids == self.tokenizer.mask_id)
        logits = self.model(
            {
                "token_ids": encoded.token_ids,
                "padding_mask": encoded.padding_mask,
                "masked_positions": positions.to_tensor(),
            },
            training=False,
        )["logits"]  # (B, M, V)
        scores, ids = tf.math.top_k(tf.nn.softmax(logits), self.top_k)
        real = tf.expand_dims(
            tf.sequence_mask(positions.row_lengths(), tf.shape(logits)[1]), axis=2
        )
        fills = tf.gather(tf.constant(self.tokenizer.vocabulary), ids)
        return {
            "fills": tf.where(real, fills, ""),
            "scores": tf.where(real, scores, 0.0),
            "truncated": encoded.truncated,
        }

    def fill_mask(
        self, token_ids: tf.Tensor, padding_mask: tf.Tensor, masked_positions: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """The scores of all pieces at some places of texts that are ids already.

        Args:
            token_ids: int32 (B, T), a text each, with the pieces that frame it.
            padding_mask: int32 (B, T), 1 for a real token.
            masked_positions: int32 (B, P).

        Returns:
            `logits`: float32 (B, P, V).
        """
        inputs = {
            "token_ids": token_ids,
            "padding_mask": padding_mask,
            "masked_positions": masked_positions,
        }
        return {"logits": self.model(inputs, training=False)["logits"]}

    def embed(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """One vector for each text: the mean of its tokens' last vectors.

        `[CLS]` and `[SEP]` count as tokens of the text, so that the empty text has a
        vector, too.

        Args:
            text: string (B,), any bytes.

        Returns:
            `embedding`: float32 (B, D). `truncated`: bool (B,).
        """
        encoded = self._encode(self.tokenizer.tokenize(text))
        embedding = mean_vector(self.encoder, encoded.token_ids, encoded.padding_mask)
        return {"embedding": embedding, "truncated": encoded.truncated}

    def tokenize(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """The ids the model reads for a text: what a phone has to reproduce.

        Args:
            text: string (B,), any bytes.

        Returns:
            `token_ids`: int32 (B, T), padded with the id of `[PAD]`. `length`: int32
            (B,), the real ones of each row. `truncated`: bool (B,).
        """
        encoded = self._encode(self.tokenizer.tokenize(text))
        return {
            "token_ids": encoded.token_ids,
            "length": encoded.lengths,
            "truncated": encoded.truncated,
        }

    def _encode(self, tokens: tf.RaggedTensor) -> Encoded:
        longest = self.max_length - 2
        rows = tokens.nrows(tf.int32)
        framed = tf.concat(
            [
                tf.fill([rows, 1], self.tokenizer.cls_id),
                tokens[:, :longest],
                tf.fill([rows, 1], self.tokenizer.sep_id),
            ],
            axis=1,
        )
        return Encoded(
            token_ids=framed.to_tensor(self.tokenizer.pad_id),
            lengths=tf.cast(framed.row_lengths(), tf.int32),
            truncated=tokens.row_lengths() > longest,
        )


def mean_vector(
    encoder: keras.Model, token_ids: tf.Tensor, padding_mask: tf.Tensor
) -> tf.Tensor:
    """The mean of the real tokens' last vectors, (B, D) in float32."""
    vectors = encoder(
        {"token_ids": token_ids, "padding_mask": padding_mask}, training=False
    )["sequence_output"]  # (B, T, D)
    weights = tf.expand_dims(tf.cast(padding_mask, tf.float32), axis=2)  # (B, T, 1)
    total = tf.reduce_sum(tf.cast(vectors, tf.float32) * weights, axis=1)
    return total / tf.reduce_sum(weights, axis=1)


def _positions(chosen: tf.Tensor) -> tf.RaggedTensor:
    """Where each row of a boolean (B, T) is true, int32 (B, None)."""
    shape = tf.shape(chosen)
    return tf.ragged.boolean_mask(tf.broadcast_to(tf.range(shape[1]), shape), chosen)
