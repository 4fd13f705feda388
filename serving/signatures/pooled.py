"""Signatures of models with one prediction per input."""

from collections.abc import Mapping
from typing import Any, Protocol

import tensorflow as tf

from transbeam.configs.schema.objectives.objective import (
    ImageObjective,
    LabeledObjective,
    NumberObjective,
)
from transbeam.configs.schema.objectives.traits import traits
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.signatures.base.image_inputs import ImageInputs
from transbeam.serving.signatures.base.interface import EXAMPLES, Endpoint
from transbeam.serving.signatures.base.text_inputs import TextInputs
from transbeam.serving.signatures.pooled_answers import make_pooled_answer


class PooledInputs(Protocol):
    """The inputs of a model with one prediction per input: texts, pairs or images."""

    max_length: int

    @property
    def specs(self) -> list[tf.TensorSpec]:
        """Inputs of `serving_default`."""
        ...

    def endpoints(self) -> dict[str, Endpoint]:
        """Signatures that return the model's inputs, for inspection."""
        ...

    def tensor_specs(self, batch: int | None) -> list[tf.TensorSpec]:
        """Specs of the model's inputs, ids or pixels."""
        ...

    def read(self, *inputs: tf.Tensor) -> tuple[list[tf.Tensor], dict[str, tf.Tensor]]:
        """The model's inputs, and outputs of `serving_default` besides predictions."""
        ...

    def ask(self, *tensors: tf.Tensor) -> Mapping[str, Any]:
        """The model's outputs, their logits divided by the export's temperature."""
        ...

    def parse(self, examples: tf.Tensor) -> list[tf.Tensor]:
        """Extracts the inputs from serialized `tf.train.Example`s (B,)."""
        ...


class PooledTask:
    """The signatures of a model with one prediction per input.

    Shapes: `B` inputs; the shapes of predictions are in `pooled_answers`.

    - `serving_default`: `text`, for pairs also `second_text`, or `image_bytes`, string
      (B,) → the prediction; for texts also `truncated` bool (B,).
    - `classify` or `regress`: `inputs`, serialized `tf.train.Example`s with these
      features → the response of TF Serving's Classify or Regress method.
    - `classify_ids`, `regress_pixels` and so on: ids or pixels → the model's scores;
      logits are divided by the temperature, if the export applies one.
    - the signatures of `TextInputs` or `ImageInputs`.

    Args:
        trained: The tokenizer and the model.
    """

    def __init__(self, trained: TrainedRun):
        objective = trained.config.objective
        assert isinstance(objective, LabeledObjective | NumberObjective)
        signature = traits(objective).ids_signature
        assert signature is not None
        self.answer = make_pooled_answer(objective, trained.calibration)
        self.by_ids = signature
        is_image = isinstance(objective, ImageObjective)
        self.inputs: PooledInputs = (ImageInputs if is_image else TextInputs)(trained)
        self.max_length = self.inputs.max_length
        self.methods = {self.answer.method: self.answer.method}

    def endpoints(self) -> dict[str, Endpoint]:
        return {
            "serving_default": Endpoint(self.answer_inputs, self.inputs.specs),
            self.answer.method: Endpoint(self.answer_examples, [EXAMPLES]),
            self.by_ids: Endpoint(self.inputs.ask, self.inputs.tensor_specs(None)),
            **self.inputs.endpoints(),
        }

    def phone_endpoints(self) -> dict[str, Endpoint]:
        specs = self.inputs.tensor_specs(1)
        return {self.by_ids: Endpoint(self.inputs.ask, specs)}

    def answer_inputs(self, *inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `serving_default`."""
        tensors, more = self.inputs.read(*inputs)
        return {**self.answer.default_outputs(self.inputs.ask(*tensors)), **more}

    def answer_examples(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature that TF Serving's Classify or Regress calls."""
        tensors, _ = self.inputs.read(*self.inputs.parse(inputs))
        return self.answer.method_outputs(self.inputs.ask(*tensors))
