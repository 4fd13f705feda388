"""The signatures of text and text pair regression models."""

import tensorflow as tf

from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.signatures.base.interface import Endpoint
from transbeam.serving.signatures.pooled import PooledTask


class RegressionTask:
    """The signatures of a regression model.

    Shapes: `B` texts, `T` tokens of the longest.

    - `serving_default`: `text`, and of pairs `second_text`, string (B,) → `score`
      float32 (B,); `truncated` bool (B,).
    - `regress`: `inputs`, serialized `tf.train.Example`s with these features →
      `outputs` float32 (B,): TF Serving's Regress.
    - `regress_ids`: ids → `score` float32 (B,).
    - `tokenize`: texts → ids.
    - `attention`: texts → attention weights; see `attention_endpoint`.

    Args:
        trained: The tokenizer and the model.
    """

    methods = {"regress": "regress"}

    def __init__(self, trained: TrainedRun):
        self.asking = PooledTask(trained)
        self.max_length = self.asking.max_length

    def endpoints(self) -> dict[str, Endpoint]:
        asking = self.asking
        return {
            "serving_default": Endpoint(self.estimate, asking.text_inputs),
            "regress": asking.example_endpoint(self.regress),
            "regress_ids": Endpoint(asking.ask_ids, asking.id_specs()),
            "tokenize": asking.tokenize_endpoint(),
            **asking.attention_endpoint(),
        }

    def phone_endpoints(self) -> dict[str, Endpoint]:
        specs = self.asking.id_specs(1, None)
        return {"regress_ids": Endpoint(self.asking.ask_ids, specs)}

    def estimate(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `serving_default`."""
        encoded = self.asking.encode(*texts)
        return {
            "score": self.asking.ask(encoded)["score"],
            "truncated": encoded.truncated,
        }

    def regress(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `regress`, on texts."""
        return {"outputs": self.estimate(*texts)["score"]}
