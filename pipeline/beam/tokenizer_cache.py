"""Shares one tokenizer among all threads of a process.

Building a tokenizer takes about a second, and TensorFlow's tracing at its first call
takes another. Without sharing, each thread of a worker would build and trace its own
tokenizer.
"""

import functools
import threading
from pathlib import Path

from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.pipeline.tokenizers.files.tokenizer_folder import (
    build_tokenizer,
    read_tokenizer,
)
from transbeam.pipeline.tokenizers.files.tokenizer_model import TokenizerModel
from transbeam.pipeline.tokenizers.training.train_tokenizer import (
    LearnedConfig,
    WordSplitter,
    word_splitter,
)

_LOCK = threading.Lock()


def shared_tokenizer(folder: Path) -> Tokenizer:
    """Returns the tokenizer of a folder, built at the first call.

    Raises:
        ArtifactError: A file of the tokenizer is missing, modified, truncated or of
            another version.
    """
    with _LOCK:
        return _tokenizer(read_tokenizer(folder).model)


def shared_splitter(config: LearnedConfig) -> WordSplitter:
    """Returns the pre-tokenizer for word counts; see `word_splitter`."""
    with _LOCK:
        return _splitter(config)


@functools.lru_cache(maxsize=1)
def _tokenizer(model: TokenizerModel) -> Tokenizer:
    return build_tokenizer(model)


@functools.lru_cache(maxsize=1)
def _splitter(config: LearnedConfig) -> WordSplitter:
    return word_splitter(config)
