"""Span corruption: nothing is lost, and no token is favoured, however short a text."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipeline.objectives.language_tokenizer import (
    LETTERS,
    SENTINELS,
    WORDS,
    language_tokenizer,
    random_texts,
)
from tests.pipeline.objectives.record_checks import (
    assert_same_when_shuffled,
    records_of,
)
from tests.pipeline.objectives.word_tokenizer import PAD, SEP, run_of
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.objectives.language_modeling import SpanCorruptionConfig
from transbeam.pipeline.documents.document import Document
from transbeam.pipeline.objectives import span_corruption
from transbeam.pipeline.objectives.base.span_noise import noise_mask, random_parts
from transbeam.pipeline.records.features import Records
from transbeam.pipeline.records.packing.sequence_packing import Chunks

T5 = language_tokenizer(
    " ".join([*LETTERS, *(f"w{i}" for i in range(500))]), begin=None
)
CONFIG = SpanCorruptionConfig()


def make(texts: list[str], length: int = 64, tokenizer=T5, **changes) -> Records:
    documents = [Document(text, "x", row) for row, text in enumerate(texts)]
    run = run_of(SpanCorruptionConfig(**changes), length)
    return records_of(span_corruption, run, documents, tokenizer)


def put_back(shown: list[int], asked: list[int]) -> list[int]:
    """The text: each sentinel replaced by what stands behind it in the target."""
    spans: dict[int, list[int]] = {}
    for token in asked:
        if token in SENTINELS:
            current = spans.setdefault(token, [])
            assert not current
        else:
            current.append(token)
    text: list[int] = []
    for token in shown:
        text += spans.pop(token) if token in SENTINELS else [token]
    assert not spans
    return text


def sides(records: Records):
    """Encoder, decoder and target of each text, without padding."""
    arrays, place = records.arrays, records.placement
    starts = np.searchsorted(place.record, place.record)
    for index, record in enumerate(place.record):
        ordinal = index - starts[index] + 1
        encoder = arrays["encoder_document_ids"][record] == ordinal
        decoder = arrays["decoder_document_ids"][record] == ordinal
        assert arrays["target_weights"][record][decoder].all()
        for side, mine in (("encoder", encoder), ("decoder", decoder)):
            positions = arrays[f"{side}_position_ids"][record][mine]
            assert positions.tolist() == list(range(mine.sum()))
        yield (
            arrays["encoder_token_ids"][record][encoder].tolist(),
            arrays["decoder_token_ids"][record][decoder].tolist(),
            arrays["target_ids"][record][decoder].tolist(),
        )


texts = st.lists(
    st.lists(st.sampled_from("abcdefg"), max_size=80).map(" ".join),
    max_size=10,
    unique=True,
)


@given(texts, st.sampled_from([0.15, 0.5]), st.sampled_from([1.0, 3.0]))
def test_putting_the_spans_back_restores_the_texts(
    texts: list[str], density: float, mean: float
) -> None:
    tokenizer = language_tokenizer(" ".join("abcdefg"), begin=None)
    records = make(
        texts, 40, tokenizer, noise_density=density, mean_noise_span_length=mean
    )
    place = records.placement
    found: dict[int, dict[int, list[int]]] = {}
    for index, (encoder, decoder, target) in enumerate(sides(records)):
        assert encoder.pop() == SEP
        assert decoder == [PAD, *target[:-1]]
        assert target.pop() == SEP
        text = put_back(encoder, target)
        found.setdefault(place.document[index], {})[place.offset[index]] = text
    for row, text in enumerate(texts):
        parts = found.get(row, {})
        whole = [token for at in sorted(parts) for token in parts[at]]
        assert whole == tokenizer.ids(text)
    padding = records.arrays["decoder_document_ids"] == 0
    assert not records.arrays["target_weights"][padding].any()


def chunks_of(tokens: int, count: int) -> Chunks:
    keys = np.random.default_rng(tokens).integers(0, 2**64, count, np.uint64)
    nothing = np.zeros(count, np.int64)
    lengths = np.full(count, tokens)
    return Chunks(np.cumsum(lengths) - tokens, lengths, keys, nothing, nothing)


@pytest.mark.parametrize("tokens", [1, 2, 3, 4, 5, 7, 12, 20, 100])
def test_each_token_is_cut_out_with_the_same_chance(tokens: int) -> None:
    count = 200_000 // tokens
    mask = noise_mask(chunks_of(tokens, count), CONFIG, 0).reshape(count, tokens)
    hits = mask.sum(axis=0)
    # Five standard deviations of a binomial: the texts are independent.
    bound = 5 * (count * 0.15 * 0.85) ** 0.5
    np.testing.assert_allclose(hits, count * 0.15, atol=bound)
    # The number of noise tokens is the share, rounded up or down.
    per_text = mask.sum(axis=1)
    assert set(per_text.tolist()) <= {int(tokens * 0.15), int(tokens * 0.15) + 1}


def test_spans_are_as_long_as_asked_for() -> None:
    mask = noise_mask(chunks_of(200, 1000), CONFIG, 0).reshape(1000, 200)
    starts = mask & ~np.roll(mask, 1, axis=1)  # in a circle, as they were laid
    assert mask.sum() / starts.sum() == pytest.approx(3.0, rel=0.01)
    every = noise_mask(
        chunks_of(50, 400), SpanCorruptionConfig(mean_noise_span_length=1.0), 0
    ).reshape(400, 50)
    assert not (every & np.roll(every, 1, axis=1)).any()


def test_all_ways_to_cut_a_number_are_equally_likely() -> None:
    count = 20_000
    keys = np.random.default_rng(0).integers(0, 2**64, count, np.uint64)
    ones = np.ones(count, np.int64)
    parts = random_parts(5 * ones, 3 * ones, keys, 1).reshape(count, 3)
    assert (parts.sum(axis=1) == 5).all()
    ways, counts = np.unique(parts, axis=0, return_counts=True)
    assert len(ways) == 6
    # 99.99% of a chi-square with five degrees of freedom.
    assert ((counts - count / 6) ** 2 / (count / 6)).sum() < 25.8


def test_parts_of_many_numbers() -> None:
    totals, parts = np.array([4, 0, 1, 6]), np.array([2, 1, 1, 6])
    keys = np.arange(4, dtype=np.uint64)
    found = random_parts(totals, parts, keys, 0)
    sums = np.add.reduceat(found, np.cumsum(parts) - parts)
    assert sums.tolist() == [4, 0, 1, 6]
    assert found[2] == 0
    assert (np.delete(found, 2) > 0).all()


@pytest.mark.parametrize("length", [16, 64, 128])
@pytest.mark.parametrize("density", [0.15, 0.5])
def test_the_longest_text_fits_whatever_is_cut_out(length: int, density: float) -> None:
    config = SpanCorruptionConfig(noise_density=density)
    longest = config.longest_text(length)
    texts = [
        " ".join(f"w{(i * 7 + j) % 500}" for j in range(longest)) for i in range(60)
    ]
    tokenizer = language_tokenizer(
        " ".join(f"w{i}" for i in range(500)), sentinels=tuple(range(600, 800))
    )
    records = make(texts, length, tokenizer, noise_density=density)
    assert len(records.placement.record) == 60, "no text is cut"
    assert len(records) == 60
    fill = (records.arrays["encoder_document_ids"] > 0).mean()
    assert density > 0.15 or fill > (0.85 if length > 16 else 0.6)


def test_lengths_of_t5() -> None:
    # T5 reads 568 tokens to fill an encoder of 512 and a decoder of 114; a few less
    # here, as nothing is rounded in our favour.
    config = SpanCorruptionConfig(decoder_length=114)
    assert 550 <= config.longest_text(512) <= 568
    assert config.target_length(512) == 114


def test_hardly_any_padding_on_short_texts() -> None:
    records = make(random_texts(2000, 25), 128)
    counts = records.counts
    assert counts["encoder_padding"] / (128 * len(records)) < 0.05
    assert counts["padding"] == counts["encoder_padding"] + counts["decoder_padding"]
    assert counts["predictions"] == records.arrays["target_weights"].sum()


def test_arrival_does_not_show() -> None:
    documents = [Document(text, "x", 0) for text in random_texts(100, 30)]
    assert_same_when_shuffled(span_corruption, run_of(CONFIG, 64), documents, T5)


def test_decoder_begins_with_the_begin_piece_where_there_is_one() -> None:
    records = make(["a b c d"], 16, WORDS)
    assert records.arrays["decoder_token_ids"][0, 0] == WORDS.special.begin


def test_too_few_sentinels() -> None:
    tokenizer = language_tokenizer("a", sentinels=(5, 6))
    with pytest.raises(ConfigError, match=r"needs 8 sentinel pieces .* has 2\. Set"):
        make(["a"], 128, tokenizer)
