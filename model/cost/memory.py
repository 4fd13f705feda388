"""Memory of training and of generation, estimated without building the model.

In training the weights, their gradients and the optimizer state (two moments with
AdamW) are float32 for every precision; the activations that are stored for the backward
pass grow with the batch.

For each token, a block of hidden width `D`, with query width `H K`, key and value width
`G K`, and intermediate width `F`, stores:

- attention: its input (D), queries, keys and values (H K + 2 G K) and the heads'
  outputs (H K); the probability of each score, in float32;
- feed-forward: its input (D), the output of the activation (F) and what its gradient
  needs (`KEPT_BY_ACTIVATION`); with a gate, the other factor and the product too (2 F);
- a layer norm: its input (D), from which the rest is recomputed; an RMS norm: its input
  and the normalized input, in float32 (2 D);
- with dropout, a second copy of the probabilities; masks are recomputed, not stored.

Vocabulary logits are not stored: the loss computes them for some tokens at a time, and
stores the gradient of the hidden states (`model/kernels/vocabulary_loss.py`).

The count follows section 4.1 of Korthikanti and others (2022), extended to any
precision and to the tensors that TensorFlow stores for norms and activations, each of
which the paper counts as a single kernel.

References:
    - [Korthikanti et al., 2022](https://arxiv.org/abs/2205.05198), section 4.1
    - [Rajbhandari et al., 2020](https://arxiv.org/abs/1910.02054), section 3.1
      (weights, gradients and moments)
"""

from transbeam.configs.schema.attention import (
    FullAttentionConfig,
    KernelAttentionConfig,
)
from transbeam.configs.schema.block import (
    GatedFeedForwardConfig,
    LayerNormConfig,
    NoFeedForwardConfig,
    ReZeroResidualConfig,
)
from transbeam.configs.schema.model import EncoderConfig, Model, StackConfig
from transbeam.configs.schema.objectives.language_modeling import (
    MaskedConfig,
    SentencePairsConfig,
)
from transbeam.configs.schema.objectives.objective import Objective, TextObjective
from transbeam.configs.schema.training import TrainingConfig
from transbeam.model.cost.attention import attention_cost, kernel_features
from transbeam.model.cost.parameters import scored_dim
from transbeam.model.cost.stacks import CostedStack, Lengths, model_stacks

FLOAT32, BFLOAT16 = 4, 2
# State per weight. Muon has two only for weights that Adam updates, so this is an upper
# bound. Adafactor has one number per row and column, which is negligible.
KEPT_BY_OPTIMIZER = {"adamw": 2, "adafactor": 0, "lion": 1, "muon": 2}
# Numbers that an activation stores besides its output: its input, unless it can be
# computed from the output. GELU's may be float32 (`transbeam.model.kernels.dense`).
KEPT_BY_ACTIVATION = {"gelu": 1, "gelu_tanh": 1, "relu": 0, "silu": 1}


# Vocabulary logits that exist at a time, as in `model/kernels/vocabulary_loss.py`.
MOST_SCORES = 2**24


def training_memory(
    parameters: int,
    activations: int,
    scores: int,
    training: TrainingConfig,
    *,
    trained: int | None = None,
    teacher: int = 0,
    pruned: int = 0,
) -> dict[str, int]:
    """Estimates the memory that training needs, in bytes.

    Args:
        parameters: Number of weights of the model, with its head and with adapters.
        activations: Bytes stored for the backward pass of a batch, or of a
            micro-batch.
        scores: Number of vocabulary logits of that batch or micro-batch, `tokens * V`.
        training: The `training` section of a run.
        trained: Number of trainable weights; None for all.
        teacher: Number of weights of a teacher.
        pruned: Number of weights in matrices that are pruned.

    Returns:
        Bytes by part, and `peak`, their sum: an upper bound, as gradients are allocated
        while activations are freed. Temporary buffers of single operations are not
        included.

    Example:
    >>> memory = training_memory(1_000, 500, 10, TrainingConfig(steps=100))
    >>> memory["optimizer"], memory["scores"], memory["peak"]
    (8000, 80, 16580)
    """
    if trained is None:
        trained = parameters
    in_half = compute_bytes(training) < FLOAT32
    numbers = KEPT_BY_OPTIMIZER[training.optimizer.kind]
    parts = {
        "weights": FLOAT32 * parameters,
        # The copy that matrix products of both passes read.
        "weights_in_half_precision": BFLOAT16 * parameters if in_half else 0,
        # With micro-batches, the accumulated ones and those of the current one.
        "gradients": FLOAT32 * trained * (2 if training.accumulation > 1 else 1),
        "optimizer": numbers * FLOAT32 * trained,
        "averages": 0 if training.ema_decay is None else FLOAT32 * trained,
        "teacher": FLOAT32 * teacher,
        "pruning_masks": pruned,  # a byte each
        "activations": activations,
        "scores": FLOAT32 * _scores_held(scores, training),
    }
    return {**parts, "peak": sum(parts.values())}


def _scores_held(scores: int, training: TrainingConfig) -> int:
    """Counts stored logits and softmax values: of one chunk, or all in distillation."""
    if training.distillation is not None:
        return 3 * scores
    return 2 * min(scores, MOST_SCORES)


def compute_bytes(training: TrainingConfig) -> int:
    """Bytes of a number in the compute dtype.

    Example:
    >>> compute_bytes(TrainingConfig(steps=100, precision="mixed_bfloat16"))
    2
    """
    return FLOAT32 if training.precision == "float32" else BFLOAT16


def kept_activations(
    config: Model,
    objective: Objective,
    lengths: Lengths,
    number: int = FLOAT32,
    *,
    rematerialize: bool = False,
) -> dict[str, int]:
    """Bytes stored for the backward pass, for one sequence or pair of sequences.

    Args:
        config: The `model` section of a run.
        objective: The `objective` section.
        lengths: Number of tokens, for the encoder and the decoder if there are both.
        number: Bytes of a number in the compute dtype.
        rematerialize: If true, blocks store only their inputs, and the activations of
            a single block exist at a time.

    Returns:
        Bytes by part.

    Example:
    >>> from transbeam.configs.schema.objectives.language_modeling import CausalConfig
    >>> from transbeam.configs.schema.model import DecoderConfig
    >>> tiny = DecoderConfig(num_layers=1, hidden_dim=8, dropout=0.0)
    >>> kept = kept_activations(tiny, CausalConfig(), Lengths(tokens=10))
    >>> kept["logits"]
    640
    """
    sides = model_stacks(config, lengths)
    parts = {"attention": 0, "probabilities": 0, "feedforward": 0, "norms": 0}
    for side in sides:
        layers = 1 if rematerialize else side.num_layers
        for name, size in _kept_by_block(side, number).items():
            parts[name] += layers * size
        if rematerialize:
            inputs = side.tokens * side.config.hidden_dim * number
            parts["block_inputs"] = (
                parts.get("block_inputs", 0) + side.num_layers * inputs
            )
        parts["norms"] += _kept_around(side, number)
        if side.config.embedding_dim is not None:
            # The input of the embedding projection.
            inputs = side.tokens * side.config.embedding_dim * number
            parts["embeddings"] = parts.get("embeddings", 0) + inputs
    scored = scored_tokens(config, objective, lengths)
    # The input of the logits, and its gradient in float32.
    width = scored_dim(config)
    parts["logits"] = scored * (number + FLOAT32) * width
    if isinstance(config, EncoderConfig):
        # BERT's head has a dense layer and a norm.
        inner = activation_bytes(config, number) + norm_bytes(config, number)
        parts["logits"] += scored * (number * config.hidden_dim + inner * width)
    elif config.tie_embeddings and config.embedding_dim is not None:
        # The input of the projection to a narrow tied embedding.
        parts["logits"] += scored * number * config.hidden_dim
    return parts


def scored_tokens(config: Model, objective: Objective, lengths: Lengths) -> int:
    """Number of tokens of a sequence with vocabulary logits."""
    if isinstance(objective, TextObjective):
        return model_stacks(config, lengths)[-1].tokens
    if isinstance(objective, MaskedConfig | SentencePairsConfig):
        return objective.predictions_per_record(lengths.tokens)
    return 0


def norm_bytes(config: StackConfig, number: int) -> int:
    """Bytes that a norm stores per element."""
    return number if isinstance(config.norm, LayerNormConfig) else 2 * FLOAT32


def activation_bytes(config: StackConfig, number: int) -> int:
    """Bytes that an activation stores per element besides its output."""
    name = config.head_activation
    each = FLOAT32 if name.startswith("gelu") else number
    return KEPT_BY_ACTIVATION[name] * each


def _kept_by_block(side: CostedStack, number: int) -> dict[str, int]:
    config, tokens = side.config, side.tokens
    width = tokens * config.hidden_dim
    # ReZero also stores the sub-layer's output, which it multiplies by a scale.
    joined = number if isinstance(config.residual, ReZeroResidualConfig) else 0
    attention = number * (width + tokens * (2 * side.queries + 2 * side.keys))
    scores = probabilities(side, number)
    sub_layers = 1 + config.has_feedforward
    if side.context:
        attention += number * (width + 2 * tokens * side.queries)
        attention += number * 2 * side.context * side.keys
        pairs = tokens * side.context * side.attention.num_heads
        scores += pairs * bytes_of_a_score(side, number)
        sub_layers += 1
    return {
        "attention": attention,
        "probabilities": scores,
        "feedforward": _kept_by_feedforward(side, number),
        "norms": sub_layers * (norm_bytes(config, number) + joined) * width,
    }


def _kept_by_feedforward(side: CostedStack, number: int) -> int:
    config, tokens, part = side.config, side.tokens, side.config.feedforward
    if isinstance(part, NoFeedForwardConfig):
        return 0
    inner = activation_bytes(config, number)
    inner += (3 if isinstance(part, GatedFeedForwardConfig) else 1) * number
    return number * tokens * config.hidden_dim + inner * tokens * part.intermediate_dim


def probabilities(side: CostedStack, number: int) -> int:
    """Bytes that one self-attention stores for its scores or features."""
    attention = side.attention
    head_dim = side.config.head_dim(attention)
    reached = attention_cost(attention, head_dim, side.tokens, causal=side.causal)
    scores = reached.scores * attention.num_heads
    return scores * bytes_of_a_score(side, number) + reached.kept * FLOAT32


def bytes_of_a_score(side: CostedStack, number: int) -> int:
    """Counts the bytes stored for each attention score.

    Full attention without dropout stores nothing: its probabilities are recomputed.
    """
    if side.attention.dropout:
        return FLOAT32 + number
    return 0 if isinstance(side.attention, FullAttentionConfig) else FLOAT32


def _kept_around(side: CostedStack, number: int) -> int:
    """Bytes stored by the norms outside of the blocks."""
    config = side.config
    width = config.has_embeddings_norm * config.table_dim
    width += (config.norm.placement == "pre") * config.hidden_dim
    return side.tokens * width * norm_bytes(config, number)


def cache_bytes(config: Model, number: int) -> dict[str, int]:
    """Bytes of the KV cache of generation, for one sequence.

    Args:
        config: The `model` section of a run; an encoder has no cache.
        number: Bytes of a number: 4 in float32, 2 in bfloat16.

    Returns:
        `per_token`, for each token of the decoder; `fixed`, independent of the length;
        `per_context_token`, for each token of the encoder; and `longest`, the total at
        `max_sequence_length`.

    Example:
    >>> from transbeam.configs.schema.model import DecoderConfig
    >>> gpt2 = DecoderConfig(
    ...     num_layers=12, hidden_dim=768, max_sequence_length=1024,
    ...     attention=FullAttentionConfig(num_heads=12),
    ... )
    >>> cache_bytes(gpt2, 4)["per_token"], cache_bytes(gpt2, 4)["longest"]
    (73728, 75497472)
    """
    longest = config.max_sequence_length
    side = model_stacks(config, Lengths(tokens=longest, decoder_tokens=longest))[-1]
    if not side.causal:
        return {}
    keys = number * side.num_layers * 2 * side.keys
    attention = side.attention
    cache = {
        "per_token": keys,
        "fixed": 0,
        "per_context_token": keys if side.context else 0,
    }
    if isinstance(attention, KernelAttentionConfig):
        features = kernel_features(attention, config.head_dim(attention))
        # Sums of values and of ones, and for softmax features the largest logarithm of
        # each.
        ones = 2 if attention.feature_map == "softmax" else 1
        sums = features * (side.keys + ones * attention.key_value_heads)
        cache.update(per_token=0, fixed=FLOAT32 * side.num_layers * sums)
    growing = cache["per_token"] + cache["per_context_token"]
    return {**cache, "longest": cache["fixed"] + longest * growing}
