"""A summary of a configuration in a few lines."""

from transbeam.configs.schema.model import Model, Seq2SeqModelConfig
from transbeam.configs.schema.objectives.objective import (
    EmbeddingObjective,
    ImageObjective,
)
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.tokenizer import PretrainedConfig


def summary(config: RunConfig) -> str:
    """One line each on data, tokenizer, objective, model, training and export."""
    objective = config.objective
    rows = {"data": _data(config), "tokenizer": _tokenizer(config)}
    if isinstance(objective, ImageObjective):
        del rows["tokenizer"]
    rows |= {
        "objective": objective.kind,
        "model": _model(config.model),
        "training": _training(config),
        "export": ", ".join(["saved_model", *config.export.tflite]),
    }
    return "\n".join(f"  {name:<10} {text}" for name, text in rows.items())


def _training(config: RunConfig) -> str:
    """Example: `100 steps of 32 records: 102,400 tokens`."""
    training, objective = config.training, config.objective
    batches = f"{training.batch_size:,} records"
    if training.steps is None:
        return (
            f"{training.epochs:g} epochs in steps of {batches}; the records that "
            "`transbeam data` makes decide how many steps"
        )
    records = training.steps * training.batch_size
    tokens = records * config.data.sequence_length
    if isinstance(objective, EmbeddingObjective):
        tokens *= objective.texts_per_record
    amount = f"{tokens:,} tokens"
    if isinstance(objective, ImageObjective):
        amount = f"{records:,} images"
    return f"{training.steps:,} steps of {batches}: {amount}"


def _data(config: RunConfig) -> str:
    data, objective = config.data, config.objective
    records = f"records of {data.sequence_length:,} tokens"
    if isinstance(objective, ImageObjective):
        records = f"records of {objective.image_size} × {objective.image_size} pixels"
    held_out = data.validation_source
    validated = f", validated on {held_out.kind}" if held_out else ""
    return f"{data.source.kind} in {records}{validated}"


def _model(model: Model) -> str:
    """Example: `decoder of 12 blocks, 768 wide, 12 heads; attention full, ...`."""
    blocks, attention = f"{model.num_layers}", model.attention
    kinds = attention.kind
    if isinstance(model, Seq2SeqModelConfig):
        blocks += f" and {model.decoder_layers}"
        if model.decoder_attention is not None:
            kinds += f" and {model.decoder_attention.kind}"
    heads = f"{attention.num_heads} heads"
    if attention.key_value_heads < attention.num_heads:
        heads += f" on {attention.key_value_heads} of keys and values"
    return (
        f"{model.kind} of {blocks} blocks, {model.hidden_dim:,} wide, {heads}; "
        f"attention {kinds}, position {model.position.kind}"
    )


def _tokenizer(config: RunConfig) -> str:
    tokenizer = config.tokenizer
    if isinstance(tokenizer, PretrainedConfig):
        return f"the one in {tokenizer.path}"
    return f"{tokenizer.kind}, {tokenizer.vocabulary_size:,} pieces"
