"""Inputs of models that read an image."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from transbeam.configs.schema.objectives.objective import ImageObjective
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.images.decoding import decode_images
from transbeam.serving.signatures.base.interface import Endpoint
from transbeam.serving.signatures.base.logit_scaling import scale_logits

IMAGE_BYTES = tf.TensorSpec([None], tf.string, name="image_bytes")


class ImageInputs:
    """Reads image files, serialized examples or pixels, for `PooledTask`.

    Shapes: `B` images, `S` height and width of an image, `P` channels of a pixel.

    - `pixels`: `image_bytes` string (B,), JPEG or PNG files → `image` uint8 (B, S, S,
      P), the model's input.

    A file that cannot be decoded as in training fails with `InvalidArgument`.

    Args:
        trained: The model.
    """

    specs = [IMAGE_BYTES]

    def __init__(self, trained: TrainedRun):
        objective = trained.config.objective
        assert isinstance(objective, ImageObjective)
        self.size, self.channels = objective.image_size, objective.channels
        self.trained, self.model = trained, trained.model
        self.max_length = trained.config.model.max_sequence_length

    def endpoints(self) -> dict[str, Endpoint]:
        """The signature that returns the model's inputs, for inspection."""
        return {"pixels": Endpoint(self.pixels, self.specs)}

    def tensor_specs(self, batch: int | None) -> list[tf.TensorSpec]:
        """Of decoded images."""
        shape = [batch, self.size, self.size, self.channels]
        return [tf.TensorSpec(shape, tf.uint8, name="image")]

    def read(self, *files: tf.Tensor) -> tuple[list[tf.Tensor], dict[str, tf.Tensor]]:
        """Returns the model's inputs for image files, and no further outputs."""
        return [*self.pixels(*files).values()], {}

    def pixels(self, image_bytes: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `pixels`."""
        return {"image": decode_images(image_bytes, self.size, self.channels)}

    def ask(self, *image: tf.Tensor) -> Mapping[str, Any]:
        """Computes the outputs for decoded images."""
        outputs = self.model({"image": image[0]}, training=False)
        return scale_logits(self.trained, outputs)

    def parse(self, examples: tf.Tensor) -> list[tf.Tensor]:
        """Extracts the image files from serialized `tf.train.Example`s (B,)."""
        features: Any = {"image_bytes": tf.io.FixedLenFeature([], tf.string)}
        found: Any = tf.io.parse_example(examples, features)
        return [found["image_bytes"]]
