"""The least that making records takes: `python -m bench.bare_work TEXT DATA`.

Tokenizes the text's paragraphs with the tokenizer of DATA, a folder that `transbeam
data` has made of the text, and writes that folder's records again; both in two threads,
and nothing else. Prints seconds as JSON:

- `imports`: TensorFlow and TensorFlow Text;
- `tokenizer`: building the tokenizer and tracing its function on a first text;
- `tokenizing`: bytes of text, read and split before, to ids, about 1 MB at once;
- `framing`: Examples, serialized and in memory, to TFRecord files, not synced.
"""

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from transbeam.configs.system.quiet_imports import quiet_import

THREADS = 2


def main(text: str, data: str) -> None:
    seconds: dict[str, float] = {}

    @contextmanager
    def timed(name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        seconds[name] = time.perf_counter() - began

    with timed("imports"):
        quiet_import("tensorflow", "tensorflow_text")
    import tensorflow as tf

    from transbeam.pipeline.records.token_rows import blocks
    from transbeam.pipeline.tokenizers.files.tokenizer_folder import load_tokenizer

    with timed("tokenizer"):
        tokenizer = load_tokenizer(Path(data, "tokenizer"))
        tokenizer.tokenize([b"a text"])

    texts = blocks(Path(text).read_bytes().split(b"\n\n"))
    with timed("tokenizing"), ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(tokenizer.tokenize, texts))

    files = [str(path) for path in Path(data, "records").iterdir()]
    shards = [list(tf.data.TFRecordDataset(file).as_numpy_iterator()) for file in files]

    def write(shard: list[bytes], path: str) -> None:
        with tf.io.TFRecordWriter(path) as writer:
            for record in shard:
                writer.write(record)

    with tempfile.TemporaryDirectory() as folder:
        paths = [f"{folder}/{number}" for number in range(len(shards))]
        with timed("framing"), ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(write, shards, paths))
    print(json.dumps(seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
