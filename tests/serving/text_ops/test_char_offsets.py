"""Stretches of tokens are the characters that the evaluation finds for them."""

import random as random_numbers
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.serving.conftest import CORPUS
from transbeam.configs.schema.tokenizer import (
    ByteBPEConfig,
    UnigramConfig,
    WordPieceConfig,
)
from transbeam.pipeline.tokenizers.files.tokenizer_folder import (
    load_tokenizer,
    save_tokenizer,
)
from transbeam.pipeline.tokenizers.training.train_tokenizer import learn_model
from transbeam.serving.text_ops.char_offsets import CharSpan, character_spans
from transbeam.trainer.evaluation.span_qa import answer_texts

KINDS = {
    "wordpiece": WordPieceConfig(vocabulary_size=140),
    "byte_bpe": ByteBPEConfig(vocabulary_size=300, specials="roberta"),
    "unigram": UnigramConfig(vocabulary_size=60, specials="albert"),
}
TEXTS = st.lists(
    st.text("abtensor éß漢ﬁ\u0301\n\u2003.,'", min_size=1, max_size=24),
    min_size=1,
    max_size=4,
)


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(
        folder, learn_model(Counter(CORPUS.split() * 2), KINDS[request.param])
    )
    return load_tokenizer(folder)


def spans(tokenizer, texts, first, last):
    tokens = tokenizer.tokenize(texts)
    stretch = CharSpan(tf.constant(first, tf.int32), tf.constant(last, tf.int32) + 1)
    found = character_spans(tf.constant(texts), tokens, stretch, tokenizer)
    pairs = zip(found.begin.numpy(), found.end.numpy(), strict=True)
    return [text[begin:end] for text, (begin, end) in zip(texts, pairs, strict=True)]


@settings(deadline=None, max_examples=20)
@example(texts=["\u0301a"], random=random_numbers.Random(0))  # nothing, then one piece
@given(texts=TEXTS, random=st.randoms(use_true_random=False))
def test_they_are_those_of_the_evaluation(tokenizer, texts, random):
    lengths = tokenizer.tokenize(texts).row_lengths().numpy().tolist()
    texts = [text for text, length in zip(texts, lengths, strict=True) if length]
    lengths = [length for length in lengths if length]
    if not texts:
        return
    first = [random.randrange(length) for length in lengths]
    last = [random.randrange(*pair) for pair in zip(first, lengths, strict=True)]
    expected = answer_texts(
        [text.encode() for text in texts], np.array(first), np.array(last), tokenizer
    )
    assert spans(tokenizer, texts, first, last) == expected
