"""The loss of packed completions is a sum over the tokens of their answers alone."""

import keras
import numpy as np
import pytest
from keras import ops

from tests.model.gradients import value_and_gradients
from tests.pipeline.objectives.record_checks import records_of
from tests.pipeline.objectives.word_tokenizer import LETTERS, run_of
from transbeam.configs.schema.attention import FullAttentionConfig
from transbeam.configs.schema.block import DenseFeedForwardConfig
from transbeam.configs.schema.model import DecoderConfig
from transbeam.configs.schema.objectives.supervised import CompletionConfig
from transbeam.model.build import build_model
from transbeam.pipeline.documents.document import Document
from transbeam.pipeline.objectives import completion
from transbeam.trainer.objectives.losses import Loss
from transbeam.trainer.objectives.targets import make_targets

LENGTH = 16
MODEL = DecoderConfig(
    num_layers=2,
    hidden_dim=16,
    max_sequence_length=LENGTH,
    dropout=0.0,
    attention=FullAttentionConfig(num_heads=2, dropout=0.0),
    feedforward=DenseFeedForwardConfig(intermediate_dim=32),
)
PAIRS = [("p q r", "a b"), ("s", "c"), ("t u v w", "d e f g"), ("x", "h i j")]


def model_of(*, packed: bool) -> keras.Model:
    size = LETTERS.vocabulary_size
    return build_model(MODEL, CompletionConfig(prompt="{text}"), size, packed=packed)


@pytest.mark.parametrize("loss", ["answer", "all"])
def test_loss_and_gradient_equal_those_of_each_pair_alone(loss: str) -> None:
    config = CompletionConfig(prompt="{text}", loss=loss)
    documents = [
        Document(text, "x", row, target_text=target)
        for row, (text, target) in enumerate(PAIRS)
    ]
    records = records_of(completion, run_of(config, LENGTH), documents)
    assert len(records) < len(PAIRS)
    packed, alone = model_of(packed=True), model_of(packed=False)
    alone.set_weights(packed.get_weights())
    inputs = {tensor.name: records.arrays[tensor.name] for tensor in packed.inputs}
    minimized = Loss(make_targets(config))

    def of_records():
        outputs = {"logits": packed(inputs, training=False)["logits"]}
        counts = minimized.counts(records.arrays)
        return minimized(outputs, records.arrays, counts)[0]

    def of_pairs():
        nats, count = [], 0
        for text, target in PAIRS:
            given = len(LETTERS.ids(text)) + 1 if loss == "answer" else 1
            row = np.array([[2, *LETTERS.ids(f"{text} {target}"), 3]], np.int32)
            read = {"token_ids": row, "padding_mask": np.ones_like(row)}
            logits = alone(read, training=False)["logits"][0, given - 1 : -1]
            chosen = ops.one_hot(row[0, given:], LETTERS.vocabulary_size)
            nats.append(-ops.sum(ops.log_softmax(logits) * chosen))
            count += row.shape[1] - given
        return sum(nats) / count

    found = value_and_gradients(of_records, packed.trainable_variables)
    expected = value_and_gradients(of_pairs, alone.trainable_variables)
    assert found[0] == pytest.approx(expected[0], rel=1e-5)
    for one, other in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
