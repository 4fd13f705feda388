"""Inputs of models that read a text, or a pair of texts."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from transbeam.configs.schema.objectives.traits import input_names
from transbeam.pipeline.tokenizers.base.text_frame import frame_of_run
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.signatures.base.attention_maps import LONGEST, attention_endpoint
from transbeam.serving.signatures.base.interface import (
    SECOND_TEXT,
    TEXT,
    Endpoint,
    ids_spec,
)
from transbeam.serving.signatures.base.logit_scaling import scale_logits
from transbeam.serving.text_ops.text_encoder import Encoded, TextEncoder


class TextInputs:
    """Reads texts, pairs, serialized examples or ids, for `PooledTask`.

    - `tokenize`: texts → ids.
    - `attention`: texts → attention maps; see `attention_endpoint`.

    Args:
        trained: The tokenizer and the model.
    """

    def __init__(self, trained: TrainedRun):
        self.trained = trained
        self.model = trained.model
        self.max_length = trained.config.model.max_sequence_length
        frame = frame_of_run(trained.config, trained.tokenizer.special)
        self.encoder = TextEncoder(trained.tokenizer, self.max_length, frame)
        self.is_pair = len(input_names(trained.config.objective)) == 2
        self.id_inputs = [
            name
            for name in ("token_ids", "padding_mask", "segment_ids")
            if name in self.model.input
        ]

    @property
    def specs(self) -> list[tf.TensorSpec]:
        """Specs of the signatures' inputs: one text, or the two texts of a pair."""
        return [TEXT, SECOND_TEXT] if self.is_pair else [TEXT]

    def endpoints(self) -> dict[str, Endpoint]:
        """Makes the signatures `tokenize` and `attention`."""
        return {"tokenize": self.tokenize_endpoint(), **self.attention_endpoint()}

    def tokenize_endpoint(self) -> Endpoint:
        """Creates the signature `tokenize`: token ids that apps must reproduce."""

        def tokenize(*texts: tf.Tensor) -> dict[str, tf.Tensor]:
            encoded = self.encode(*texts)
            found = {"token_ids": encoded.token_ids, "length": encoded.lengths}
            if "segment_ids" in self.id_inputs:
                found["segment_ids"] = encoded.segment_ids
            return {**found, "truncated": encoded.truncated}

        return Endpoint(tokenize, self.specs)

    def attention_endpoint(self) -> dict[str, Endpoint]:
        """See `transbeam.serving.signatures.base.attention_maps`."""
        return attention_endpoint(
            self.trained, self.model, self.specs, self.read_for_attention
        )

    def read_for_attention(self, *texts: tf.Tensor, longest: int = LONGEST) -> Any:
        """Reads texts for the signature `attention`; see `AttentionReader`."""
        encoded = self.encode(*texts, encoder=self.encoder.shorter(longest))
        inputs = {name: getattr(encoded, name) for name in self.id_inputs}
        return inputs, encoded.truncated

    def tensor_specs(self, batch: int | None) -> list[tf.TensorSpec]:
        """Returns the specs of the model's inputs."""
        return [ids_spec(name, batch, None) for name in self.id_inputs]

    def read(self, *texts: tf.Tensor) -> tuple[list[tf.Tensor], dict[str, tf.Tensor]]:
        """Returns the model's inputs for texts, and the further output `truncated`."""
        encoded = self.encode(*texts)
        inputs = [getattr(encoded, name) for name in self.id_inputs]
        return inputs, {"truncated": encoded.truncated}

    def encode(self, *texts: tf.Tensor, encoder: TextEncoder | None = None) -> Encoded:
        """Encodes texts (B,), or first and second texts of pairs, as rows of ids."""
        encoder = encoder or self.encoder
        tokens = [encoder.tokenizer.tokenize(column) for column in texts]
        return (encoder.pair if self.is_pair else encoder.text)(*tokens)

    def ask(self, *inputs: tf.Tensor) -> Mapping[str, Any]:
        """Computes the outputs for inputs in the order of `id_inputs`."""
        named = dict(zip(self.id_inputs, inputs, strict=True))
        return scale_logits(self.trained, self.model(named, training=False))

    def parse(self, examples: tf.Tensor) -> list[tf.Tensor]:
        """Reads `text` and `second_text` from serialized `tf.train.Example`s (B,)."""
        names = ["text", "second_text"] if self.is_pair else ["text"]
        features: Any = {name: tf.io.FixedLenFeature([], tf.string) for name in names}
        found: Any = tf.io.parse_example(examples, features)
        return [found[name] for name in names]
