"""A training step of masked language modelling: our model against KerasHub's.

python -m bench.training_step
"""

import keras
import keras_hub
import numpy as np
import tensorflow as tf

from bench.pairs import Pair, in_turns
from configs.attention import FullAttention
from configs.language_modelling import MaskedConfig
from configs.model import EncoderConfig
from configs.sockets import DenseFeedForward
from model.build import build_model
from trainer.losses import masked_cross_entropy

BATCH, LENGTH, MASKED, VOCABULARY = 32, 128, 20, 8192
STEPS = 5


def measure() -> Pair:
    """4 x 256, float32, dropout 0.1, AdamW with clipping; dense rows for both."""
    config = EncoderConfig(
        attention=FullAttention(num_heads=4),
        feedforward=DenseFeedForward(intermediate_dim=1024),
    )
    ours = build_model(config, MaskedConfig(), VOCABULARY)
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=VOCABULARY,
        num_layers=4,
        num_heads=4,
        hidden_dim=256,
        intermediate_dim=1024,
        max_sequence_length=LENGTH,
    )
    theirs = keras_hub.models.BertMaskedLM(backbone, activation=None)
    random = np.random.default_rng(0)
    ids = random.integers(5, VOCABULARY, (BATCH, LENGTH)).astype("int32")
    positions = np.sort(random.permuted(np.tile(np.arange(LENGTH), (BATCH, 1)), axis=1))
    inputs = {
        "token_ids": ids,
        "padding_mask": np.ones_like(ids),
        "masked_positions": positions[:, :MASKED].astype("int32"),
    }
    targets = ids[:, :MASKED]
    return Pair(
        "MLM step 4x256, V 8,192, 32x128, float32",
        "KerasHub",
        *in_turns(
            _fitting(ours, inputs, {"logits": targets}),
            _fitting(
                theirs,
                {
                    "token_ids": ids,
                    "segment_ids": np.zeros_like(ids),
                    "padding_mask": np.ones_like(ids),
                    "mask_positions": inputs["masked_positions"],
                },
                targets,
            ),
            rounds=5,
        ),
        STEPS * BATCH * LENGTH,
        "tokens",
    )


def _fitting(model: keras.Model, inputs, targets):
    model.compile(
        keras.optimizers.AdamW(1e-4, global_clipnorm=1.0), masked_cross_entropy()
    )
    batch = tf.data.Dataset.from_tensors((inputs, targets)).repeat(STEPS)
    options = tf.data.Options()
    options.autotune.enabled = False
    batch = batch.with_options(options)
    return lambda: model.fit(batch, epochs=1, verbose=0, shuffle=False)


if __name__ == "__main__":
    print(measure().as_row())
