"""Text to ids with a learned vocabulary: our graph against the Rust library."""

import os

import numpy as np
import tensorflow as tf
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from bench.pairs import Pair, in_turns
from configs.sources import PythonDocsSource
from configs.tokenizer import WordPieceConfig
from pipeline.corpus import list_files
from pipeline.count import count_words
from pipeline.documents import Document
from pipeline.sources import plan_units, read_unit
from pipeline.tokenizers.learning import learn_wordpiece
from pipeline.tokenizers.vocabulary import SPECIAL_PIECES, UNKNOWN
from pipeline.tokenizers.wordpiece import WordPieceTokenizer

BLOCK = 1_000_000


def measure() -> Pair:
    """One thread each, 8 MB of docstrings, blocks of about 1 MB."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    texts = _texts(8_000_000)
    config = WordPieceConfig(vocabulary_size=8192)
    encoded = np.array([text.encode() for text in texts], object)
    words = count_words(encoded, WordPieceTokenizer(SPECIAL_PIECES))
    vocabulary = learn_wordpiece(words, config)
    ours = WordPieceTokenizer(vocabulary)
    theirs = Tokenizer(
        models.WordPiece(
            {piece: i for i, piece in enumerate(vocabulary)},
            unk_token=UNKNOWN,
            max_input_chars_per_word=100,
        )
    )
    theirs.normalizer = normalizers.BertNormalizer()
    theirs.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    blocks = _blocks(texts)

    def run_ours() -> list[int]:
        return [int(ours.tokenize(tf.constant(b)).flat_values[-1]) for b in blocks]

    def run_theirs() -> list[int]:
        return [theirs.encode_batch_fast(b)[-1].ids[-1] for b in blocks]

    assert run_ours() == run_theirs()
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    seconds = in_turns(run_ours, run_theirs, rounds=3)
    return Pair("text to ids, 1 thread", "tokenizers", *seconds, megabytes, "MB")


def _texts(size: int) -> list[str]:
    source = PythonDocsSource(packages=("tensorflow", "numpy"))
    texts, total = [], 0
    for unit in plan_units(list_files(source), source, 10**9):
        for document in read_unit(unit, source):
            if isinstance(document, Document) and total < size:
                texts.append(document.text)
                total += len(document.text)
    return texts


def _blocks(texts: list[str]) -> list[list[str]]:
    blocks, size = [[]], 0
    for text in texts:
        if size >= BLOCK:
            blocks.append([])
            size = 0
        blocks[-1].append(text)
        size += len(text)
    return blocks
