"""The signatures of text and text pair classifiers."""

import tensorflow as tf

from transbeam.configs.schema.objectives.supervised import (
    ClassificationConfig,
    PairClassificationConfig,
)
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.signatures.base.interface import Endpoint
from transbeam.serving.signatures.pooled import PooledTask


class ClassificationTask:
    """The signatures of a classifier.

    Shapes: `B` texts, `T` tokens of the longest, `C` classes.

    - `serving_default`: `text`, and of pairs `second_text`, string (B,) → `label`
      string (B,), the most probable class; `classes` string (B, C), in the order of
      `objective.labels`; `scores` float32 (B, C), their probabilities; `truncated`
      bool (B,).
    - `classify`: `inputs`, serialized `tf.train.Example`s with these features →
      `classes`, `scores`: TF Serving's Classify.
    - `classify_ids`: ids → `logits` float32 (B, C).
    - `tokenize`: texts → ids.
    - `attention`: texts → attention weights; see `attention_endpoint`.

    Args:
        trained: The tokenizer and the model.
    """

    methods = {"classify": "classify"}

    def __init__(self, trained: TrainedRun):
        objective = trained.config.objective
        assert isinstance(objective, ClassificationConfig | PairClassificationConfig)
        self.labels = objective.labels
        self.asking = PooledTask(trained)
        self.max_length = self.asking.max_length

    def endpoints(self) -> dict[str, Endpoint]:
        asking = self.asking
        return {
            "serving_default": Endpoint(self.choose, asking.text_inputs),
            "classify": asking.example_endpoint(self.classify),
            "classify_ids": Endpoint(asking.ask_ids, asking.id_specs()),
            "tokenize": asking.tokenize_endpoint(),
            **asking.attention_endpoint(),
        }

    def phone_endpoints(self) -> dict[str, Endpoint]:
        specs = self.asking.id_specs(1, None)
        return {"classify_ids": Endpoint(self.asking.ask_ids, specs)}

    def choose(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `serving_default`."""
        encoded = self.asking.encode(*texts)
        logits = self.asking.ask(encoded)["logits"]  # (B, C)
        labels = tf.constant(self.labels)
        return {
            "label": tf.gather(labels, tf.argmax(logits, axis=1)),
            "classes": tf.broadcast_to(labels, tf.shape(logits)),
            "scores": tf.nn.softmax(logits),
            "truncated": encoded.truncated,
        }

    def classify(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `classify`, on texts."""
        answers = self.choose(*texts)
        return {name: answers[name] for name in ("classes", "scores")}
