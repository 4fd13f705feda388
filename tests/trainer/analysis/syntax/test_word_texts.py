"""Attention between the words of texts: the right heads, words and texts."""

import numpy as np
import pytest

from tests.model.conftest import small_config
from tests.trainer.analysis.contexts import make_context, numpy_maps
from transbeam.configs.base.errors import ConfigError, DataError
from transbeam.configs.schema.attention import (
    FullAttentionConfig,
    GlobalWindowAttentionConfig,
    LowRankAttentionConfig,
    SlidingWindowAttentionConfig,
)
from transbeam.configs.schema.model import (
    DecoderConfig,
    EncoderConfig,
    PatchesConfig,
    Seq2SeqModelConfig,
)
from transbeam.model.encoder import build_encoder
from transbeam.trainer.analysis.syntax.word_texts import (
    list_heads,
    make_word_reader,
    read_word_maps,
    tokenize_words,
)

TEXTS = [
    "she saw the old dogs .",
    "now she saw the dog",
    "the dogs saw the old dogs now she saw no dog now",
    "dogs",
]


def offsets(text):
    ends = np.cumsum([len(word) + 1 for word in text.split()]) - 1
    return list(zip([0, *(ends + 1).tolist()], ends.tolist(), strict=False))


def tokenize(context, texts=TEXTS):
    return tokenize_words(context, texts, [offsets(text) for text in texts], "some")


def read_first(context, texts):
    read = make_word_reader(context.model)
    return next(read_word_maps(context, tokenize(context, texts), read, "test"))


def small_decoder():
    return DecoderConfig(
        num_layers=2,
        hidden_dim=12,
        max_sequence_length=20,
        attention=FullAttentionConfig(num_heads=3),
    )


def encoder(**changes):
    return small_config(hidden_dim=12, num_segments=0, **changes)


CONFIGS = {
    "encoder": encoder(attention=FullAttentionConfig(num_heads=3)),
    "decoder": small_decoder(),
    "seq2seq": Seq2SeqModelConfig(num_layers=1, hidden_dim=8, max_sequence_length=20),
}


@pytest.mark.parametrize("kind", CONFIGS)
def test_against_a_loop_over_words(kind):
    """Of each text alone, from its whole maps, in NumPy."""
    context = make_context(CONFIGS[kind])
    words = tokenize(context)
    heads = list_heads(context.model)
    seen = []
    for batch in read_word_maps(
        context, words, make_word_reader(context.model), "test"
    ):
        for place, number in enumerate(batch.index.tolist()):
            seen.append(number)
            maps = numpy_maps(context.model, words.texts.rows[number])
            member = words.memberships[number]
            size = member.shape[1]
            for h, (layer, head) in enumerate(heads):
                found = batch.words[place, h]
                assert not found[size:].any()
                assert not found[:, size:].any()
                columns = maps[layer][head] @ member
                for i in range(size):
                    row = columns[member[:, i]].mean(axis=0)
                    np.testing.assert_allclose(found[i, :size], row, atol=1e-5)
                    row[i] = 0
                    if row.max() > 0:
                        assert row[batch.to[place, h, i]] >= row.max() - 1e-5
    assert sorted(seen) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "attention",
    [
        SlidingWindowAttentionConfig(num_heads=3, window_size=40),
        GlobalWindowAttentionConfig(num_heads=3, window_size=40),
    ],
    ids=["window", "global"],
)
def test_windows_as_wide_as_the_text(attention):
    """Their weights are in blocks, and are those of full attention."""
    full = FullAttentionConfig(num_heads=3)
    whole, windows = (
        make_context(encoder(num_layers=1, attention=kind))
        for kind in (full, attention)
    )
    weights = {weight.path: weight for weight in whole.model.weights}
    for weight in windows.model.weights:
        # The projections of global tokens are of their own.
        weight.assign(weights[weight.path.replace("/global_", "/")])
    found, expected = (read_first(context, TEXTS[:2]) for context in (windows, whole))
    np.testing.assert_allclose(found.words, expected.words, atol=1e-5)


def test_a_causal_model_does_not_look_ahead():
    context = make_context(small_decoder())
    batch = read_first(context, TEXTS[:1])
    assert np.triu(batch.words[0], 1).max() == 0
    assert (batch.to[0, :, 0] == -1).all()
    assert (batch.by[0, :, -1] == -1).all()


def test_words_by_their_characters():
    words = tokenize(make_context(CONFIGS["encoder"]), ["no dogs now"])
    # [CLS] no dog ##s no ##w [SEP]
    assert words.memberships[0].astype(int).tolist() == [
        [0, 0, 0],
        [1, 0, 0],
        [0, 1, 0],
        [0, 1, 0],
        [0, 0, 1],
        [0, 0, 1],
        [0, 0, 0],
    ]


def test_names_of_heads():
    context = make_context(CONFIGS["encoder"])
    assert list_heads(context.model) == [
        (f"encoder_layer_{layer}/self_attention", head)
        for layer in range(2)
        for head in range(3)
    ]
    context = make_context(CONFIGS["seq2seq"])
    assert {name.layer for name in list_heads(context.model)} == {
        "encoder_layer_0/self_attention"
    }


def test_long_and_empty_texts_are_skipped():
    context = make_context(CONFIGS["encoder"])
    texts = ["dog", "", "dog " * 19, "dog " * 18, " "]
    words = tokenize(context, texts)
    assert words.kept == (0, 3)
    assert words.skipped == 3
    assert [len(row["token_ids"]) for row in words.texts.rows] == [3, 20]


def test_no_text_fits():
    context = make_context(CONFIGS["encoder"])
    with pytest.raises(DataError, match="some: none of its 1 texts has 1 to 18 tokens"):
        tokenize(context, ["dog " * 30])


def test_weights_that_are_not_of_tokens():
    config = encoder(attention=LowRankAttentionConfig(num_heads=3, rank=4))
    with pytest.raises(ConfigError, match="low-rank and kernel attention do not"):
        list_heads(make_context(config).model)


def test_images():
    patches = PatchesConfig(image_size=4, patch_size=2, num_channels=1)
    config = EncoderConfig(num_layers=1, hidden_dim=8, patches=patches)
    with pytest.raises(ConfigError, match="the model reads images"):
        list_heads(build_encoder(config, 5))
