"""With fewer pieces the words of a corpus are cut as before, by the engines too."""

from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.hostile_strings import HOSTILE_BYTES, HOSTILE_TEXTS
from tests.small_run import paragraphs
from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.schema.tokenizer import ByteBPEConfig, WordPieceConfig
from transbeam.pipeline.steps.count_words import count_words
from transbeam.pipeline.tokenizers.base.vocabulary import SPECIAL_PIECES
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_model import ByteBPEModel
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_vocabulary import (
    ALPHABET,
    END_OF_TEXT,
)
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_model import (
    SentencePieceModel,
)
from transbeam.pipeline.tokenizers.training.train_tokenizer import (
    learn_model,
    word_splitter,
)
from transbeam.pipeline.tokenizers.training.vocabulary_trimming import (
    _LongestFirst,
    _LowestRankFirst,
    trim,
)
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_model import WordPieceModel

HOSTILE = [text.encode() for text in HOSTILE_TEXTS] + HOSTILE_BYTES
CONFIGS = {
    "wordpiece": WordPieceConfig(vocabulary_size=500, num_sentinels=3, num_reserved=4),
    "byte_bpe": ByteBPEConfig(vocabulary_size=400, num_sentinels=3),
}
each_kind = pytest.mark.parametrize("kind", CONFIGS)


@cache
def learned(kind: str):
    """Learned from paragraphs and from texts that are not so nice."""
    config = CONFIGS[kind]
    texts = [*(text.encode() for text in paragraphs(200)), *HOSTILE]
    return learn_model(count_words(texts, word_splitter(config)), config)


@cache
def engine(model):
    return model.build()


def words_of(model, texts) -> Counter[str]:
    return count_words(texts, engine(model))


def pieces_of(model, texts) -> list[list[str]]:
    rows = engine(model).tokenize(texts).to_list()
    return [[model.pieces[number] for number in row] for row in rows]


def bert(*pieces: str) -> WordPieceModel:
    return WordPieceModel(
        pieces=(*SPECIAL_PIECES, *pieces), lowercase=True, strip_accents=True
    )


# ------------------------------------------------------------- nothing but the unused


@each_kind
@pytest.mark.parametrize(
    "corpus",
    [
        pytest.param([text.encode() for text in paragraphs(3)], id="prose"),
        pytest.param(HOSTILE, id="hostile"),
        pytest.param([b""], id="nothing", marks=pytest.mark.thorough),
    ],
)
def test_texts_of_the_corpus_are_cut_as_before(kind, corpus):
    model = learned(kind)
    trimmed = trim(model, words_of(model, corpus))
    smaller = trimmed.model
    assert len(smaller.pieces) < len(model.pieces)
    assert pieces_of(smaller, corpus) == pieces_of(model, corpus)
    assert trimmed.changed == 0
    assert trimmed.old_ids == tuple(sorted(trimmed.old_ids))
    assert [model.pieces[i] for i in trimmed.old_ids] == list(smaller.pieces)
    smaller.check("the trimmed one")


@each_kind
def test_names_stay_and_reserved_ones_go(kind):
    model = learned(kind)
    trimmed = trim(model, {})
    smaller = trimmed.model
    smaller.check("the trimmed one")
    assert trimmed.changed == 0
    assert [model.pieces[i] for i in trimmed.old_ids] == list(smaller.pieces)
    assert smaller.special.sentinels
    for name in ("pad", "begin", "end", "unknown", "mask"):
        old, new = (getattr(m.special, name) for m in (model, smaller))
        assert (old is None) == (new is None)
        assert old is None or model.pieces[old] == smaller.pieces[new]
    assert model.pieces[0] == smaller.pieces[0]
    assert not any("unused" in piece for piece in smaller.pieces)


@each_kind
def test_words_are_traced_as_the_engine_cuts_them(kind):
    model = learned(kind)
    words = list(words_of(model, [*HOSTILE, *(t.encode() for t in paragraphs(20))]))
    if kind == "wordpiece":
        cutter, nothing = _LongestFirst(model.pieces), ["[UNK]"]
        words.append("a" * 101)  # too long, without a look at the pieces
    else:
        cutter, nothing = _LowestRankFirst(model.merges), []
    engine = pieces_of(model, [word.encode() for word in words])
    for word, pieces in zip(words, engine, strict=True):
        assert list(cutter.cut(word) or nothing) == pieces, word


LETTERS = st.text("abc", min_size=1, max_size=6)


@settings(max_examples=300)
@given(
    first=st.sets(LETTERS, max_size=12),
    further=st.sets(LETTERS, max_size=12),
    corpus=st.dictionaries(LETTERS, st.integers(1, 5), min_size=1, max_size=6),
)
def test_longest_first_by_any_vocabulary(first, further, corpus):
    model = bert(*first, *(f"##{piece}" for piece in further))
    smaller = trim(model, corpus).model
    for word in corpus:
        cut = _LongestFirst(smaller.pieces).cut(word)
        assert cut == _LongestFirst(model.pieces).cut(word)


@settings(max_examples=300)
@given(
    chosen=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=14),
    corpus=st.dictionaries(
        st.text("abc", min_size=1, max_size=12), st.just(1), min_size=1, max_size=5
    ),
)
def test_lowest_rank_first_by_any_merges(chosen, corpus):
    pieces, merges = ["a", "b", "c"], []
    for left, right in chosen:  # in an order that no learning would give, too
        pair = (pieces[left % len(pieces)], pieces[right % len(pieces)])
        if "".join(pair) not in pieces and len("".join(pair)) < 7:
            pieces.append("".join(pair))
            merges.insert(left % (len(merges) + 1), pair)
    model = ByteBPEModel(
        pieces=(END_OF_TEXT, *ALPHABET, *pieces[3:]), merges=tuple(merges)
    )
    smaller = trim(model, corpus).model
    smaller.check("the trimmed one")
    for word in corpus:
        cut = _LowestRankFirst(smaller.merges).cut(word)
        assert cut == _LowestRankFirst(model.merges).cut(word)


def test_an_unknown_word_stays_unknown():
    """Without `ab`, which leads nowhere, the word would be `a ##bc`."""
    model = bert("a", "ab", "##bc", "##x")
    assert "ab" in trim(model, {"abc": 1}).model.pieces
    assert trim(model, {"abc": 1}).changed == 0
    assert "ab" not in trim(model, {"abc": 1, "a": 2}, min_count=2).model.pieces


def test_joins_that_others_are_built_on_stay():
    merges = (("a", "b"), ("ab", "c"), ("b", "c"), ("c", "d"))
    made = ("ab", "abc", "bc", "cd")
    model = ByteBPEModel(pieces=(*ALPHABET, *made, END_OF_TEXT), merges=merges)
    smaller = trim(model, {"abc": 1}).model
    assert smaller.merges == merges[:2]
    assert smaller.pieces == (*ALPHABET, "ab", "abc", END_OF_TEXT)


# ------------------------------------------------------------------------ and fewer


@each_kind
def test_rare_pieces_go_and_what_they_wrote_is_spelled(kind):
    model = learned(kind)
    corpus = [text.encode() for text in paragraphs(50)]
    words = words_of(model, corpus)
    whole = trim(model, words)
    for limit in ({"min_count": 60}, {"max_size": len(whole.model.pieces) - 20}):
        trimmed = trim(model, words, **limit)
        smaller = trimmed.model
        smaller.check("the trimmed one")
        assert len(smaller.pieces) < len(whole.model.pieces)
        assert 0 < trimmed.changed < trimmed.words
        before, after = (engine(m).tokenize(corpus) for m in (model, smaller))
        unknown = smaller.special.unknown
        assert unknown is None or unknown not in after.flat_values.numpy()
        texts = [
            engine(m).detokenize(ids) for m, ids in ((model, before), (smaller, after))
        ]
        assert texts[0].numpy().tolist() == texts[1].numpy().tolist()
    assert len(smaller.pieces) <= len(whole.model.pieces) - 20


def test_the_most_frequent_stay():
    model = bert("a", "b", "##a", "##b", "aa", "ab", "bb")
    words = {"aa": 1, "ab": 3, "bb": 2}
    always = len(SPECIAL_PIECES) + 4
    assert trim(model, words, max_size=always + 1).model.pieces[-1] == "ab"
    assert trim(model, words, max_size=always + 2).model.pieces[-2:] == ("ab", "bb")
    letters = trim(model, words, max_size=always)
    assert letters.model.pieces == (*SPECIAL_PIECES, "a", "b", "##a", "##b")
    assert (letters.words, letters.changed) == (6, 6)
    with pytest.raises(ConfigError, match="max_size=8 is less than the 9 pieces"):
        trim(model, words, max_size=8)


@each_kind
def test_less_than_what_is_always_there_is_refused(kind):
    with pytest.raises(ConfigError, match="max_size=4 is less than the"):
        trim(learned(kind), {}, max_size=4)


def test_sentence_piece_is_refused_by_name():
    model = SentencePieceModel(proto=b"", num_sentinels=0)
    with pytest.raises(ArtifactError, match="is SentencePiece's, which cannot be trim"):
        trim(model, {})


def test_options_stay():
    model = replace(bert("a"), lowercase=False)
    assert trim(model, {"a": 1}).model == model
