"""A run as the trainer leaves it, tiny and untrained, and what is exported of it."""

import hashlib
import shutil
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.harness.stages import stage
from tests.serving import record_files
from tests.serving.native.c_client import (
    PROGRAM,
    SOURCE,
    ask_natively,
    build,
    require_same,
)
from tests.serving.session import unoptimized
from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.run_folder import Stage, save_config
from transbeam.configs.loader.yaml_config import flatten
from transbeam.configs.schema.attention import FullAttentionConfig
from transbeam.configs.schema.block import (
    DenseFeedForwardConfig,
    NormalInitializerConfig,
)
from transbeam.configs.schema.data import DataConfig
from transbeam.configs.schema.export import ExportConfig
from transbeam.configs.schema.model import EncoderConfig
from transbeam.configs.schema.objectives.objective import ImageObjective
from transbeam.configs.schema.objectives.supervised import DialogueConfig
from transbeam.configs.schema.objectives.traits import traits
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.schedules import CosineScheduleConfig
from transbeam.configs.schema.sources import TextSourceConfig
from transbeam.configs.schema.tokenizer import WordPieceConfig
from transbeam.configs.schema.training import TrainingConfig
from transbeam.model.build import build_model
from transbeam.pipeline.tokenizers.base.builtin_chat_templates import (
    find_chat_template,
)
from transbeam.pipeline.tokenizers.files.chat_format import with_chat_template
from transbeam.pipeline.tokenizers.files.tokenizer_folder import (
    load_tokenizer,
    save_tokenizer,
    tokenizer_fingerprint,
)
from transbeam.pipeline.tokenizers.training.train_tokenizer import learn_model
from transbeam.serving.base.trained_run import load_trained
from transbeam.serving.client.saved_model_client import LocalClient
from transbeam.serving.export_stage import export
from transbeam.serving.server.models.warmup_requests import read_warm_up
from transbeam.serving.signatures.embedding import find_body
from transbeam.serving.text_ops.mask_tokens import tokenize_with_masks

CORPUS = """
returns a tensor of the same shape as the input . if true , raise an error when the
argument is not valid . the name of the list to use . an integer or a tuple of ints ,
the shape of the array . computes the mean of the elements across the dimensions of a
tensor . the value to be converted to a string . the quick brown fox jumps over the lazy
dog . it's not - a test ( of all ) the letters : z x v k j q w y 0 1 2 3 4 5 6 7 8 9
"""

RECORDS_SHA256 = "5" * 64
LENGTH = 32

TINY = RunConfig(
    name="tiny",
    data=DataConfig(source=TextSourceConfig(path="corpus.txt"), sequence_length=LENGTH),
    tokenizer=WordPieceConfig(vocabulary_size=140),
    model=EncoderConfig(
        num_layers=2,
        hidden_dim=32,
        max_sequence_length=LENGTH,
        attention=FullAttentionConfig(num_heads=2),
        feedforward=DenseFeedForwardConfig(intermediate_dim=64),
        # So large that an untrained model has opinions.
        initializer=NormalInitializerConfig(stddev=0.3),
    ),
    training=TrainingConfig(steps=10, schedule=CosineScheduleConfig(warmup_steps=1)),
    export=ExportConfig(
        top_k=3,
        tflite_masks=4,
        examples=("returns a [MASK] of the same shape .", "the [MASK] of the [MASK]"),
    ),
)


def make_run(folder: Path, config: RunConfig) -> Path:
    """Writes what the data job and the trainer would leave in a run's folder."""
    folder.mkdir(parents=True)
    data = Stage(folder, "data", "transbeam data")
    data.begin({})
    tokenizer = learn_model(Counter(CORPUS.split() * 2), config.tokenizer)
    if isinstance(config.objective, DialogueConfig):
        template = find_chat_template(str(config.objective.chat_template))
        tokenizer = with_chat_template(tokenizer, template)
    save_tokenizer(data.path / "tokenizer", tokenizer)
    if isinstance(config.objective, ImageObjective):
        write_image_records(folder, config.objective)
    else:
        write_records(data.path / "records", data.path / "tokenizer")
    data.finish(
        {},
        {
            "records_sha256": RECORDS_SHA256,
            "vocabulary_fingerprint": tokenizer_fingerprint(data.path / "tokenizer"),
        },
    )
    training = Stage(folder, "training", "transbeam train")
    inputs = {
        **{
            key: value
            for key, value in flatten(config).items()
            if key == "seed" or key.startswith(("model.", "training."))
        },
        "records": RECORDS_SHA256,
    }
    training.begin(inputs)
    model = build_model(
        config.model,
        config.objective,
        len(tokenizer.pieces),
        packed=True,
        segments=traits(config.objective).has_segments,
        dtype="mixed_bfloat16",
        seed=config.seed,
    )
    rng = np.random.default_rng(0)
    for weight in model.weights:  # biases are not 0 after a training, nor scales 1
        weight.assign(weight + 0.1 * rng.standard_normal(weight.shape))
    keras.saving.save_weights(model, training.path / "model.weights.h5")
    save_config(training.path, config)
    training.finish(inputs, {})
    return folder


def write_records(folder: Path, tokenizer_folder: Path) -> None:
    """Packed records: three documents, of which two have a mask, and padding.

    The last word of each is of a second segment, which a pair would have, and the first
    token of each is given, as that of a prefix.
    """
    documents = ("the [MASK] of a list", "a tensor", "[MASK] true , raise")
    tokenizer = load_tokenizer(tokenizer_folder)
    special = tokenizer.special
    masked = special.mask is not None
    tokenize = partial(tokenize_with_masks, tokenizer) if masked else tokenizer.tokenize
    framed = [
        [
            special.end if special.begin is None else special.begin,
            *document,
            special.end,
        ]
        for document in tokenize(tf.constant(documents)).to_list()
    ]
    arrays = np.full((3, LENGTH), special.pad)
    token_ids, document_ids, segment_ids = arrays
    document_ids[:] = segment_ids[:] = 0
    row = [token for document in framed for token in document][:LENGTH]
    token_ids[: len(row)] = row
    numbers = np.repeat([1, 2, 3], [len(d) for d in framed])[:LENGTH]
    document_ids[: len(row)] = numbers
    segment_ids[np.flatnonzero(np.diff(document_ids))] = 1
    prefix_mask = (np.diff(document_ids, prepend=0) > 0).astype(np.int64)
    example = tf.train.Example()
    names = ("token_ids", "document_ids", "segment_ids", "prefix_mask")
    for name, values in zip(names, (*arrays, prefix_mask), strict=True):
        for side in ("", "encoder_"):
            feature = example.features.feature[side + name]
            feature.int64_list.value.extend(values)
    folder.mkdir()
    # Of those to learn from enough for ranges to be found on.
    for split, copies in (("validation", 1), ("train", 8)):
        with tf.io.TFRecordWriter(str(folder / f"{split}-00000.tfrecord")) as writer:
            for _ in range(copies):
                writer.write(example.SerializeToString())


def write_image_records(run_folder: Path, objective: ImageObjective) -> None:
    """Eight records of noise in each split."""
    size, channels = objective.image_size, objective.channels
    images = np.random.default_rng(0).integers(0, 256, (8, size, size, channels))
    records = [{"image": image.astype(np.uint8).tobytes()} for image in images]
    for split in ("train", "validation"):
        record_files.write_records(run_folder, split, records)


def invocation_of(folder: Path, config: RunConfig = TINY, **export_keys) -> Invocation:
    """A call of `transbeam export` on a run, with other export keys."""
    return Invocation(
        config=replace(config, export=replace(config.export, **export_keys)),
        config_file=Path("tiny.yaml"),
        overrides=(),
        run_folder=folder,
        console=Console(quiet=True),
        workers=1,
    )


def exported_run(config: RunConfig, *, optimized: bool = True) -> SimpleNamespace:
    """A run of a configuration and its export, made once for all tests; to be read.

    Args:
        config: The run.
        optimized: Whether TensorFlow optimizes graphs, as it does for users.

    Returns:
        `run_folder`; `folder` of the export, in which `saved_model` (the version) and
        `tflite` lie; and the stage's `result`.
    """
    described = hashlib.sha256(repr((config, optimized)).encode()).hexdigest()[:8]

    def make(folder: Path) -> None:
        with nullcontext() if optimized else unoptimized():
            export(invocation_of(make_run(folder / config.name, config), config))

    made = stage(f"export-{config.objective.kind}-{described}", make)
    run_folder = made / config.name
    return SimpleNamespace(
        run_folder=run_folder,
        folder=run_folder / "export",
        saved_model=run_folder / "export/saved_model/1",
        tflite=run_folder / "export/tflite",
        result=Stage(run_folder, "export", "transbeam export").load()["result"],
    )


@pytest.fixture(scope="session")
def exported():
    """The exported run: its folder and the stage's result."""
    return exported_run(TINY)


@pytest.fixture(scope="session")
def run_folder(exported):
    return exported.run_folder


@pytest.fixture(scope="session")
def trained(run_folder):
    return load_trained(run_folder)


@pytest.fixture(scope="session")
def body(trained):
    """The model below its head: `sequence_output` (B, T, D)."""
    return find_body(trained.model)


@pytest.fixture(scope="session")
def client(exported):
    """Asks the exported SavedModel, which Python takes a second to load."""
    return LocalClient(exported.saved_model)


@pytest.fixture(scope="session")
def ask(client):
    """Asks a signature of the exported SavedModel about texts."""
    return lambda signature, texts: client.ask(signature, {"text": texts})


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """The C program that asks SavedModels."""
    source = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:8]
    compiled = stage(f"program-in-c-{source}", build) / PROGRAM
    # What lies in a stage can only be read.
    copy = tmp_path_factory.mktemp("native") / PROGRAM
    shutil.copyfile(compiled, copy)
    copy.chmod(0o755)
    return copy


@pytest.fixture(scope="session")
def native(program):
    """Holds a SavedModel, asked by a C program, against TensorFlow in Python.

    Each signature is asked the first of the requests that warm it up.
    """

    def check(folder, ask):
        first = {}
        for name, inputs in read_warm_up(folder):
            first.setdefault(name, inputs)
        requests = list(first.items())
        answers = ask_natively(program, folder, requests)
        for (name, inputs), found in zip(requests, answers, strict=True):
            require_same(found, ask(name, inputs))

    return check
