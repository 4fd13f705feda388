"""A Beam job as one would first write it: each line of text is an element.

    python naive_beam.py TEXT TOKENIZER OUTPUT MODE

TOKENIZER is a `tokenizer.json`. MODE is one of Beam's running modes, `in_memory` or
`multi_processing` with two processes, or `no_beam`: the same lines, ids and records in
a loop. No special tokens are added, nothing is packed, padded or masked.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import apache_beam as beam
import tensorflow as tf
from apache_beam.io import ReadFromText, WriteToTFRecord
from apache_beam.options.pipeline_options import PipelineOptions
from tokenizers import Tokenizer


class ToExample(beam.DoFn):
    """A line of text to a serialized Example."""

    def __init__(self, tokenizer: str):
        self.file = tokenizer

    def setup(self) -> None:
        self.tokenizer = Tokenizer.from_file(self.file)

    def process(self, line: str) -> Iterator[bytes]:
        ids = self.tokenizer.encode(line, add_special_tokens=False).ids
        if ids:
            numbers = tf.train.Feature(int64_list=tf.train.Int64List(value=ids))
            features = tf.train.Features(feature={"token_ids": numbers})
            yield tf.train.Example(features=features).SerializeToString()


def in_beam(text: str, tokenizer: str, output: str, mode: str) -> None:
    options = PipelineOptions(
        ["--runner=FnApiRunner", f"--direct_running_mode={mode}"]
        + ["--direct_num_workers=2"] * (mode == "multi_processing")
    )
    with beam.Pipeline(options=options) as pipeline:
        _ = (
            pipeline
            | ReadFromText(text)
            | beam.ParDo(ToExample(tokenizer))
            | WriteToTFRecord(f"{output}/part", file_name_suffix=".tfrecord")
        )


def in_a_loop(text: str, tokenizer: str, output: str) -> None:
    to_example = ToExample(tokenizer)
    to_example.setup()
    path = f"{output}/part.tfrecord"
    with open(text, encoding="utf-8") as lines, tf.io.TFRecordWriter(path) as writer:
        for line in lines:
            for record in to_example.process(line.removesuffix("\n")):
                writer.write(record)


def main(text: str, tokenizer: str, output: str, mode: str) -> None:
    Path(output).mkdir()
    if mode == "no_beam":
        in_a_loop(text, tokenizer, output)
    else:
        in_beam(text, tokenizer, output, mode)


if __name__ == "__main__":
    main(*sys.argv[1:])
