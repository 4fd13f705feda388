"""Text to ids in one thread: our graphs against the Rust library.

    python -m bench.tokenizing

8 MB of docstrings of installed packages, in blocks of about 1 MB, with a vocabulary of
8,192 pieces learned from them; both sides must give the same ids.
"""

import os
import tempfile
from pathlib import Path

import numpy as np
from tokenizers import Encoding, Tokenizer

from bench.corpus import tokenizer_json
from bench.pairs import Pair, in_turns
from transbeam.configs.schema.sources import PythonDocsSourceConfig
from transbeam.configs.schema.tokenizer import ByteBPEConfig, WordPieceConfig
from transbeam.configs.system.quiet_imports import quiet_import
from transbeam.pipeline.documents.document import Document
from transbeam.pipeline.sources.corpus_files import list_files
from transbeam.pipeline.sources.work_units import plan_units, read_unit

MEGABYTES = 8
BLOCK = 1_000_000


def main() -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    quiet_import("tensorflow", "tensorflow_text")
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    texts = _texts(MEGABYTES * 10**6)
    for config in (
        WordPieceConfig(vocabulary_size=8192),
        ByteBPEConfig(vocabulary_size=8192),
    ):
        print(_measured(config, texts).as_row(), flush=True)


def _measured(config: WordPieceConfig | ByteBPEConfig, texts: list[str]) -> Pair:
    from transbeam.pipeline.steps.count_words import count_words
    from transbeam.pipeline.tokenizers.files.tokenizer_folder import save_tokenizer
    from transbeam.pipeline.tokenizers.training.train_tokenizer import (
        learn_model,
        word_splitter,
    )

    encoded = np.array([text.encode() for text in texts], object)
    model = learn_model(count_words(encoded, word_splitter(config)), config)
    with tempfile.TemporaryDirectory() as folder:
        save_tokenizer(Path(folder, "tokenizer"), model)
        theirs = Tokenizer.from_file(str(tokenizer_json(Path(folder, "tokenizer"))))
    ours = model.build()
    blocks = _blocks(texts)

    def run_ours() -> list[np.ndarray]:
        return [ours.tokenize(block).flat_values.numpy() for block in blocks]

    def run_theirs() -> list[list[Encoding]]:
        # No ids are taken out of the Rust objects: that is Python's time.
        return [theirs.encode_batch_fast(b, add_special_tokens=False) for b in blocks]

    for mine, rust in zip(run_ours(), run_theirs(), strict=True):
        if list(mine) != [i for encoding in rust for i in encoding.ids]:
            raise SystemExit(f"{config.kind}: the ids are not the same")
    megabytes = sum(map(len, encoded)) / 1e6
    seconds = in_turns(run_ours, run_theirs, rounds=5)
    work = f"text to ids, {config.kind}, 1 thread"
    return Pair(work, "tokenizers", *seconds, megabytes, "MB")


def _texts(size: int) -> list[str]:
    source = PythonDocsSourceConfig(packages=("tensorflow", "numpy"))
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


if __name__ == "__main__":
    main()
