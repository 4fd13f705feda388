"""Exports of configurations without training, with random weights."""

from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
import tensorflow as tf

from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.objectives.supervised import DialogueConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.tokenizer import WordPieceConfig
from transbeam.pipeline.tokenizers.base.builtin_chat_templates import (
    find_chat_template,
)
from transbeam.pipeline.tokenizers.files.chat_format import with_chat_template
from transbeam.pipeline.tokenizers.files.tokenizer_folder import (
    load_tokenizer,
    save_tokenizer,
)
from transbeam.pipeline.tokenizers.training.train_tokenizer import (
    LearnedConfig,
    learn_model,
    word_splitter,
)
from transbeam.serving.base.golden_requests import write_golden
from transbeam.serving.base.trained_run import TrainedRun, build
from transbeam.serving.export.saved_model_writer import (
    write_endpoints,
    write_saved_model,
)
from transbeam.serving.export.stored_requests import make_golden_requests, write_warm_up
from transbeam.serving.signatures.base.interface import SignatureTask
from transbeam.serving.signatures.task_factory import make_signature_task

TINY = Path(__file__).parents[2] / "configs/tiny"
SPREAD = 0.1  # of what is added to the weights: so a model has opinions
_TEXTS = 60  # of Python's own documentation: some 100 kB


def untrained(name: str, folder: Path) -> TrainedRun:
    """The model of a tiny configuration, and a tokenizer of its kind.

    Args:
        name: Of the file in `configs/tiny`.
        folder: For tokenizers, which are learned once for each kind.
    """
    return untrained_of(load_run(TINY / f"{name}.yaml", with_model=True), folder)


def untrained_of(config: RunConfig, folder: Path) -> TrainedRun:
    """The model of any configuration, likewise."""
    tokenizer = load_tokenizer(learned_for(config, folder))
    model = build(config, tokenizer.vocabulary_size)
    chance = np.random.default_rng(0)
    for weight in model.weights:  # biases are not 0 after a training, nor scales 1
        weight.assign(weight + SPREAD * chance.standard_normal(weight.shape))
    return TrainedRun(config, tokenizer, model)


def write_version(trained: TrainedRun, folder: Path) -> SignatureTask:
    """Writes a version folder with all that `transbeam export` puts into one."""
    write_saved_model(trained, folder)
    task = make_signature_task(trained)
    write_warm_up(folder, task)
    write_golden(folder, list(make_golden_requests(task)))
    return task


def write_signatures(trained: TrainedRun, folder: Path, *names: str) -> None:
    """Writes a SavedModel with some of its signatures: each has to be traced."""
    endpoints = make_signature_task(trained).endpoints()
    asked = {name: endpoints[name] for name in names}
    write_endpoints(folder, asked, [trained.tokenizer])


def learned_for(config: RunConfig, folder: Path) -> Path:
    """The folder of a run's tokenizer, with the chat template of a dialogue."""
    template = None
    if isinstance(config.objective, DialogueConfig):
        template = find_chat_template(str(config.objective.chat_template))
    return learned(folder, config.tokenizer, template)


@cache
def learned(
    folder: Path, config: LearnedConfig, chat_template: str | None = None
) -> Path:
    """The folder of a tokenizer of a kind, below another folder."""
    if isinstance(config, WordPieceConfig):
        # What is not asked for, as of images, would be more than the texts have; and
        # characters must leave room for words.
        size = min(config.vocabulary_size, 1024)
        config = replace(config, vocabulary_size=size, maximum_alphabet=size // 4)
    texts = tf.constant(list(islice(topics.values(), _TEXTS)))
    words = word_splitter(config).words(texts).flat_values.numpy()
    counts = Counter(word.decode() for word in words.tolist())
    made = folder / f"tokenizer-{abs(hash((config, chat_template)))}"
    model = learn_model(counts, config)
    if chat_template is not None:
        model = with_chat_template(model, chat_template)
    save_tokenizer(made, model)
    return made
