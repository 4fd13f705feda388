"""Small models with random weights, and tokenizers of which MediaPipe reads some."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import tensorflow as tf

from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.tokenizer import UnigramConfig
from transbeam.pipeline.tokenizers.base.vocabulary import SPECIAL_PIECES
from transbeam.pipeline.tokenizers.files.tokenizer_folder import (
    save_tokenizer,
)
from transbeam.pipeline.tokenizers.files.tokenizer_model import TokenizerModel
from transbeam.pipeline.tokenizers.training.train_unigram import learn_unigram
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_model import WordPieceModel
from transbeam.serving.base.trained_run import TrainedRun, build
from transbeam.serving.signatures.pooled import PooledTask

TINY = Path(__file__).parents[3] / "configs/tiny"
LABELS = ("bad", "good", "so so")
TEXT = (
    "the film is very good and so was the book but this one was bad dull long not "
    "what we had in mind for an evening out café école i would like to see more of "
    "such plays"
)
WORDS = TEXT.split()


def wordpiece(first_special: int = 0, **options) -> WordPieceModel:
    """Whole words, all letters, and marks; lower case, with accents kept.

    Args:
        first_special: Special pieces that stand at the end.
        **options: Of the model.
    """
    letters = sorted(
        set("".join(WORDS) + "abcdefghijklmnopqrstuvwxyz0123456789,.!?'[]éàп漢")
    )
    pieces = dict.fromkeys(
        [*SPECIAL_PIECES, *letters, *(f"##{letter}" for letter in letters), *WORDS]
    )
    pieces = (*list(pieces)[first_special:], *list(pieces)[:first_special])
    options = {"lowercase": True, "strip_accents": False, **options}
    return WordPieceModel(pieces=pieces, **options)


def unigram(**options) -> TokenizerModel:
    """Learned, in the manner that MediaPipe reads."""
    counts = Counter({word: 9 for word in WORDS} | {word[:2]: 5 for word in WORDS})
    options = {"specials": "albert", "normalization": "nmt_nfkc_cf", **options}
    return learn_unigram(counts, UnigramConfig(vocabulary_size=60, **options))


def model_of(name: str, tokenizer: TokenizerModel, folder: Path) -> TrainedRun:
    """A model of one block for a tokenizer, which is written to a folder.

    Args:
        name: Of the file in `configs/tiny`.
        tokenizer: Of the model; need not be of the configuration's kind.
        folder: For the tokenizer.
    """
    config = load_run(TINY / f"{name}.yaml", with_model=True)
    if config.objective.kind == "classification":
        config = replace(config, objective=replace(config.objective, labels=LABELS))
    config = replace(
        config,
        model=replace(config.model, num_layers=1),
        export=replace(config.export, examples=()),
    )
    save_tokenizer(folder, tokenizer)
    model = build(config, len(tokenizer.pieces))
    chance = np.random.default_rng(0)
    for weight in model.weights:  # biases are not 0 after a training, nor scales 1
        weight.assign(weight + 0.3 * chance.standard_normal(weight.shape))
    trained = TrainedRun(config, tokenizer.build(), model)
    if config.objective.kind == "classification":
        _tell_apart(trained)
    return trained


def _tell_apart(trained: TrainedRun) -> None:
    """Gives each class its share of the words: by chance one would get them all."""
    kernel, bias = (of for of in trained.model.weights if of.shape[-1] == len(LABELS))
    kernel.assign(4 * kernel)
    inputs = PooledTask(trained).inputs
    tensors, _ = inputs.read(tf.constant(WORDS))
    logits = inputs.ask(*tensors)["logits"]
    bias.assign(bias - tf.reduce_mean(logits, axis=0))
