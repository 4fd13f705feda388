"""A vocabulary is a function of the word counts alone, and as good as Rust's."""

import ast
import json
import os
import random
import re
import subprocess
import sys
import sysconfig
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from transbeam.configs.base.errors import DataError
from transbeam.configs.schema.tokenizer import WordPieceConfig
from transbeam.pipeline.tokenizers.base.vocabulary import SPECIAL_PIECES
from transbeam.pipeline.tokenizers.training.hf_trainer import (
    learn_wordpiece,
    lines_of_words,
)

SPECIALS = list(SPECIAL_PIECES)


def config(vocabulary_size, **options):
    return WordPieceConfig(vocabulary_size=vocabulary_size, **options)


@cache
def real_counts():
    """Words of the docstrings of some modules of the standard library."""
    counts = Counter()
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("[a-h]*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                docstring = ast.get_docstring(node) or ""
                counts.update(re.findall(r"\w+|[^\w\s]", docstring.lower()))
    return counts


def invented_counts():
    """Words with very many ties, where an order that is not fixed would show."""
    rng = random.Random(0)
    words = {
        "".join(rng.choices("abcdefghéλ漢", k=rng.randint(1, 7))) for _ in range(3000)
    }
    return {word: rng.randint(1, 4) for word in sorted(words)}


def test_pieces_by_hand():
    # Pairs: a ##b counts 15 and becomes `ab`, then ab ##c counts 5.
    learned = learn_wordpiece({"ab": 10, "abc": 5}, config(12))
    assert learned == [*SPECIALS, "a", "b", "c", "##b", "##c", "ab", "abc"]


def test_order_of_the_counts_does_not_matter():
    counts = invented_counts()
    first = learn_wordpiece(counts, config(500))
    items = list(counts.items())
    for seed in range(4):
        random.Random(seed).shuffle(items)
        assert learn_wordpiece(dict(items), config(500)) == first


def test_processes_and_threads_do_not_matter():
    script = (
        "import json, sys\n"
        "from transbeam.configs.schema.tokenizer import WordPieceConfig\n"
        "from transbeam.pipeline.tokenizers.training import hf_trainer\n"
        "config = WordPieceConfig(vocabulary_size=500)\n"
        "counts = json.load(sys.stdin)\n"
        "print(json.dumps(hf_trainer.learn_wordpiece(counts, config)))\n"
        "assert 'tensorflow' not in sys.modules\n"
    )
    counts = invented_counts()
    expected = learn_wordpiece(counts, config(500))
    for environment in (
        {"TOKENIZERS_PARALLELISM": "false", "PYTHONHASHSEED": "1"},
        {"RAYON_NUM_THREADS": "3", "PYTHONHASHSEED": "2"},
    ):
        result = subprocess.run(
            [sys.executable, "-c", script],
            input=json.dumps(counts),
            env=os.environ | environment,
            cwd=Path(__file__).parents[4],
            capture_output=True,
            text=True,
            check=True,
        )
        assert json.loads(result.stdout) == expected


def test_nearly_the_pieces_of_the_rust_trainer():
    counts = real_counts()
    assert len(counts) > 3000
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=2000, special_tokens=SPECIALS, show_progress=False
    )
    text = (" ".join([word] * count) for word, count in counts.items())
    tokenizer.train_from_iterator(text, trainer)
    ours = learn_wordpiece(counts, config(2000))
    assert len(ours) == len(set(ours)) == 2000
    assert len(set(ours) & set(tokenizer.get_vocab())) > 0.99 * 2000


def test_the_most_frequent_characters_are_kept_and_ties_go_by_code_point():
    counts = {"aab": 10, "ac": 10, "ad": 2, "e": 9}
    learned = learn_wordpiece(counts, config(13, maximum_alphabet=3))
    # `d` and `e` are rarer. Only `aab` and `ac` are left to learn from.
    alphabet = ["a", "b", "c", "##a", "##b", "##c"]
    assert learned[:11] == [*SPECIALS, *alphabet]
    assert set(learned[11:]) < {"ac", "aab", "##ab", "aa"}


def test_a_word_too_long_for_the_tokenizer_teaches_nothing():
    counts = {"ab": 10, "abc": 5}
    allowed, too_long = "abc" * 33, "abc" * 34
    assert learn_wordpiece(counts | {too_long: 5}, config(13))[11:] == ["ab", "abc"]
    assert learn_wordpiece(counts | {allowed: 5}, config(13))[11:] != ["ab", "abc"]


def test_pieces_stay_short_enough_for_the_tensorflow_kernel():
    from transbeam.pipeline.tokenizers.wordpiece.wordpiece_tokenizer import (
        WordPieceTokenizer,
    )

    letters = "\U00010400\U00010401"
    word = "".join(random.Random(0).choices(letters, k=100))
    with pytest.raises(DataError, match="supports only") as error:
        learn_wordpiece({word: 50}, config(200))
    size = int(re.search(r"supports only (\d+)", str(error.value)).group(1))
    learned = learn_wordpiece({word: 50}, config(size))
    assert 30 < max(len(piece.removeprefix("##")) for piece in learned) <= 64
    ids = WordPieceTokenizer(learned, lowercase=False).tokenize([word]).to_list()[0]
    assert "".join(learned[i].removeprefix("##") for i in ids) == word


def test_a_corpus_too_small_says_what_it_supports():
    counts = {"ab": 10, "abc": 5, "once": 1}
    with pytest.raises(DataError) as error:
        learn_wordpiece(counts, config(100))
    message = str(error.value)
    assert "tokenizer.vocabulary_size=100" in message
    assert "3 different words" in message
    supported = int(re.search(r"supports only (\d+)", message).group(1))
    assert len(learn_wordpiece(counts, config(supported))) == supported
    with pytest.raises(DataError):
        learn_wordpiece(counts, config(supported + 1))


def test_no_words_at_all():
    with pytest.raises(DataError, match="supports only 5"):
        learn_wordpiece({}, config(32))


def test_an_alphabet_too_large_names_both_keys():
    counts = {chr(0x4E00 + i): 3 for i in range(50)}
    with pytest.raises(DataError, match=r"alone are 55.*tokenizer\.maximum_alphabet"):
        learn_wordpiece(counts, config(40))
    with pytest.raises(DataError, match="supports only 25"):
        learn_wordpiece(counts, config(40, maximum_alphabet=20))


def test_lines_hold_each_word_as_often_as_it_counts():
    counts = {"a": 25_000, "b": 1, "c": 3, "d": 9_999}
    lines = list(lines_of_words(counts, 10**9))
    assert Counter(" ".join(lines).split()) == counts
    assert max(len(line.split()) for line in lines) == 10_000


def test_large_counts_are_scaled_down_but_never_to_nothing():
    counts = {"a": 6 * 10**12, "b": 3 * 10**12, "c": 1}
    written = Counter(" ".join(lines_of_words(counts, 900)).split())
    assert written == {"a": 599, "b": 299, "c": 1}
