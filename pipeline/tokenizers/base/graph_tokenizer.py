"""Base class of the tokenizers: TensorFlow functions with Python wrappers."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from transbeam.pipeline.tokenizers.base.interface import TokenOffsets, encodable
from transbeam.pipeline.tokenizers.base.whole_pieces import WholePieces

Texts = tf.Tensor | np.ndarray | Sequence[str | bytes]

TEXTS = tf.TensorSpec([None], tf.string, name="texts")
RAGGED_IDS = tf.RaggedTensorSpec([None, None], tf.int32, ragged_rank=1)


class GraphTokenizer(tf.Module):
    """A tokenizer whose functions are compiled.

    A tokenizer works eagerly, inside `tf.data` and `tf.function`, and in a SavedModel,
    if a `keras.export.ExportArchive` tracks it.

    Each public method calls a compiled function. A public method that is a
    `tf.function` would have only a weak reference to `self`, so in
    `load_tokenizer(folder).tokenize(texts)` the tokenizer would already be deleted.
    """

    pieces: tuple[str, ...]
    # The format of conversations, if the tokenizer was loaded with a chat template.
    chat_format: Any = None
    # The compiled methods of a subclass.
    _tokenize: Any
    _split_into_words: Any
    _detokenize: Any

    @property
    def vocabulary_size(self) -> int:
        """The number of pieces including special ones."""
        return len(self.pieces)

    def tokenize(self, texts: Texts) -> tf.RaggedTensor:
        """Tokenizes texts. Names of special tokens are tokenized as ordinary text.

        Args:
            texts: string `(N,)`, any bytes.

        Returns:
            int32 `(N, None)`; no special tokens are added.
        """
        return self._tokenize(tf.convert_to_tensor(texts, tf.string))

    def words(self, texts: Texts) -> tf.RaggedTensor:
        """Splits texts into words for training a vocabulary.

        Args:
            texts: string `(N,)`, any bytes.

        Returns:
            string `(N, None)`, UTF-8.
        """
        return self._split_into_words(tf.convert_to_tensor(texts, tf.string))

    def detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Decodes ids to text.

        Args:
            ids: int32 `(N, None)`.

        Returns:
            string `(N,)`; special tokens become their names.

        Raises:
            tf.errors.InvalidArgumentError: An id is outside the vocabulary.
        """
        return self._detokenize(ids)


class AddedTokenTokenizer(GraphTokenizer):
    """A tokenizer that matches added tokens first and tokenizes the text between them.

    Attributes:
        whole: Matches the added tokens; None if the vocabulary has no added tokens.
    """

    whole: WholePieces | None
    # The tokenization of texts without added tokens, in the graph and with offsets.
    _ids_of: Any
    _offsets_of: Any

    def tokenize_with_offsets(self, texts: Sequence[str]) -> list[TokenOffsets]:
        """Tokenizes texts with the character offsets of each token."""
        texts = encodable(texts)
        if self.whole is None:
            return self._offsets_of(texts)
        return self.whole.tokenize_with_offsets(texts, self._offsets_of)

    @tf.function(input_signature=[TEXTS], autograph=False)
    def _tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return self._tokenize_around(texts, self._ids_of)

    def _tokenize_around(
        self, texts: tf.Tensor, ids_of: Callable[[tf.Tensor], tf.RaggedTensor]
    ) -> tf.RaggedTensor:
        """Tokenizes texts; `ids_of` tokenizes the text between added tokens."""
        whole = self.whole
        return ids_of(texts) if whole is None else whole.tokenize(texts, ids_of)

    def _match_whole(self, exact: Sequence[str], folded: Sequence[str] = ()) -> None:
        """Sets the matcher for added tokens of the vocabulary."""
        ids = {piece: i for i, piece in enumerate(self.pieces)}
        self.whole = None
        if exact or folded:
            self.whole = WholePieces(
                {piece: ids[piece] for piece in exact},
                {piece: ids[piece] for piece in folded},
            )
