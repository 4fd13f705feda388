"""The signatures of image classifiers."""

from typing import Any

import tensorflow as tf

from transbeam.configs.schema.objectives.supervised import ImageClassificationConfig
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.images.decoding import decode_images
from transbeam.serving.signatures.base.interface import EXAMPLES, Endpoint

IMAGE_BYTES = tf.TensorSpec([None], tf.string, name="image_bytes")


class ImageClassificationTask:
    """The signatures of an image classifier.

    Shapes: `B` images, `S` height and width, `P` channels, `C` classes.

    - `serving_default`: `image_bytes` string (B,), JPEG or PNG files → `label` string
      (B,), the most probable class; `classes` string (B, C), in the order of
      `objective.labels`; `scores` float32 (B, C), their probabilities.
    - `classify`: `inputs`, serialized `tf.train.Example`s with the feature
      `image_bytes` → `classes`, `scores`: TF Serving's Classify.
    - `pixels`: `image_bytes` → `image` uint8 (B, S, S, P), the model's input.
    - `classify_pixels`: `image` → `logits` float32 (B, C).

    A file that cannot be decoded as for training fails with `InvalidArgument`.

    Args:
        trained: The model.
    """

    methods = {"classify": "classify"}

    def __init__(self, trained: TrainedRun):
        objective = trained.config.objective
        assert isinstance(objective, ImageClassificationConfig)
        self.labels = objective.labels
        self.size, self.channels = objective.image_size, objective.channels
        self.model = trained.model
        self.max_length = trained.config.model.max_sequence_length

    def endpoints(self) -> dict[str, Endpoint]:
        return {
            "serving_default": Endpoint(self.choose, [IMAGE_BYTES]),
            "classify": Endpoint(self.classify, [EXAMPLES]),
            "pixels": Endpoint(self.pixels, [IMAGE_BYTES]),
            "classify_pixels": Endpoint(self.ask, [self.image_spec(None)]),
        }

    def phone_endpoints(self) -> dict[str, Endpoint]:
        return {"classify_pixels": Endpoint(self.ask, [self.image_spec(1)])}

    def image_spec(self, batch: int | None) -> tf.TensorSpec:
        """Returns the spec of decoded images."""
        shape = [batch, self.size, self.size, self.channels]
        return tf.TensorSpec(shape, tf.uint8, name="image")

    def choose(self, image_bytes: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `serving_default`."""
        logits = self.ask(**self.pixels(image_bytes))["logits"]  # (B, C)
        labels = tf.constant(self.labels)
        return {
            "label": tf.gather(labels, tf.argmax(logits, axis=1)),
            "classes": tf.broadcast_to(labels, tf.shape(logits)),
            "scores": tf.nn.softmax(logits),
        }

    def classify(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `classify`."""
        features: Any = {"image_bytes": tf.io.FixedLenFeature([], tf.string)}
        found: Any = tf.io.parse_example(inputs, features)
        answers = self.choose(found["image_bytes"])
        return {name: answers[name] for name in ("classes", "scores")}

    def pixels(self, image_bytes: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `pixels`."""
        return {"image": decode_images(image_bytes, self.size, self.channels)}

    def ask(self, image: tf.Tensor) -> dict[str, Any]:
        """The signature `classify_pixels`."""
        return self.model({"image": image}, training=False)
