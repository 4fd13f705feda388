"""A tokenizer outlives a new global seed, which clears TensorFlow's kernels."""

import keras
import pytest
import tensorflow as tf

from tests.pipeline.tokenizers.sentencepiece_models import OPTIONS, SENTENCES, train
from transbeam.pipeline.tokenizers.base.vocabulary import SPECIAL_PIECES
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_tokenizer import ByteBPETokenizer
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_vocabulary import (
    ALPHABET,
    END_OF_TEXT,
)
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_tokenizer import (
    SentencePieceTokenizer,
)
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_tokenizer import (
    WordPieceTokenizer,
)

TEXTS = ["the other", "", "that this", "this"]
BUILD = {
    "wordpiece": lambda: WordPieceTokenizer([*SPECIAL_PIECES, "th", "##is", "other"]),
    "byte_bpe": lambda: ByteBPETokenizer(
        [*ALPHABET, "th", "Ġth", END_OF_TEXT], [("t", "h"), ("Ġ", "th")]
    ),
    **{
        f"sentencepiece, {name}": lambda name=name: SentencePieceTokenizer(
            train(**OPTIONS[name])
        )
        for name in ("unigram", "bpe", "all white space")
    },
}


@pytest.mark.parametrize(
    "name",
    [
        "wordpiece",
        "byte_bpe",
        "sentencepiece, unigram",
        "sentencepiece, all white space",
        # The next test has one, too.
        pytest.param("sentencepiece, bpe", marks=pytest.mark.thorough),
    ],
)
def test_same_ids_and_texts_after_a_new_global_seed(name):
    tokenizer = BUILD[name]()
    compiled = tf.function(lambda texts: tokenizer.tokenize(texts).to_tensor(-1))
    batches = tf.data.Dataset.from_tensor_slices(TEXTS).batch(2).map(tokenizer.tokenize)
    half_way = iter(batches)

    def results():
        ids = tokenizer.tokenize(TEXTS)
        return [
            ids.to_list(),
            tokenizer.detokenize(ids).numpy().tolist(),
            tokenizer.words(TEXTS).to_list(),
            compiled(tf.constant(TEXTS)).numpy().tolist(),
            [row for batch in batches for row in batch.to_list()],
        ]

    expected = results()
    assert len({len(row) for row in expected[0]}) > 2
    first = next(half_way).to_list()
    keras.utils.set_random_seed(1)
    assert results() == expected
    assert first + next(half_way).to_list() == expected[0]


def test_two_models_keep_apart_through_several_seeds():
    protos = [train(**OPTIONS[name]) for name in ("bpe", "unigram")]
    tokenizers = [SentencePieceTokenizer(proto) for proto in protos]
    keras.utils.set_random_seed(1)
    expected = [tokenizer.tokenize(SENTENCES).to_list() for tokenizer in tokenizers]
    assert expected[0] != expected[1]
    for seed in (2, 3):
        keras.utils.set_random_seed(seed)
        ids = [tokenizer.tokenize(SENTENCES).to_list() for tokenizer in tokenizers]
        assert ids == expected
