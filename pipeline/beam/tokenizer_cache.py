"""One tokenizer for all threads of a process.

Building one takes a second or so, and so does TensorFlow's tracing of its function at
the first call; the threads of a worker would otherwise each do both.
"""

import functools
import threading
from pathlib import Path

from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.pipeline.tokenizers.files.tokenizer_folder import (
    TokenizerModel,
    read_tokenizer,
)
from transbeam.pipeline.tokenizers.training.train_tokenizer import (
    LearnedConfig,
    WordSplitter,
    word_splitter,
)

_LOCK = threading.Lock()


def shared_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a folder, built when it is first asked for.

    Raises:
        ArtifactError: A file is missing, altered, cut short or of another version.
    """
    with _LOCK:
        return _tokenizer(read_tokenizer(folder).model)


def shared_splitter(config: LearnedConfig) -> WordSplitter:
    """What cuts texts into the words that are counted; see `word_splitter`."""
    with _LOCK:
        return _splitter(config)


@functools.lru_cache(maxsize=1)
def _tokenizer(model: TokenizerModel) -> Tokenizer:
    return model.build()


@functools.lru_cache(maxsize=1)
def _splitter(config: LearnedConfig) -> WordSplitter:
    return word_splitter(config)
