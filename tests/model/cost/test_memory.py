"""Bytes counted by hand, and that what is kept is what the kind of attention says."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.attention import (
    FullAttentionConfig,
    KernelAttentionConfig,
)
from transbeam.configs.schema.block import (
    DenseFeedForwardConfig,
    GatedFeedForwardConfig,
    LayerNormConfig,
    NoFeedForwardConfig,
    RmsNormConfig,
)
from transbeam.configs.schema.distillation import DistillationConfig
from transbeam.configs.schema.model import (
    DecoderConfig,
    EncoderConfig,
    Seq2SeqModelConfig,
)
from transbeam.configs.schema.objectives.language_modeling import (
    CausalConfig,
    MaskedConfig,
)
from transbeam.configs.schema.optimizers import AdafactorConfig, LionConfig
from transbeam.configs.schema.training import TrainingConfig
from transbeam.model.cost.memory import (
    MOST_SCORES,
    cache_bytes,
    kept_activations,
    training_memory,
)
from transbeam.model.cost.report import count_cost
from transbeam.model.cost.stacks import Lengths
from transbeam.model.kernels import vocabulary_loss
from transbeam.model.layers.attention import kernel_attention

ROOT = Path(__file__).parents[3]
ATTENTION = FullAttentionConfig(
    num_heads=4, num_key_value_heads=2, head_dim=5, dropout=0.0
)
SMALL = {
    "num_layers": 3,
    "hidden_dim": 8,
    "max_sequence_length": 64,
    "dropout": 0.0,
    "attention": ATTENTION,
    "feedforward": DenseFeedForwardConfig(intermediate_dim=12),
}
TOKENS = 10


def kept(config, number=4):
    objective = CausalConfig() if config.kind == "decoder" else MaskedConfig()
    return kept_activations(config, objective, Lengths(tokens=TOKENS), number)


def test_masks_take_a_byte_for_each_number_of_the_kernels():
    pruning = "training.pruning={sparsity: 0.5, end_step: 9}"
    run, pruned = (
        count_cost(load_run(ROOT / "configs/tiny/masked.yaml", overrides))
        for overrides in ([], [pruning])
    )
    masks = pruned["memory"]["training"]["pruning_masks"]
    # Two blocks of width 64 and 128, and the head's dense layer.
    assert masks == 2 * (4 * 64 * 64 + 2 * 64 * 128) + 64 * 64
    peaks = [cost["memory"]["training"]["peak"] for cost in (run, pruned)]
    assert peaks[1] - peaks[0] == masks


def test_training_in_float32_takes_sixteen_bytes_a_weight():
    memory = training_memory(1_000, 0, 0, TrainingConfig(steps=100))
    assert memory["peak"] == 16 * 1_000


@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision_keeps_a_copy_of_the_weights(precision):
    training = TrainingConfig(steps=100, precision=precision)
    memory = training_memory(1_000, 7, 0, training)
    assert memory["weights_in_half_precision"] == 2 * 1_000
    assert memory["peak"] == 18 * 1_000 + 7


@pytest.mark.parametrize(
    ("optimizer", "numbers"), [(AdafactorConfig(), 0), (LionConfig(), 1)]
)
def test_optimizers_that_keep_less(optimizer, numbers):
    memory = training_memory(
        1_000, 0, 0, TrainingConfig(steps=100, optimizer=optimizer)
    )
    assert memory["peak"] == 4 * (2 + numbers) * 1_000


@pytest.mark.parametrize(
    ("scores", "held"), [(1_000, 2 * 1_000), (2**26, 2 * MOST_SCORES)]
)
def test_scores_of_a_large_vocabulary_are_made_in_chunks(scores, held):
    memory = training_memory(0, 0, scores, TrainingConfig(steps=100))
    assert memory["peak"] == memory["scores"] == 4 * held
    assert MOST_SCORES == vocabulary_loss.MOST_SCORES


def test_a_student_has_all_scores_and_its_teachers():
    distillation = DistillationConfig(teacher="runs/teacher")
    training = TrainingConfig(steps=100, distillation=distillation)
    assert training_memory(0, 0, 2**26, training)["scores"] == 3 * 4 * 2**26


def test_what_is_frozen_has_no_gradient_and_a_teacher_only_weights():
    training = TrainingConfig(steps=100, ema_decay=0.9)
    memory = training_memory(1_000, 0, 0, training, trained=10, teacher=300)
    assert memory["peak"] == 4 * 1_000 + 4 * 10 * (1 + 2 + 1) + 4 * 300


def test_kept_by_a_decoder_by_hand():
    parts = kept(DecoderConfig(**SMALL))
    assert parts == {
        "attention": 3 * 4 * TOKENS * (8 + 20 + 2 * 10 + 20),
        "probabilities": 0,
        "feedforward": 3 * 4 * TOKENS * (8 + (1 + 1) * 12),
        "norms": (3 * 2 + 1) * 4 * TOKENS * 8,
        "logits": TOKENS * 8 * (4 + 4),
    }


def test_kept_around_a_narrow_table_by_hand():
    narrow = {"embedding_dim": 3, "embeddings_norm": True}
    parts, plain = kept(DecoderConfig(**SMALL, **narrow)), kept(DecoderConfig(**SMALL))
    # What is widened; the norm before it; what is made narrow, what is scored, and the
    # gradient of that in float32.
    assert parts.pop("embeddings") == 4 * TOKENS * 3
    assert parts.pop("norms") == plain.pop("norms") + 4 * TOKENS * 3
    assert parts.pop("logits") == TOKENS * (4 * 8 + (4 + 4) * 3)
    del plain["logits"]
    assert parts == plain
    untied = kept(DecoderConfig(**SMALL, **narrow, tie_embeddings=False))
    assert untied["logits"] == TOKENS * (4 + 4) * 8
    masked, whole = (
        kept(EncoderConfig(**SMALL, embedding_dim=width))["logits"] for width in (3, 8)
    )
    # Of two hidden tokens: what the dense layer reads; of its width then what the
    # activation and the norm keep, what is scored, and the gradient of that.
    assert masked == 2 * (4 * 8 + (4 + 4 + 4 + 4) * 3)
    assert whole == 2 * (4 * 8 + (4 + 4 + 4 + 4) * 8)


def test_half_precision_halves_what_is_not_made_in_float32():
    wide, narrow = (kept(DecoderConfig(**SMALL), number) for number in (4, 2))
    assert narrow["attention"] == wide["attention"] / 2
    assert narrow["feedforward"] == 3 * TOKENS * (2 * 8 + (2 + 4) * 12)
    assert narrow["norms"] == wide["norms"] / 2
    wide, narrow = (
        kept(DecoderConfig(**SMALL | {"norm": RmsNormConfig()}), number)
        for number in (4, 2)
    )
    assert narrow["norms"] == wide["norms"] == (3 * 2 + 1) * 2 * 4 * TOKENS * 8
    assert narrow["logits"] == TOKENS * 8 * (2 + 4)


def test_dropout_of_probabilities_keeps_them_and_their_copy():
    dropping = replace(ATTENTION, dropout=0.1)
    parts = kept(DecoderConfig(**{**SMALL, "attention": dropping}), number=2)
    assert parts["probabilities"] == 3 * 4 * TOKENS**2 * (4 + 2)


def test_masks_of_dropout_are_not_kept():
    without, dropping = (
        kept(EncoderConfig(**{**SMALL, "dropout": rate})) for rate in (0.0, 0.1)
    )
    assert dropping == without


def test_a_gate_keeps_the_other_factor_and_the_product():
    gated = GatedFeedForwardConfig(intermediate_dim=12)
    parts = kept(DecoderConfig(**{**SMALL, "feedforward": gated}))
    assert parts["feedforward"] == 3 * 4 * TOKENS * (8 + (1 + 3) * 12)


def test_attention_only_blocks_keep_one_norm_and_no_units():
    plain = kept(DecoderConfig(**SMALL))
    parts = kept(DecoderConfig(**{**SMALL, "feedforward": NoFeedForwardConfig()}))
    norms = (3 * 1 + 1) * 4 * TOKENS * 8
    assert parts == {**plain, "feedforward": 0, "norms": norms}


def test_only_what_is_masked_is_scored():
    parts = kept(EncoderConfig(**SMALL, norm=LayerNormConfig(placement="pre")))
    assert parts["logits"] == 2 * 8 * (4 + 4 + 4 * (1 + 1 + 1))


@pytest.mark.parametrize("number", [2, 4])
def test_cache_has_the_shared_heads_alone(number):
    cache = cache_bytes(DecoderConfig(**SMALL), number)
    assert cache["per_token"] == 3 * 2 * 2 * 5 * number
    assert cache["longest"] == 64 * cache["per_token"]
    assert cache["fixed"] == cache["per_context_token"] == 0


def test_cache_of_two_stacks_has_the_context_too():
    cache = cache_bytes(Seq2SeqModelConfig(**SMALL, num_decoder_layers=2), 4)
    assert cache["per_token"] == cache["per_context_token"] == 2 * 2 * 10 * 4
    assert cache["longest"] == 2 * 64 * cache["per_token"]


@pytest.mark.parametrize("feature_map", ["softmax", "relu", "elu"])
def test_cache_of_kernel_attention_does_not_grow(feature_map):
    attention = KernelAttentionConfig(
        num_heads=2, num_features=16, feature_map=feature_map
    )
    config = DecoderConfig(**{**SMALL, "attention": attention})
    cache = cache_bytes(config, 4)
    assert cache["per_token"] == 0
    assert cache["longest"] == cache["fixed"]
    layer = kernel_attention.KernelAttention(
        config.hidden_dim, 2, num_features=16, feature_map=feature_map, causal=True
    )
    kept = sum(np.prod(part.shape) for part in layer.make_cache(1, 64).values())
    assert cache["fixed"] == config.num_layers * 4 * kept


def test_encoder_has_no_cache():
    assert cache_bytes(EncoderConfig(**SMALL), 4) == {}
