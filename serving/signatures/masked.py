"""The signatures of a masked language model: mask filling and text embeddings."""

from typing import Any

import numpy as np
import tensorflow as tf

from transbeam.model.generation.mask_predict import mask_predict
from transbeam.pipeline.tokenizers.base.ragged_rows import select_in_rows
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.signatures.base.attention_maps import LONGEST, attention_endpoint
from transbeam.serving.signatures.base.interface import TEXT, Endpoint, ids_spec
from transbeam.serving.signatures.embedding import SEQUENCE, Embedder, tokenize_endpoint
from transbeam.serving.text_ops.mask_tokens import answer_pieces, tokenize_with_masks
from transbeam.serving.text_ops.text_encoder import TextEncoder

_ITERATIONS = tf.TensorSpec([None], tf.int32, name="iterations")


class MaskedTask:
    """The signatures of a masked language model.

    On `text`: `serving_default`, `refine`, `embed`, `tokenize` and `attention` (see
    `attention_endpoint`). On ids: `fill_mask`, which returns the logits at given
    positions, for the evaluation on records and for phones. Only TFLite files have a
    signature that computes embeddings from ids.

    Shapes: `B` texts, `T` tokens of the longest text, `M` masks of the text with most
    masks, `K` candidates, `D` hidden width, `V` vocabulary size.

    Args:
        trained: The tokenizer and the model.
    """

    methods = {}

    def __init__(self, trained: TrainedRun):
        self.trained = trained
        self.tokenizer = trained.tokenizer
        self.model = trained.model
        self.embedder = Embedder(trained)
        self.max_length = trained.config.model.max_sequence_length
        self.encoder = TextEncoder(self.tokenizer, self.max_length)
        export = trained.config.export
        self.top_k = min(export.top_k, self.tokenizer.vocabulary_size)
        self.pieces = answer_pieces(self.tokenizer)
        self.phone_masks = export.tflite_masks
        self.fillable = np.zeros(self.tokenizer.vocabulary_size, bool)
        self.fillable[self.tokenizer.ordinary_ids] = True

    def endpoints(self) -> dict[str, Endpoint]:
        ids = [ids_spec(name) for name in (*SEQUENCE, "masked_positions")]
        return {
            "serving_default": Endpoint(self.fill_masks, [TEXT]),
            "refine": Endpoint(self.refine, [TEXT, _ITERATIONS]),
            "embed": Endpoint(self.embedder.embed, [TEXT]),
            "tokenize": tokenize_endpoint(self.encoder),
            "fill_mask": Endpoint(self.fill_mask, ids),
            **attention_endpoint(
                self.trained, self.embedder.body, [TEXT], self.read_for_attention
            ),
        }

    def phone_endpoints(self) -> dict[str, Endpoint]:
        sequence = [ids_spec(name, 1, None) for name in SEQUENCE]
        masks = ids_spec("masked_positions", 1, self.phone_masks)
        return {
            "fill_mask": Endpoint(self.fill_mask, [*sequence, masks]),
            "embed": self.embedder.phone_endpoint(),
        }

    def fill_masks(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the most probable tokens for each `[MASK]` separately.

        A literal `[MASK]` is parsed as the special token only in this signature and in
        `attention`.

        Args:
            text: string (B,), any bytes.

        Returns:
            `fills`: string (B, M, K), the best first; a piece that continues a word
            begins with `##`. `scores`: float32 (B, M, K), their probabilities over
            the whole vocabulary. `truncated`: bool (B,); a `[MASK]` that was cut off is
            not counted in M. Texts with fewer than M masks are padded with `""` and 0.
        """
        tokens = tokenize_with_masks(self.tokenizer, text)
        encoded = self.encoder.text(tokens)
        positions = _positions(encoded.token_ids == self.tokenizer.special.mask)
        logits = self.fill_mask(
            encoded.token_ids, encoded.padding_mask, positions.to_tensor()
        )["logits"]  # (B, M, V)
        scores, ids = tf.math.top_k(tf.nn.softmax(logits), self.top_k)
        real = tf.expand_dims(
            tf.sequence_mask(positions.row_lengths(), tf.shape(logits)[1]), axis=2
        )
        fills = tf.gather(tf.constant(self.pieces), ids)
        return {
            "fills": tf.where(real, fills, ""),
            "scores": tf.where(real, scores, 0.0),
            "truncated": encoded.truncated,
        }

    def refine(self, text: tf.Tensor, iterations: tf.Tensor) -> dict[str, tf.Tensor]:
        """Fills the masks of each text together, by `mask_predict`.

        Args:
            text: string (B,), any bytes, with `[MASK]`s as in `fill_masks`.
            iterations: int32 (B,), or (1,) for all texts; at least 1.

        Returns:
            The outputs of `fill_masks` with one fill for each mask, (B, M, 1), which
            is no special token. The scores are the probabilities of the tokens when
            they were last predicted.
        """
        encoded = self.encoder.text(tokenize_with_masks(self.tokenizer, text))
        mask_id = self.tokenizer.special.mask
        assert mask_id is not None
        positions = _positions(encoded.token_ids == mask_id)
        # A column more: texts need not have a mask.
        masked_positions = tf.pad(positions.to_tensor(), [[0, 0], [0, 1]])
        with tf.control_dependencies([_check_iterations(iterations)]):
            iterations = tf.broadcast_to(iterations, tf.shape(text))

        def logits_of(token_ids: tf.Tensor) -> tf.Tensor:
            return self.fill_mask(token_ids, encoded.padding_mask, masked_positions)[
                "logits"
            ]

        ids, scores = mask_predict(
            logits_of,
            encoded.token_ids,
            iterations,
            mask_id=mask_id,
            num_masks=tf.shape(masked_positions)[1],
            allowed=self.fillable,
        )
        ids, scores = ids[:, :-1], scores[:, :-1]
        real = tf.sequence_mask(positions.row_lengths(), tf.shape(ids)[1])
        fills = tf.gather(tf.constant(self.pieces), ids)
        return {
            "fills": tf.where(real, fills, "")[:, :, tf.newaxis],
            "scores": tf.where(real, tf.exp(scores), 0.0)[:, :, tf.newaxis],
            "truncated": encoded.truncated,
        }

    def fill_mask(
        self, token_ids: tf.Tensor, padding_mask: tf.Tensor, masked_positions: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Computes logits over the vocabulary at given positions of token ids.

        Args:
            token_ids: int32 (B, T), one text per row, with its special tokens.
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

    def read_for_attention(self, *texts: tf.Tensor, longest: int = LONGEST) -> Any:
        """Reads texts for the signature `attention`; see `AttentionReader`."""
        tokens = tokenize_with_masks(self.tokenizer, *texts)
        encoded = self.encoder.shorter(longest).text(tokens)
        inputs = {name: getattr(encoded, name) for name in SEQUENCE}
        return inputs, encoded.truncated


def _check_iterations(iterations: tf.Tensor) -> tf.Operation:
    return tf.debugging.assert_positive(
        iterations, "iterations: found a number below 1, expected at least 1"
    )


def _positions(chosen: tf.Tensor) -> tf.RaggedTensor:
    """Returns the indices of true values in each row of (B, T), int32 (B, None)."""
    shape = tf.shape(chosen)
    return select_in_rows(tf.broadcast_to(tf.range(shape[1]), shape), chosen)
