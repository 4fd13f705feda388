"""A training step: ours, KerasHub's and Hugging Face's.

    python -m bench.training_step [--torch-python PATH] [--work NAME ...]

`PATH` is the Python of an environment with torch and transformers. Rows are dense:
no padding, one document in each. AdamW, clipping to norm 1, dropout 0.1.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bench.answering import Answering
from bench.pairs import Pair, heading
from transbeam.configs.schema.attention import FullAttentionConfig
from transbeam.configs.schema.block import DenseFeedForwardConfig
from transbeam.configs.schema.model import DecoderConfig, EncoderConfig
from transbeam.configs.schema.objectives.language_modeling import (
    CausalConfig,
    MaskedConfig,
)
from transbeam.configs.schema.optimizers import AdamWConfig
from transbeam.configs.schema.training import TrainingConfig
from transbeam.model.build import build_model
from transbeam.model.layers.block import TransformerBlock
from transbeam.trainer.objectives.losses import Loss
from transbeam.trainer.objectives.targets import make_targets
from transbeam.trainer.optimizers.build import build_optimizer
from transbeam.trainer.optimizers.schedules import build_schedule
from transbeam.trainer.step.build import build_step
from transbeam.trainer.step.state import TrainState

PEER = Path(__file__).parent / "peers" / "hf_training.py"
MASKED = 20
Step = Callable[[], float]  # seconds


@dataclass(frozen=True)
class Work:
    """Sizes and settings of a training step."""

    task: str
    layers: int
    hidden: int
    vocabulary: int
    dtype: str
    batch: int = 32
    length: int = 128

    @property
    def heads(self) -> int:
        return self.hidden // 64

    @property
    def title(self) -> str:
        return (
            f"{self.task} {self.layers}x{self.hidden}, V {self.vocabulary:,}, "
            f"{self.batch}x{self.length}, {self.dtype}"
        )


WORK = {
    "masked": Work("masked", 4, 256, 30_522, "float32"),
    "masked-bf16": Work("masked", 4, 256, 30_522, "bfloat16"),
    "causal": Work("causal", 4, 256, 8_192, "float32"),
    "causal-bf16": Work("causal", 4, 256, 8_192, "bfloat16"),
    "large-vocabulary-bf16": Work("causal", 4, 256, 50_257, "bfloat16"),
    "bert-base-bf16": Work("masked", 12, 768, 30_522, "bfloat16", batch=8),
}


def main() -> None:
    """Prints a table: a row for each work and peer."""
    parser = argparse.ArgumentParser(prog="bench.training_step", description=__doc__)
    parser.add_argument("--torch-python", type=Path)
    parser.add_argument("--work", nargs="+", choices=WORK, default=list(WORK))
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    print(heading("work", "ours", "peer", "ratio"))
    for name in arguments.work:
        work = WORK[name]
        steps = {"ours": ours(work), "KerasHub": kerashub(work)}
        if arguments.torch_python:
            steps["Hugging Face"] = hugging_face(work, arguments.torch_python)
        for step in [*steps.values()] * 2:  # the first traces
            step()
        seconds: dict[str, list[float]] = {who: [] for who in steps}
        for _ in range(arguments.rounds):
            for who, step in steps.items():
                seconds[who].append(step())
        tokens = work.batch * work.length
        for peer in list(steps)[1:]:
            pair = Pair(
                work.title, peer, seconds["ours"], seconds[peer], tokens, "tokens"
            )
            print(pair.as_row(), flush=True)


def ours(work: Work, rematerialize: bool = False) -> Step:
    """Our update, as a run has it."""
    precision = "mixed_bfloat16" if work.dtype == "bfloat16" else "float32"
    training = TrainingConfig(steps=10_000, precision=precision)
    options: dict[str, Any] = {
        "num_layers": work.layers,
        "hidden_dim": work.hidden,
        "attention": FullAttentionConfig(num_heads=work.heads),
        "feedforward": DenseFeedForwardConfig(intermediate_dim=4 * work.hidden),
        "max_sequence_length": work.length,
    }
    masked = work.task == "masked"
    objective = MaskedConfig() if masked else CausalConfig()
    config = EncoderConfig(**options) if masked else DecoderConfig(**options)
    model = build_model(config, objective, work.vocabulary, dtype=precision)
    for layer in model.layers:
        if isinstance(layer, TransformerBlock):
            layer.rematerialize = rematerialize
    schedule = build_schedule(training.schedule, training.steps, work.hidden)
    weights = model.trainable_variables
    optimizer = build_optimizer(AdamWConfig(), schedule, weights)
    state = TrainState(model, optimizer, training)
    update = build_step(state, Loss(make_targets(objective)), training)
    ids = token_ids(work)
    batch = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    if masked:
        asked = places(work)
        batch |= {
            "masked_positions": asked,
            "masked_ids": np.take_along_axis(ids, asked, 1),
            "masked_weights": np.ones(asked.shape, "float32"),
        }
    else:
        weights = np.ones(ids.shape, "float32")
        batch |= {"target_ids": ids, "target_weights": weights}
    tensors = {name: tf.constant(array) for name, array in batch.items()}
    return _timed(lambda: update(tensors)["loss"])


def kerashub(work: Work) -> Step:
    """KerasHub's model in Keras's own step, compiled by XLA in float32."""
    import keras_hub  # which takes memory that ours does without

    dtype = "mixed_bfloat16" if work.dtype == "bfloat16" else "float32"
    sizes = {
        "vocabulary_size": work.vocabulary,
        "num_layers": work.layers,
        "num_heads": work.heads,
        "hidden_dim": work.hidden,
        "intermediate_dim": 4 * work.hidden,
        "max_sequence_length": work.length,
        "dtype": dtype,
    }
    ids = token_ids(work)
    inputs = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    if work.task == "masked":
        backbone = keras_hub.models.BertBackbone(**sizes)
        model = keras_hub.models.BertMaskedLM(backbone, activation=None, dtype=dtype)
        asked = places(work)
        inputs |= {"segment_ids": np.zeros_like(ids), "mask_positions": asked}
        targets = np.take_along_axis(ids, asked, 1)
    else:
        backbone = keras_hub.models.GPT2Backbone(**sizes)
        model = keras_hub.models.GPT2CausalLM(backbone)
        targets = ids
    model.compile(
        keras.optimizers.AdamW(1e-4, global_clipnorm=1.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=work.dtype == "float32",
    )
    tensors = keras.tree.map_structure(tf.constant, inputs)
    return _timed(lambda: model.train_on_batch(tensors, targets))


def hugging_face_words(work: Work, python: Path) -> list[object]:
    """The program of Hugging Face's model on PyTorch."""
    sizes = (work.layers, work.hidden, work.heads, 4 * work.hidden, work.length)
    return [python, PEER, work.task, *sizes, work.vocabulary, work.dtype]


def hugging_face(work: Work, python: Path) -> Step:
    """A step of it."""
    peer = Answering(hugging_face_words(work, python))
    return lambda: peer.seconds(work.batch, MASKED)


def token_ids(work: Work) -> np.ndarray:
    """int32 (B, T)."""
    shape = (work.batch, work.length)
    ids = np.random.default_rng(0).integers(5, work.vocabulary, shape)
    return ids.astype("int32")


def places(work: Work) -> np.ndarray:
    """int32 (B, P): which tokens are asked for, in order."""
    every = np.tile(np.arange(work.length), (work.batch, 1))
    asked = np.random.default_rng(0).permuted(every, axis=1)[:, :MASKED]
    return np.sort(asked).astype("int32")


def _timed(work: Callable[[], Any]) -> Step:
    def step() -> float:
        began = time.perf_counter()
        np.asarray(work())
        return time.perf_counter() - began

    return step


if __name__ == "__main__":
    main()
