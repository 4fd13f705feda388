"""A unigram model is a function of the word counts alone."""

import hashlib
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
import sentencepiece

from transbeam.configs.base.errors import DataError
from transbeam.configs.schema.tokenizer import UnigramConfig
from transbeam.pipeline.tokenizers.training.train_unigram import learn_unigram


def config(vocabulary_size, **options):
    return UnigramConfig(
        vocabulary_size=vocabulary_size,
        **{"character_coverage": 1.0} | options,
    )


def invented_counts():
    rng = random.Random(0)
    words = {
        "".join(rng.choices("abcdefghéλ漢", k=rng.randint(1, 7))) for _ in range(2000)
    }
    return {word: rng.randint(1, 4) for word in sorted(words)}


def test_order_of_the_counts_does_not_matter():
    counts = invented_counts()
    first = learn_unigram(counts, config(300)).proto
    items = list(counts.items())
    for seed in range(3):
        random.Random(seed).shuffle(items)
        assert learn_unigram(dict(items), config(300)).proto == first


def test_processes_and_cores_do_not_matter():
    script = (
        "import hashlib, json, os, sys\n"
        "from transbeam.configs.schema.tokenizer import UnigramConfig\n"
        "from transbeam.pipeline.tokenizers.training import train_unigram\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "config = UnigramConfig(vocabulary_size=300, character_coverage=1.0)\n"
        "model = train_unigram.learn_unigram(json.load(sys.stdin), config)\n"
        "print(hashlib.sha256(model.proto).hexdigest())\n"
        "assert 'tensorflow' not in sys.modules\n"
    )
    counts = invented_counts()
    result = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps(counts),
        env=os.environ | {"PYTHONHASHSEED": "1"},
        cwd=Path(__file__).parents[4],
        capture_output=True,
        text=True,
        check=True,
    )
    expected = hashlib.sha256(learn_unigram(counts, config(300)).proto).hexdigest()
    assert result.stdout.strip() == expected


def test_counts_are_what_is_learned_from():
    # Only what two words share can become a piece.
    counts = invented_counts() | dict.fromkeys(["abcdef", "abcdefλ", "fed", "fedλ"], 1)
    pieces = learn_unigram(counts, config(300)).pieces
    assert not {"▁abcdef", "▁fed"} & set(pieces)
    for word in ("abcdef", "fed"):
        pieces = learn_unigram(counts | {word: 1000}, config(300)).pieces
        assert f"▁{word}" in pieces


def test_special_pieces_by_family():
    t5 = learn_unigram(invented_counts(), config(100, num_sentinels=10))
    assert t5.pieces[:3] == ("<pad>", "</s>", "<unk>")
    assert len(t5.pieces) == 100
    assert t5.pieces[90] == "<extra_id_9>"
    assert t5.special.sentinels == tuple(range(99, 89, -1))
    albert = learn_unigram(invented_counts(), config(100, specials="albert"))
    assert albert.pieces[:5] == ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
    assert len(albert.pieces) == 100


@pytest.mark.parametrize(
    ("rule", "normalised"),
    [
        ("nmt_nfkc", "ﬁne A\tb"),
        ("nmt_nfkc_cf", "ﬁne A\tb"),
        ("nfkc", "ﬁne A\tb"),
        ("identity", "ﬁne A\tb"),
    ],
)
def test_normalization_is_that_of_the_library(rule, normalised):
    model = learn_unigram(invented_counts(), config(100, normalization=rule))
    by_rule = sentencepiece.SentencePieceNormalizer(
        rule_name=rule, add_dummy_prefix=True, escape_whitespaces=True
    )
    # `normalize` of the learned model goes by the rule it holds.
    assert model.processor.normalize(normalised) == by_rule.normalize(normalised)


def test_byte_fallback_leaves_nothing_unknown():
    model = learn_unigram(invented_counts(), config(400, byte_fallback=True))
    assert model.pieces.index("<0x00>") == 3
    ids = model.processor.encode("Ω")
    assert [model.pieces[i] for i in ids] == ["▁", "<0xCE>", "<0xA9>"]


@pytest.mark.parametrize("kept", [None, True])
def test_of_several_spaces_one_is_left(kept):
    model = learn_unigram({"ab": 5, "b": 2}, config(6, remove_extra_whitespaces=kept))
    assert model.processor.normalize("  ab   b ") == "▁ab▁b"
    # What was learned before there was the key is learned again.
    assert model.proto == learn_unigram({"ab": 5, "b": 2}, config(6)).proto


def test_every_space_is_kept_where_that_is_asked_for():
    options = {"byte_fallback": True, "normalization": "identity"}
    wanted = config(270, remove_extra_whitespaces=False, **options)
    tokenizer = learn_unigram({"def": 5, "return": 9, "x": 9, "y,": 3}, wanted).build()
    text = "    return x,\t  y \n\n  x"
    ids = tokenizer.tokenize([text])
    assert tokenizer.detokenize(ids).numpy().tolist() == [text.encode()]


def test_rare_characters_go_without_a_piece():
    counts = invented_counts() | {"Ω": 1}
    assert "Ω" in learn_unigram(counts, config(100)).pieces
    rare = learn_unigram(counts, config(100, character_coverage=0.99))
    assert "Ω" not in "".join(rare.pieces)


def test_a_corpus_too_small_says_what_it_supports():
    counts = {"banana": 50, "bandana": 30, "the": 500}
    for sentinels in (0, 7):
        with pytest.raises(DataError) as error:
            learn_unigram(counts, config(1000, num_sentinels=sentinels))
        message = str(error.value)
        assert "tokenizer.vocabulary_size=1000" in message
        assert "3 different words" in message
        supported = int(re.search(r"supports only (\d+)", message)[1])
        made = learn_unigram(counts, config(supported, num_sentinels=sentinels))
        assert len(made.pieces) == supported


def test_an_alphabet_too_large_names_both_keys():
    counts = {chr(0x4E00 + i): 3 for i in range(50)}
    with pytest.raises(DataError, match=r"alone are 54.*character_coverage \(now 1"):
        learn_unigram(counts, config(40))


@pytest.mark.parametrize("sentinels", [16, 20])
def test_no_room_beside_the_sentinels(sentinels):
    with pytest.raises(DataError, match=r"tokenizer"):
        learn_unigram({"banana": 9}, config(16, num_sentinels=sentinels))


def test_no_words_at_all():
    with pytest.raises(DataError, match="no words to learn"):
        learn_unigram({}, config(100))
