"""One tokenizer for all threads of a process.

Building one takes a second or so, and so does TensorFlow's tracing of its function at
the first call; the threads of a worker would otherwise each do both.
"""

import functools
import threading
from pathlib import Path

from pipeline.tokenizers.artifact import load_tokenizer, tokenizer_fingerprint
from pipeline.tokenizers.interface import Tokenizer
from pipeline.tokenizers.making import LearnedConfig, WordSplitter, word_splitter

_LOCK = threading.Lock()


def shared_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a folder, built when it is first asked for.

    Raises:
        ArtifactError: A file is missing, altered, cut short or of another version.
    """
    with _LOCK:
        return _loaded(folder, tokenizer_fingerprint(folder))


def shared_splitter(config: LearnedConfig) -> WordSplitter:
    """What cuts texts into the words that are counted; see `word_splitter`."""
    with _LOCK:
        return _built(config)


@functools.lru_cache(maxsize=1)
def _loaded(folder: Path, fingerprint: str) -> Tokenizer:
    return load_tokenizer(folder)


@functools.lru_cache(maxsize=1)
def _built(config: LearnedConfig) -> WordSplitter:
    return word_splitter(config)
