"""Vocabulary and merges are a function of the word counts alone."""

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from transbeam.configs.base.errors import DataError
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_vocabulary import (
    ALPHABET,
    check_byte_bpe,
)
from transbeam.pipeline.tokenizers.training.hf_trainer import learn_byte_bpe


def invented_counts():
    """Words with very many ties, where an order that is not fixed would show."""
    rng = random.Random(0)
    words = {
        "".join(rng.choices(" abcdefghéλ漢\n", k=rng.randint(1, 7)))
        for _ in range(3000)
    }
    return {word: rng.randint(1, 4) for word in sorted(words)}


def test_pieces_by_hand():
    # Pairs: a b counts 15 and becomes `ab`, then Ġ ab counts 10.
    pieces, merges = learn_byte_bpe({" ab": 10, "ab": 5}, 260, ["<s>", "</s>"])
    assert pieces == ["<s>", "</s>", *sorted(ALPHABET), "ab", "Ġab"]
    assert merges == [("a", "b"), ("Ġ", "ab")]


def test_white_space_and_bytes_beyond_ascii_are_learned():
    pieces, merges = learn_byte_bpe({"\n\t": 9, "é": 5}, 259)
    assert merges == [("Ċ", "ĉ"), ("Ã", "©")]
    assert pieces[-2:] == ["Ċĉ", "Ã©"]


def test_bytes_are_the_same_as_their_text():
    counts = invented_counts()
    as_bytes = {word.encode(): count for word, count in counts.items()}
    assert learn_byte_bpe(as_bytes, 500) == learn_byte_bpe(counts, 500)


def test_the_result_can_be_used():
    pieces, merges = learn_byte_bpe(invented_counts(), 500)
    assert len(pieces) == 500
    check_byte_bpe(pieces, merges, ["<|endoftext|>"], where="learned")
    assert [left + right for left, right in merges] == pieces[257:]


def test_order_of_the_counts_does_not_matter():
    first = learn_byte_bpe(invented_counts(), 500)
    items = list(invented_counts().items())
    for seed in range(4):
        random.Random(seed).shuffle(items)
        assert learn_byte_bpe(dict(items), 500) == first


def test_processes_and_threads_do_not_matter():
    script = (
        "import json, sys\n"
        "from transbeam.pipeline.tokenizers.training import hf_trainer\n"
        "print(json.dumps(hf_trainer.learn_byte_bpe(json.load(sys.stdin), 500)))\n"
        "assert 'tensorflow' not in sys.modules\n"
    )
    pieces, merges = learn_byte_bpe(invented_counts(), 500)
    for environment in (
        {"TOKENIZERS_PARALLELISM": "false", "PYTHONHASHSEED": "1"},
        {"RAYON_NUM_THREADS": "3", "PYTHONHASHSEED": "2"},
    ):
        result = subprocess.run(
            [sys.executable, "-c", script],
            input=json.dumps(invented_counts()),
            env=os.environ | environment,
            cwd=Path(__file__).parents[4],
            capture_output=True,
            text=True,
            check=True,
        )
        assert json.loads(result.stdout) == [pieces, [list(pair) for pair in merges]]


def test_the_merges_of_the_rust_trainer_on_the_text_itself():
    texts = [
        "It's the cat's  hat, isn't it?\n",
        "the hat \t of the cats: 1234 cats",
    ] * 3
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=280,
        min_frequency=2,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=list(ALPHABET),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_tokenizer import (
        ByteBPETokenizer,
    )

    splitter = ByteBPETokenizer(ALPHABET, [], special_pieces=[])
    words = splitter.words(texts).flat_values.numpy().tolist()
    pieces, _ = learn_byte_bpe({word: words.count(word) for word in words}, 280)
    assert {piece: i for i, piece in enumerate(pieces)} == tokenizer.get_vocab()


def test_a_word_of_a_megabyte_teaches_nothing():
    counts = {"the": 9, " then": 5}
    endless = {**counts, "ab" * 500_000: 9}
    assert learn_byte_bpe(endless, 260) == learn_byte_bpe(counts, 260)


def test_a_corpus_too_small_says_what_it_supports():
    with pytest.raises(DataError) as error:
        learn_byte_bpe({" ab": 10, "abc": 5, "once": 1}, 400)
    message = str(error.value)
    assert "tokenizer.vocabulary_size=400" in message
    assert "3 different words" in message
    supported = int(re.search(r"supports only (\d+)", message).group(1))
    assert supported == 257 + 3  # ab, Ġab, abc
    assert len(learn_byte_bpe({" ab": 10, "abc": 5, "once": 1}, supported)[0]) == 260


def test_a_vocabulary_too_small_for_the_bytes():
    with pytest.raises(DataError, match=r"alone are 257.*tokenizer\.vocabulary_size"):
        learn_byte_bpe({"a": 5}, 256)
    with pytest.raises(DataError, match="supports only 257"):
        learn_byte_bpe({}, 300)
