"""Latency of a text by its length: `python -m bench.long_texts`.

Each task's default signature is asked, in a session as the server's, about one text of
1 KB, 10 KB, … and 4 MB; of a task that takes two texts each is the long one in turn.
The peak is what the process has above what it had before, memory that the answer takes
in Python included. Models are tiny and have weights at random, so what is measured is
what all models of the task pay. A fresh process asks each row of the table.
"""

import argparse
import platform
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.pairs import heading, row
from transbeam.configs.system.quiet_imports import quiet_import

quiet_import("tensorflow", "tensorflow_text", "keras")

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from transbeam.configs.schema import model as models  # noqa: E402
from transbeam.configs.schema.attention import FullAttentionConfig  # noqa: E402
from transbeam.configs.schema.block import DenseFeedForwardConfig  # noqa: E402
from transbeam.configs.schema.data import DataConfig  # noqa: E402
from transbeam.configs.schema.objectives import objective as objectives  # noqa: E402
from transbeam.configs.schema.objectives.traits import traits  # noqa: E402
from transbeam.configs.schema.run import RunConfig  # noqa: E402
from transbeam.configs.schema.sources import TextSourceConfig  # noqa: E402
from transbeam.configs.schema.tokenizer import (  # noqa: E402
    ByteBPEConfig,
    UnigramConfig,
    WordPieceConfig,
)
from transbeam.configs.schema.training import TrainingConfig  # noqa: E402
from transbeam.configs.system.memory import give_back_memory, peak_memory  # noqa: E402
from transbeam.model.build import build_model  # noqa: E402
from transbeam.pipeline.tokenizers.files.tokenizer_folder import (  # noqa: E402
    load_tokenizer,
    save_tokenizer,
)
from transbeam.pipeline.tokenizers.training.train_tokenizer import learn_model  # noqa: E402
from transbeam.serving.base.trained_run import TrainedRun  # noqa: E402
from transbeam.serving.export.saved_model_writer import write_endpoints  # noqa: E402
from transbeam.serving.server.base.status import StatusError  # noqa: E402
from transbeam.serving.server.inference.servable import Servable  # noqa: E402
from transbeam.serving.signatures.task_factory import make_signature_task  # noqa: E402

LENGTH, LABELS = 56, ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
SIZES = [1_000, 10_000, 100_000, 1_000_000, 4_000_000]
TOKENIZERS = {
    "wordpiece": WordPieceConfig(vocabulary_size=334, num_sentinels=4),
    "byte_bpe": ByteBPEConfig(vocabulary_size=400, num_sentinels=4),
    "unigram": UnigramConfig(vocabulary_size=300, num_sentinels=4),
}
CORPUS = Path("README.md")
STACK: dict[str, Any] = {
    "num_layers": 3,
    "hidden_dim": 48,
    "max_sequence_length": LENGTH,
    "attention": FullAttentionConfig(num_heads=4),
    "feedforward": DenseFeedForwardConfig(intermediate_dim=104),
}
ENCODER, DECODER = models.EncoderConfig(**STACK), models.DecoderConfig(**STACK)
BOTH = models.Seq2SeqModelConfig(**STACK)
TASKS: dict[str, tuple[Any, Any]] = {
    "token_classification": (
        ENCODER,
        objectives.TokenClassificationConfig(labels=LABELS),
    ),
    "span_qa": (
        ENCODER,
        objectives.SpanQAConfig(stride=24, max_question_length=16),
    ),
    "classification": (ENCODER, objectives.ClassificationConfig(labels=LABELS)),
    "pair_classification": (
        ENCODER,
        objectives.PairClassificationConfig(labels=LABELS),
    ),
    "masked": (ENCODER, objectives.MaskedConfig()),
    "causal": (DECODER, objectives.CausalConfig()),
    "prefix": (DECODER, objectives.PrefixConfig()),
    "seq2seq": (BOTH, objectives.Seq2SeqConfig(decoder_length=16)),
    "span_corruption": (BOTH, objectives.SpanCorruptionConfig()),
}
TEXTS: dict[str, Callable[[int], bytes]] = {
    "words": lambda size: b"ab " * (size // 3),
    "letters": lambda size: b"a " * (size // 2),
    "marks": lambda size: b"?!" * (size // 2),
    "one word": lambda size: b"x" * size,
    "different words": lambda size: different_words(size),
    "no UTF-8": lambda size: b"\xff\xe2\x82" * (size // 3),
    "spaces": lambda size: b" " * size,
}


def different_words(size: int) -> bytes:
    """Words that no two of are equal, in a text of about that many bytes."""
    return " ".join(f"w{number:x}" for number in range(size // 7)).encode()


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument(
        "--tokenizers", nargs="+", default=["wordpiece"], choices=TOKENIZERS
    )
    parser.add_argument("--texts", nargs="+", default=["words"], choices=TEXTS)
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--signature", default="serving_default")
    parser.add_argument("--model", type=Path, help="a version folder, instead")
    parser.add_argument("--input", help="ask that model with the text in this input")
    arguments = parser.parse_args()
    if arguments.input:
        for cell in measured(arguments.model, arguments):
            print(cell, flush=True)
        return
    print(heading("task", "tokenizer", "text", *(f"{n:,}" for n in arguments.sizes)))
    with tempfile.TemporaryDirectory() as folder:
        for task in arguments.tasks:
            for tokenizer in arguments.tokenizers:
                model = Path(folder, task, tokenizer, "1")
                inputs = write_model(model, task, tokenizer, arguments.signature)
                for text in arguments.texts:
                    for name in inputs:
                        cells = asked(model, name, text, arguments)
                        print(row(f"{task}: {name}", tokenizer, text, *cells))
    versions = f"tensorflow {tf.__version__}, keras {keras.__version__}"
    print(f"\nPython {platform.python_version()}, {versions}; {platform.machine()}.")


def write_model(folder: Path, task: str, tokenizer: str, signature: str) -> list[str]:
    """Writes one signature of an untrained model; tells its inputs of text."""
    model_config, objective = TASKS[task]
    config = RunConfig(
        name="long",
        data=DataConfig(
            source=TextSourceConfig(path="none.txt"), sequence_length=LENGTH
        ),
        tokenizer=TOKENIZERS[tokenizer],
        model=model_config,
        objective=objective,
        training=TrainingConfig(steps=1000),
    )
    words = re.findall(r"[a-z]+|[^\sa-z]", CORPUS.read_text().lower())
    learned = folder.parent / "tokenizer"
    save_tokenizer(learned, learn_model(Counter(words), config.tokenizer))
    made = load_tokenizer(learned)
    keras.utils.set_random_seed(0)
    model = build_model(
        model_config,
        objective,
        made.vocabulary_size,
        segments=traits(objective).has_segments,
        dtype="float32",
    )
    task_made = make_signature_task(TrainedRun(config, made, model))
    endpoint = task_made.endpoints()[signature]
    write_endpoints(folder, {signature: endpoint}, [made])
    return [spec.name for spec in endpoint.inputs if spec.dtype == tf.string]


def asked(
    model: Path, name: str, text: str, arguments: argparse.Namespace
) -> list[str]:
    """Cells of a row, measured in a process of its own."""
    command = [sys.executable, "-m", "bench.long_texts", "--model", str(model)]
    command += ["--input", name, "--texts", text]
    command += ["--signature", arguments.signature]
    command += ["--sizes", *map(str, arguments.sizes)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    cells = done.stdout.splitlines()
    missing = len(arguments.sizes) - len(cells)
    return cells + [f"ended with {done.returncode}"] * missing


def measured(model: Path, arguments: argparse.Namespace) -> Iterator[str]:
    """Peak memory and seconds of one text of each size."""
    # What is too much for the machine ends this process and not another.
    resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
    servable = Servable(model)
    signature = servable.signatures[arguments.signature]
    outputs = list(signature.definition.outputs)

    def ask(text: bytes) -> float:
        inputs = {}
        for name, dtype in signature.dtypes.items():
            value = text if name == arguments.input else b"good film"
            kind = tf.as_dtype(dtype)
            inputs[name] = np.array(
                [value if kind == tf.string else 1], kind.as_numpy_dtype
            )
        began = time.perf_counter()
        # A decoder refuses a prompt that leaves no room, once it has read it.
        with suppress(StatusError):
            servable.run(signature, inputs, outputs)
        return time.perf_counter() - began

    make = TEXTS[arguments.texts[0]]
    ask(make(100))
    for size in arguments.sizes:
        text = make(size)
        give_back_memory()
        with peak_memory() as before:
            pass
        with peak_memory() as peak:
            seconds = ask(text)
        megabytes = peak.megabytes - before.megabytes
        yield f"{megabytes:,} MB, {seconds:.2f} s"


if __name__ == "__main__":
    main()
