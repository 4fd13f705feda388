"""Shared code of models with one output per text or per pair of texts."""

from typing import Any

import tensorflow as tf

from transbeam.configs.schema.export import asked_texts
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.signatures.base.attention_maps import LONGEST, attention_endpoint
from transbeam.serving.signatures.base.interface import (
    EXAMPLES,
    SECOND_TEXT,
    TEXT,
    Endpoint,
    ids_spec,
)
from transbeam.serving.text_ops.text_encoder import Encoded, TextEncoder


class PooledTask:
    """Runs a model on texts, pairs, serialized examples or ids.

    Args:
        trained: The tokenizer and the model.
    """

    def __init__(self, trained: TrainedRun):
        self.trained = trained
        self.model = trained.model
        self.max_length = trained.config.model.max_sequence_length
        self.encoder = TextEncoder(trained.tokenizer, self.max_length)
        self.is_pair = len(asked_texts(trained.config.objective)) == 2
        self.id_inputs = [
            name
            for name in ("token_ids", "padding_mask", "segment_ids")
            if name in self.model.input
        ]

    @property
    def text_inputs(self) -> list[tf.TensorSpec]:
        """The specs of one text, or of the two of a pair."""
        return [TEXT, SECOND_TEXT] if self.is_pair else [TEXT]

    def tokenize_endpoint(self) -> Endpoint:
        """Returns the signature `tokenize`: the ids that a phone app must compute."""

        def tokenize(*texts: tf.Tensor) -> dict[str, tf.Tensor]:
            encoded = self.encode(*texts)
            found = {"token_ids": encoded.token_ids, "length": encoded.lengths}
            if "segment_ids" in self.id_inputs:
                found["segment_ids"] = encoded.segment_ids
            return {**found, "truncated": encoded.truncated}

        return Endpoint(tokenize, self.text_inputs)

    def attention_endpoint(self) -> dict[str, Endpoint]:
        """Returns the signature `attention`; see `signatures.base.attention_maps`."""
        encoder = self.encoder.shorter(LONGEST)

        def read(*texts: tf.Tensor) -> Any:
            encoded = self.encode(*texts, encoder=encoder)
            inputs = {name: getattr(encoded, name) for name in self.id_inputs}
            return inputs, encoded.truncated

        return attention_endpoint(self.trained, self.model, self.text_inputs, read)

    def id_specs(self, *shape: int | None) -> list[tf.TensorSpec]:
        """Returns the specs of the model's inputs."""
        return [ids_spec(name, *shape) for name in self.id_inputs]

    def encode(self, *texts: tf.Tensor, encoder: TextEncoder | None = None) -> Encoded:
        """Encodes texts (B,), or first and second texts of pairs, as rows of ids."""
        encoder = encoder or self.encoder
        tokens = [encoder.tokenizer.tokenize(column) for column in texts]
        return (encoder.pair if self.is_pair else encoder.text)(*tokens)

    def ask(self, encoded: Encoded) -> dict[str, Any]:
        """Returns the model's outputs for encoded texts."""
        inputs = [getattr(encoded, name) for name in self.id_inputs]
        return self.ask_ids(*inputs)

    def ask_ids(self, *inputs: tf.Tensor) -> dict[str, Any]:
        """Returns the model's outputs for inputs in the order of `id_inputs`."""
        named = dict(zip(self.id_inputs, inputs, strict=True))
        return self.model(named, training=False)

    def parse(self, examples: tf.Tensor) -> list[tf.Tensor]:
        """Parses the texts in serialized `tf.train.Example`s (B,), by input name."""
        names = ["text", "second_text"] if self.is_pair else ["text"]
        features: Any = {name: tf.io.FixedLenFeature([], tf.string) for name in names}
        found: Any = tf.io.parse_example(examples, features)
        return [found[name] for name in names]

    def example_endpoint(self, answer: Any) -> Endpoint:
        """Wraps a signature on texts for TF Serving's Classify and Regress APIs."""
        return Endpoint(lambda inputs: answer(*self.parse(inputs)), [EXAMPLES])
