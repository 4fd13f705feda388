"""Converts a sentence pair model to a text pair classifier.

The masked language modeling head is needed only for pretraining and is dropped.
"""

from dataclasses import replace

import keras

from transbeam.configs.schema.objectives.language_modeling import SentencePairsConfig
from transbeam.configs.schema.objectives.supervised import PairClassificationConfig
from transbeam.serving.base.trained_run import TrainedRun


def as_classifier(trained: TrainedRun) -> TrainedRun:
    """Returns the model as a pair classifier, for its signatures and parity check.

    Args:
        trained: Trained for `sentence_pairs`.
    """
    objective = trained.config.objective
    assert isinstance(objective, SentencePairsConfig)
    inputs = dict(trained.model.input)
    del inputs["masked_positions"]
    pooled = {"logits": trained.model.output["pair_logits"]}
    return replace(
        trained,
        config=replace(
            trained.config,
            objective=PairClassificationConfig(labels=objective.pair_labels),
        ),
        model=keras.Model(inputs, pooled, name="pair_classifier"),
    )
