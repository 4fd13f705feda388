"""The files that `bench.phones` and `bench.phone_writing` measure.

    python -m bench.phone_files MODEL FOLDER

writes `ours VARIANT.tflite` when it reads a line, and of a classifier also
`KerasHub VARIANT.tflite`. `MODEL` is one of `bench.phones`, or `writer`.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from transbeam.configs.system.quiet_imports import quiet_import

quiet_import("tensorflow", "tensorflow_text", "keras", "keras_hub")

import keras  # noqa: E402
import keras_hub  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from bench.phones import MODELS  # noqa: E402
from transbeam.configs.loader.yaml_config import load_run  # noqa: E402
from transbeam.configs.schema.attention import FullAttentionConfig  # noqa: E402
from transbeam.configs.schema.block import (  # noqa: E402
    DenseFeedForwardConfig,
    GatedFeedForwardConfig,
)
from transbeam.configs.schema.objectives.language_modeling import CausalConfig  # noqa: E402
from transbeam.configs.schema.objectives.supervised import ClassificationConfig  # noqa: E402
from transbeam.configs.system.native_output import output_on_error  # noqa: E402
from transbeam.model.build import build_model  # noqa: E402
from transbeam.model.generation.external_kv_cache import ExternalCacheModel  # noqa: E402
from transbeam.serving.phone.conversion.tflite_converter import convert  # noqa: E402
from transbeam.serving.phone.quantization.quantizer import quantized  # noqa: E402
from transbeam.serving.signatures.base.interface import Endpoint, ids_spec  # noqa: E402
from transbeam.serving.signatures.generation.tflite_signatures import decoder_endpoints  # noqa: E402

# Layers, width, heads, pieces and most tokens: those of the peer's `SIZES`.
SIZES = {
    "bert_base": (12, 768, 12, 30522, 512),
    "minilm": (6, 384, 12, 30522, 512),
    "phone_classifier": (6, 256, 4, 8192, 128),
}
VARIANTS = ("dynamic_int8", "weight_int4", "dynamic_int4")
# Of the writer: those of `peers/hf_writer.py`.
LAYERS, WIDTH, HEADS, GROUPS, INSIDE, PIECES = 6, 384, 6, 2, 1024, 8192
SLOTS, PREFILL = 128, 64
assert set(SIZES) == set(MODELS)


def ours(name: str, folder: Path) -> None:
    """BERT's blocks and pooler, with two classes."""
    layers, width, heads, pieces, longest = SIZES[name]
    run = load_run(Path("configs/presets/bert_base.yaml"))
    config: Any = replace(
        run.model,
        num_layers=layers,
        hidden_dim=width,
        attention=FullAttentionConfig(num_heads=heads),
        feedforward=DenseFeedForwardConfig(intermediate_dim=4 * width),
        max_sequence_length=longest,
    )
    objective = ClassificationConfig(labels=("0", "1"))
    model = build_model(config, objective, pieces, segments=False, dtype="float32")
    disturb(model)

    def ask(token_ids: tf.Tensor, padding_mask: tf.Tensor) -> Any:
        inputs = {"token_ids": token_ids, "padding_mask": padding_mask}
        return model(inputs, training=False)

    specs = [ids_spec(each, 1, None) for each in ("token_ids", "padding_mask")]
    write(convert({"classify_ids": Endpoint(ask, specs)}, 128, folder), folder)


def our_writer(folder: Path) -> None:
    """LLaMA's blocks, with a table that also scores."""
    run = load_run(Path("configs/presets/phone_next_word.yaml"))
    config: Any = replace(
        run.model,
        num_layers=LAYERS,
        hidden_dim=WIDTH,
        embedding_dim=None,
        embeddings_norm=False,
        max_sequence_length=SLOTS,
        attention=FullAttentionConfig(
            num_heads=HEADS,
            num_key_value_heads=GROUPS,
            projection_bias=False,
            output_bias=False,
        ),
        feedforward=GatedFeedForwardConfig(intermediate_dim=INSIDE),
    )
    model = build_model(config, CausalConfig(), PIECES, segments=False, dtype="float32")
    disturb(model)
    endpoints = decoder_endpoints(ExternalCacheModel(model, SLOTS), (PREFILL,))
    write(convert(endpoints, SLOTS, folder), folder)


def write(content: bytes, folder: Path) -> None:
    """In float32, and the variants of it."""
    (folder / "ours float32.tflite").write_bytes(content)
    for variant in VARIANTS:
        file = folder / f"ours {variant}.tflite"
        file.write_bytes(quantized(content, variant))


def keras_hubs(name: str, folder: Path) -> None:
    """Its BERT with the classifier that it has for it."""
    layers, width, heads, pieces, longest = SIZES[name]
    backbone: Any = keras_hub.models.BertBackbone(
        vocabulary_size=pieces,
        num_layers=layers,
        num_heads=heads,
        hidden_dim=width,
        intermediate_dim=4 * width,
        max_sequence_length=longest,
    )
    model: Any = keras_hub.models.BertTextClassifier(backbone, num_classes=2)
    disturb(model)
    with output_on_error():
        file = folder / "KerasHub float32.tflite"
        model.export(str(file), format="litert", verbose=False)
        saved = folder / "saved"
        model.export(str(saved), format="tf_saved_model", verbose=False)
        converter = tf.lite.TFLiteConverter.from_saved_model(str(saved))
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        (folder / "KerasHub dynamic_int8.tflite").write_bytes(converter.convert())


def disturb(model: keras.Model) -> None:
    """Biases are not 0 after a training, nor scales 1; nothing may be left out."""
    chance = np.random.default_rng(0)
    for weight in model.weights:
        weight.assign(weight + 0.02 * chance.standard_normal(weight.shape))


def main() -> None:
    """Makes both, and says when."""
    input()
    name, folder = sys.argv[1], Path(sys.argv[2])
    if name == "writer":
        our_writer(folder)
    else:
        ours(name, folder)
        keras_hubs(name, folder)
    print(0.0, flush=True)


if __name__ == "__main__":
    main()
