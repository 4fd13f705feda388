"""Tokenizers of every kind that phones may have, and texts to try them with."""

import random
import re
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import tensorflow as tf

from tests.data.hostile_strings import HOSTILE_TEXTS
from tests.harness.stages import stage
from tests.pipeline.tokenizers.sentencepiece_models import OPTIONS, SENTENCES, train
from transbeam.configs.schema.tokenizer import ByteBPEConfig
from transbeam.pipeline.tokenizers.base.framing import Framing
from transbeam.pipeline.tokenizers.base.vocabulary import SPECIAL_PIECES
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_model import ByteBPEModel
from transbeam.pipeline.tokenizers.files.added_tokens import (
    AddedToken,
    with_added_tokens,
)
from transbeam.pipeline.tokenizers.files.tokenizer_folder import save_tokenizer
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_model import (
    SentencePieceModel,
)
from transbeam.pipeline.tokenizers.training.train_tokenizer import (
    learn_model,
    word_splitter,
)
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_model import WordPieceModel
from transbeam.serving.phone.tokenizer.sources.tokenizer import Tokenizer
from transbeam.serving.phone.tokenizer.tokenizer_data import make_tokenizer_data
from transbeam.serving.phone.tokenizer.tokenizer_files import write_tokenizer

_T5 = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
_ALBERT = {"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1}

# Alternatives of a model of SentencePiece, beside those that others try.
_SENTENCE_PIECES = {
    **OPTIONS,
    "t5": _T5,
    "albert": _ALBERT | {"control_symbols": "[CLS],[SEP],[MASK]"},
    "space behind": {"treat_whitespace_as_suffix": True},
    "no space before": {"add_dummy_prefix": False},
    "bpe with bytes": {"model_type": "bpe", "byte_fallback": True, "vocab_size": 340},
    "bpe with own": {
        "model_type": "bpe",
        "user_defined_symbols": "[MASK],<sep>,the,an",
    },
}
_MODES = [(True, True), (True, False), (False, True), (False, False)]

NAMES = [
    *(f"wordpiece {mode}" for mode in _MODES),
    "byte_bpe",
    "byte_bpe with a space",
    "byte_bpe of another order",
    "byte_bpe of roberta",
    *_SENTENCE_PIECES,
    "added wordpiece",
    "added byte_bpe",
    "unigram with markers",
]
# Tokens that are found whole: one begins with another, and one is of other letters.
_ADDED = ("an", "and the", "[The]", "é", "\u1b44o", "ti\u0345")
# Of each engine, each frame and each way with bytes: the golden ids of a tokenizer take
# half a second, and those of all kinds are of the same few functions.
_GOLDEN = {
    *("wordpiece (True, False)", "byte_bpe", "byte_bpe of roberta", "unigram"),
    *("t5", "albert", "bpe with own", "bpe with bytes"),
}
WITH_GOLDEN = [
    pytest.param(name, marks=() if name in _GOLDEN else pytest.mark.thorough)
    for name in NAMES
]


@cache
def model(name):
    """The data of a tokenizer."""
    if name.startswith("wordpiece"):
        lowercase, strip_accents = _MODES[NAMES.index(name)]
        return WordPieceModel(
            pieces=_wordpieces(), lowercase=lowercase, strip_accents=strip_accents
        )
    if name.startswith("byte_bpe"):
        return _byte_bpe(name)
    if name.startswith("added"):
        plain = model(NAMES[0] if name.endswith("wordpiece") else "byte_bpe")
        new = (piece for piece in _ADDED if piece not in plain.pieces)
        ids = {piece: len(plain.pieces) + i for i, piece in enumerate(new)}
        tokens = [
            AddedToken(piece, ids.get(piece, -1), False, number % 2 == 0, "here")
            for number, piece in enumerate(_ADDED)
            if piece in ids
        ]
        return with_added_tokens(plain, tokens)
    if name == "unigram with markers":
        plain = model("unigram")
        # Of a chat template, and letters, which stand in all texts.
        markers = Framing(whole_pieces=("</s>", "h", "n"))
        return replace(plain, framing=markers)
    proto = train(**_SENTENCE_PIECES[name])
    return SentencePieceModel(proto=proto, num_sentinels=3 if name == "t5" else 0)


@cache
def engine(name):
    """The tokenizer of a model's graph."""
    return model(name).build()


@cache
def data(name):
    """The tokenizer's data for phones."""
    return make_tokenizer_data(model(name))


@cache
def reference(name):
    """The tokenizer of a phone."""
    return Tokenizer(data(name))


def handed_over(name):
    """A folder with a tokenizer's data and golden ids, and `saved`, itself; a stage."""

    def make(folder: Path) -> None:
        save_tokenizer(folder / "saved", model(name))
        write_tokenizer(folder / "saved", folder)

    return stage("phone-tokenizer-" + re.sub(r"\W+", "-", name).strip("-"), make)


def engine_ids(name, texts):
    return engine(name).tokenize(tf.constant(texts, tf.string, [len(texts)])).to_list()


@cache
def _wordpieces():
    """Of most words of the texts a piece and what may follow it: few are unknown."""
    pieces = dict.fromkeys(SPECIAL_PIECES)
    plain = WordPieceModel(pieces=SPECIAL_PIECES, lowercase=False, strip_accents=False)
    folded = WordPieceModel(pieces=SPECIAL_PIECES, lowercase=True, strip_accents=True)
    for one in (plain, folded):
        for word in one.build().words([*HOSTILE_TEXTS, *SENTENCES]).flat_values.numpy():
            text = word.decode()
            pieces |= dict.fromkeys([text[:1], text[:3]])
            pieces |= dict.fromkeys(f"##{character}" for character in text)
            pieces |= dict.fromkeys(f"##{text[i : i + 2]}" for i in range(2, 9, 3))
    return tuple(piece for piece in pieces if piece != "##")


@cache
def _learned_byte_bpe():
    config = ByteBPEConfig(vocabulary_size=540)
    words = word_splitter(config).words(tf.constant([*SENTENCES, *HOSTILE_TEXTS]))
    counts = Counter(word.decode() for word in words.flat_values.numpy().tolist())
    return learn_model(counts, config)


def _byte_bpe(name):
    learned = _learned_byte_bpe()
    pieces, merges = learned.pieces, list(learned.merges)
    if name.endswith("order"):
        # Not as any learner makes them: a pair may be made before what it is made of.
        random.Random(1).shuffle(merges)
    if name.endswith("roberta"):
        pieces = ("<s>", "<pad>", "</s>", "<unk>", "<mask>", *pieces[1:])
    return ByteBPEModel(
        pieces=pieces,
        merges=tuple(merges),
        add_prefix_space=name.endswith("space"),
    )


def random_texts(number, seed):
    """Texts that are half words of `SENTENCES` and half anything.

    Args:
        number: How many.
        seed: Of the chance.
    """
    chance = random.Random(seed)
    return [
        "".join(_random_part(chance) for _ in range(chance.randrange(30)))
        for _ in range(number)
    ]


_BLOCKS = [
    (0x20, 0x7F),
    (0xA0, 0x600),
    (0x600, 0x2000),
    (0x2000, 0x3400),
    (0xA000, 0xD7FF),
    (0xF900, 0x10000),
    (0x10000, 0x20000),
]
_AWKWARD = (
    "the other banana ▁  \u0301\u0323\u0345\u0334\u302e\u1b44\u1dfaﬁé\n\t\x00\u200b'"
)


def _random_part(chance):
    match chance.randrange(4):
        case 0:
            return chr(chance.randrange(*_BLOCKS[0]))
        case 1:
            return chr(chance.randrange(*chance.choice(_BLOCKS)))
        case 2:
            return chance.choice(_AWKWARD)
    sentence = chance.choice(SENTENCES)
    start = chance.randrange(len(sentence))
    return sentence[start : start + chance.randrange(9)]
