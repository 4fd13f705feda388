"""The cost of a run's model: all counts together."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.adaptation import AllWeightsConfig
from transbeam.configs.schema.attention import Attention, FullAttentionConfig
from transbeam.configs.schema.model import EncoderConfig
from transbeam.configs.schema.objectives.objective import TextObjective
from transbeam.configs.schema.run import RunConfig
from transbeam.model.base.weight_paths import select_prunable
from transbeam.model.cost.attention import attention_cost
from transbeam.model.cost.flop_count import PARTS, Work
from transbeam.model.cost.flops import count_work
from transbeam.model.cost.memory import (
    BFLOAT16,
    FLOAT32,
    cache_bytes,
    compute_bytes,
    kept_activations,
    scored_tokens,
    training_memory,
)
from transbeam.model.cost.parameters import (
    TrainedParameters,
    as_trained,
    count_head,
    count_numbers,
    count_parameters,
    count_trained,
    scored_rows,
)
from transbeam.model.cost.stacks import (
    CostedStack,
    Lengths,
    model_stacks,
    record_lengths,
    sequences_per_record,
)
from transbeam.model.cost.vocabulary_size import count_pieces
from transbeam.model.cost.weight_shapes import Shapes, backbone_shapes, head_shapes

LENGTHS = (128, 256, 512, 1_024, 2_048, 4_096, 8_192, 16_384)


def count_cost(
    run: RunConfig,
    *,
    length: int | None = None,
    batch_size: int | None = None,
    vocabulary_size: int | None = None,
) -> dict[str, Any]:
    """Counts parameters, FLOPs and memory of a run's model without building it.

    Args:
        run: The run.
        length: Number of tokens of a sequence; None for the run's record length.
        batch_size: Number of sequences of a batch; None for those of
            `training.batch_size` records.
        vocabulary_size: Number of tokens in the vocabulary; None for the vocabulary
            of the run's tokenizer.

    Returns:
        The output of `transbeam cost --json`. Memory is in bytes.

    Raises:
        ConfigError: The length exceeds the model's maximum, the tokenizer does not
            exist, or a vocabulary is given for images.
        ArtifactError: A tokenizer's file is damaged.
    """
    lengths = record_lengths(run, length)
    records = run.training.batch_size
    batch_size = batch_size or records * sequences_per_record(run.objective)
    vocabulary_size = find_vocabulary_size(run, vocabulary_size)
    model = as_trained(run.model, run.objective)
    parameters = _parameters(run, vocabulary_size)
    work = count_work(model, run.objective, vocabulary_size, lengths)
    kept = kept_activations(
        model,
        run.objective,
        lengths,
        compute_bytes(run.training),
        rematerialize=run.training.rematerialize,
    )
    at_once = -(-batch_size // run.training.accumulation)
    scored = scored_tokens(model, run.objective, lengths)
    writes = isinstance(run.objective, TextObjective)
    return {
        "name": run.name,
        "kind": model.kind,
        "vocabulary_size": vocabulary_size,
        "length": asdict(lengths),
        "batch_size": batch_size,
        "parameters": parameters,
        "flops": _flops(work, lengths),
        "memory": {
            "training": training_memory(
                parameters["total_with_heads"] + parameters["adapters"],
                at_once * sum(kept.values()),
                at_once * scored * scored_rows(model, vocabulary_size),
                run.training,
                trained=parameters["trained"],
                teacher=_teacher_parameters(run, vocabulary_size),
                pruned=_pruned_parameters(run, vocabulary_size),
            ),
            "activations_per_sequence": kept,
            "cache": {
                name: cache_bytes(model, number) if writes else {}
                for name, number in (("float32", FLOAT32), ("bfloat16", BFLOAT16))
            },
        },
        "attention": _attention_by_length(model_stacks(model, lengths)[0]),
    }


def find_vocabulary_size(run: RunConfig, given: int | None = None) -> int:
    """Size of the vocabulary of a run's tokenizer; 0 for images.

    Args:
        run: The run.
        given: A vocabulary size to use instead of the tokenizer's.

    Raises:
        ConfigError: The tokenizer does not exist, or a vocabulary is given for images.
        ArtifactError: The tokenizer's file is damaged.
    """
    if not isinstance(run.model, EncoderConfig) or run.model.patches is None:
        return count_pieces(run.tokenizer) if given is None else given
    if given is not None:
        raise ConfigError(
            f"vocabulary_size={given}: the model reads images (model.patches), which "
            "have no vocabulary. Leave it out"
        )
    return 0


def _parameters(run: RunConfig, vocabulary_size: int) -> dict[str, Any]:
    parts = count_parameters(run.model, vocabulary_size, run.objective)
    heads = count_head(run.model, run.objective, vocabulary_size)
    all_weights = _total(run, vocabulary_size)
    trained = TrainedParameters(all_weights)
    if not isinstance(run.training.adaptation, AllWeightsConfig):
        trained = count_trained(_shapes(run, vocabulary_size), run.training.adaptation)
    layers = sum(count for name, count in parts.items() if "_layers/" in name)
    after = ("final_norm", "pooling", "pooler", "logits", "logits_projection")
    last = sum(count for name, count in parts.items() if name.endswith(after))
    total = sum(parts.values())
    return {
        "total": total,
        "embeddings": total - layers - last,
        "layers": layers,
        "after_layers": last,
        "parts": parts,
        "heads": heads,
        "total_with_heads": all_weights,
        "trained": trained.numbers,
        "adapters": trained.added,
    }


def _total(run: RunConfig, vocabulary_size: int) -> int:
    """Number of weights of the model that a run trains, with its head."""
    model = as_trained(run.model, run.objective)
    parts = count_parameters(model, vocabulary_size, run.objective)
    heads = count_head(run.model, run.objective, vocabulary_size)
    return sum(parts.values()) + sum(heads.values())


def _shapes(run: RunConfig, vocabulary_size: int) -> Shapes:
    """Shapes of all weights of the model that a run trains."""
    model = as_trained(run.model, run.objective)
    backbone = backbone_shapes(model, vocabulary_size, run.objective)
    return backbone | head_shapes(run.model, run.objective, vocabulary_size)


def _pruned_parameters(run: RunConfig, vocabulary_size: int) -> int:
    """Number of weights in matrices that `training.pruning` prunes."""
    if run.training.pruning is None:
        return 0
    shapes = _shapes(run, vocabulary_size)
    try:
        chosen = select_prunable(shapes, run.training.pruning.targets)
    except ConfigError as error:
        raise ConfigError(f"training.pruning.targets: {error}") from None
    return count_numbers(shapes, chosen)


def _teacher_parameters(run: RunConfig, vocabulary_size: int) -> int:
    """Number of weights of the teacher, from its folder; 0 if it does not exist."""
    if run.training.distillation is None:
        return 0
    folder = Path(run.training.distillation.teacher)
    for file in (folder / "training/run.yaml", folder / "run.yaml"):
        if file.is_file():
            return _total(load_run(file, with_model=True), vocabulary_size)
    return 0


def _flops(work: Work, lengths: Lengths) -> dict[str, Any]:
    per_sequence = {
        way: {**{part: counts[part] for part in PARTS}, "total": counts.total()}
        for way, counts in (("forward", work.forward), ("backward", work.backward))
    }
    per_token = {
        way: {part: count / lengths.together for part, count in counts.items()}
        for way, counts in per_sequence.items()
    }
    return {"per_sequence": per_sequence, "per_token": per_token}


def _attention_by_length(side: CostedStack) -> list[dict[str, int]]:
    """Tabulates the attention's cost by length, next to that of full attention."""
    return [
        {
            "length": length,
            **_of_all_layers(side, side.attention, length, ""),
            **_of_all_layers(side, FullAttentionConfig(), length, "full_"),
        }
        for length in LENGTHS
    ]


def _of_all_layers(
    side: CostedStack, kind: Attention, length: int, prefix: str
) -> dict[str, int]:
    """Forward FLOPs and bytes of float32 scores, of one sequence."""
    attention, head_dim = side.attention, side.config.head_dim(side.attention)
    done = attention_cost(kind, head_dim, length, causal=side.causal)
    multiply_adds = done.multiply_adds(attention, head_dim) + done.drawn_products
    numbers = done.scores * attention.num_heads + done.kept
    return {
        f"{prefix}flops": 2 * side.num_layers * multiply_adds,
        f"{prefix}score_bytes": FLOAT32 * side.num_layers * numbers,
    }
