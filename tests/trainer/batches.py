"""Small models for every objective, and batches of records at random."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from transbeam.configs.schema.attention import FullAttentionConfig
from transbeam.configs.schema.block import DenseFeedForwardConfig
from transbeam.configs.schema.model import (
    DecoderConfig,
    EncoderConfig,
    PatchesConfig,
    Seq2SeqModelConfig,
)
from transbeam.configs.schema.objectives.contrastive import ContrastivePairsConfig
from transbeam.configs.schema.objectives.language_modeling import (
    CausalConfig,
    MaskedConfig,
    PrefixConfig,
    SentencePairsConfig,
)
from transbeam.configs.schema.objectives.objective import Objective
from transbeam.configs.schema.objectives.supervised import (
    ClassificationConfig,
    ImageClassificationConfig,
    MultiLabelClassificationConfig,
    RegressionConfig,
    Seq2SeqConfig,
    SpanQAConfig,
    TokenClassificationConfig,
)
from transbeam.configs.schema.objectives.traits import TRAITS, traits
from transbeam.model.build import build_model

VOCABULARY, LENGTH, SLOTS, SIDE = 30, 12, 4, 8
LABELS = ("a", "b", "c")

OBJECTIVES: dict[str, Objective] = {
    "masked": MaskedConfig(),
    "sentence_pairs": SentencePairsConfig(),
    "causal": CausalConfig(),
    "prefix": PrefixConfig(),
    "seq2seq": Seq2SeqConfig(),
    "classification": ClassificationConfig(labels=LABELS),
    "multi_label_classification": MultiLabelClassificationConfig(
        labels=LABELS, class_weights=(1.0, 2.0, 0.5)
    ),
    "regression": RegressionConfig(),
    "token_classification": TokenClassificationConfig(labels=LABELS),
    "span_qa": SpanQAConfig(),
    "image_classification": ImageClassificationConfig(
        labels=LABELS, image_size=SIDE, channels=1
    ),
}

# The loss of a pair depends on the others of its micro-batch, so accumulation and
# replicas make a difference.
PAIRS = ContrastivePairsConfig(hard_negatives=True, symmetric=True)


def small_model(
    objective: Objective,
    *,
    dropout: float = 0.0,
    dtype: str = "float32",
    seed: int = 0,
    family: str | None = None,
    **keys: Any,
) -> keras.Model:
    """One layer of width 16 with the head of the objective; and keys of `model`.

    Its `kind` is the family, or else the objective's usual one.
    """
    options: dict[str, Any] = {
        "num_layers": 1,
        "hidden_dim": 16,
        "dropout": dropout,
        "attention": FullAttentionConfig(num_heads=2, dropout=dropout),
        "feedforward": DenseFeedForwardConfig(intermediate_dim=32),
        "max_sequence_length": LENGTH,
        **keys,
    }
    family = family or traits(objective).models[0]
    if traits(objective).has_segments:
        options["num_segments"] = 2
    if objective.kind == "image_classification":
        options["patches"] = PatchesConfig(
            image_size=SIDE, patch_size=4, num_channels=1
        )
        del options["max_sequence_length"]
    kinds: dict[str, Callable] = {
        "encoder": EncoderConfig,
        "decoder": DecoderConfig,
        "seq2seq": Seq2SeqModelConfig,
    }
    return build_model(
        kinds[family](**options),
        objective,
        VOCABULARY,
        packed=True,
        segments=traits(objective).has_segments,
        dtype=dtype,
        seed=seed,
    )


def random_batch(objective: Objective, rows: int, seed: int = 0) -> dict[str, Any]:
    """Records with two documents each and padding of other lengths behind them."""
    random = np.random.default_rng(seed)
    kind = objective.kind
    if kind == "image_classification":
        image = random.integers(0, 256, (rows, SIDE, SIDE, 1)).astype("uint8")
        return {"image": image, "label": _ids(random, len(LABELS), rows)}
    if kind == "seq2seq":
        batch = {
            **_tokens(random, rows, "encoder_"),
            **(tokens := _tokens(random, rows, "decoder_")),
        }
        real = tokens["decoder_document_ids"] > 0
        return {**batch, **_targets(random, real)}
    if kind == "contrastive_pairs":
        return _pairs(random, rows, PAIRS.texts_per_record)
    batch = _tokens(random, rows)
    real = batch["document_ids"] > 0
    batch |= _asked(random, kind, batch, rows)
    if TRAITS[kind].has_segments:
        batch["segment_ids"] = (batch["position_ids"] > 2).astype("int32") * real
    return batch


def _asked(random, kind: str, batch: dict[str, Any], rows: int) -> dict[str, Any]:
    """Features of a text's records, by objective."""
    real = batch["document_ids"] > 0
    used = np.arange(SLOTS) < random.integers(1, SLOTS + 1, (rows, 1))
    start = _ids(random, 4, rows)
    targets = _targets(random, real)
    masked = {
        "masked_positions": _ids(random, 4, rows, SLOTS) * used,
        "masked_ids": _ids(random, VOCABULARY, rows, SLOTS) * used,
        "masked_weights": used.astype("float32"),
    }
    prefix = (batch["position_ids"] < 2).astype("int32") * real
    return {
        "masked": masked,
        "sentence_pairs": {**masked, "next_sentence_label": _ids(random, 2, rows)},
        "causal": targets,
        "prefix": {**targets, "prefix_mask": prefix},
        "classification": {"label": _ids(random, len(LABELS), rows)},
        "multi_label_classification": {"label": _ids(random, 2, rows, len(LABELS))},
        "regression": {"label": random.normal(size=rows).astype("float32")},
        "token_classification": {
            "label_ids": _ids(random, len(LABELS), rows, LENGTH) * real,
            "label_weights": real.astype("float32"),
        },
        "span_qa": {"start_position": start, "end_position": start + 1},
    }[kind]


def _ids(random: np.random.Generator, limit: int, *shape: int) -> np.ndarray:
    return random.integers(0, limit, shape).astype("int32")


def _tokens(random, rows: int, prefix: str = "") -> dict[str, np.ndarray]:
    first = random.integers(4, 6, (rows, 1))
    second = random.integers(1, LENGTH - 5, (rows, 1))
    place = np.arange(LENGTH)
    documents = np.where(place < first, 1, np.where(place < first + second, 2, 0))
    positions = np.where(place < first, place, place - first) * (documents > 0)
    arrays = {
        "token_ids": _ids(random, VOCABULARY - 1, rows, LENGTH) + 1,
        "document_ids": documents.astype("int32"),
        "position_ids": positions.astype("int32"),
    }
    arrays["token_ids"] *= documents > 0
    return {prefix + name: x.astype("int32") for name, x in arrays.items()}


def _pairs(random, rows: int, texts: int) -> dict[str, np.ndarray]:
    """Pairs of which some have equal texts, and some no hard negative."""
    real = np.arange(LENGTH) < random.integers(2, LENGTH, (rows, texts, 1))
    number = np.arange(1, texts + 1)[:, None]
    hashes = _ids(random, 3 * rows * texts, rows, texts, 2) + 1
    equal = random.random(rows) < 0.3
    hashes[equal, 1] = hashes[0, 1]
    hashes[random.random(rows) < 0.3, -1] = 0
    return {
        "token_ids": (_ids(random, VOCABULARY - 1, *real.shape) + 1) * real,
        "document_ids": (number * real).astype("int32"),
        "position_ids": (np.arange(LENGTH) * real).astype("int32"),
        "text_hashes": hashes,
    }


def _targets(random, real: np.ndarray) -> dict[str, np.ndarray]:
    weights = real & (random.random(real.shape) < 0.8)
    ids = random.integers(1, VOCABULARY, real.shape) * weights
    return {
        "target_ids": ids.astype("int32"),
        "target_weights": weights.astype("float32"),
    }
