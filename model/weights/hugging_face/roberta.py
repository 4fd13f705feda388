"""RoBERTa in Hugging Face's format (Liu et al., 2019): BERT with other heads."""

from collections.abc import Container
from typing import Any

from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.configs.schema.objectives.supervised import (
    SpanQAConfig,
    TokenClassificationConfig,
)
from transbeam.model.weights.checkpoints.hf_config import HFConfig
from transbeam.model.weights.checkpoints.model_family import Description, Family
from transbeam.model.weights.checkpoints.tensor_transforms import VOCABULARY
from transbeam.model.weights.checkpoints.weight_mapping import MappingRow, dense, norm
from transbeam.model.weights.hugging_face.bert import (
    BODY,
    OTHER_HEADS,
    read_encoder,
    write_encoder,
)
from transbeam.model.weights.hugging_face.heads import (
    Heads,
    is_classifier,
    is_estimator,
    sequence_head,
    write_objective,
)

ROWS = (
    *BODY,
    *dense("head_dense", "lm_head.dense", "head"),
    *norm("head_norm", "lm_head.layer_norm", "head"),
    MappingRow("head_bias/bias", "lm_head.bias", VOCABULARY, "head"),
    *dense("classifier", "classifier.out_proj", "head"),
    *dense("regressor", "classifier.out_proj", "head"),
    *OTHER_HEADS,
)
HEADS: Heads = {
    "RobertaModel": lambda labels: None,
    "RobertaForMaskedLM": lambda labels: MaskedConfig(),
    "RobertaForSequenceClassification": sequence_head,
    "RobertaForTokenClassification": lambda labels: TokenClassificationConfig(
        labels=labels
    ),
    "RobertaForQuestionAnswering": lambda labels: SpanQAConfig(),
}


def read(settings: HFConfig, names: Container[str]) -> Description:
    """Reads `config.json`. Position 0's row follows the padding id's row."""
    offset = settings.integer("pad_token_id", 1, minimum=0) + 1
    is_classifier = "classifier.dense.weight" in names
    pooled = {"pooler.dense.weight"} if is_classifier else names
    return read_encoder(settings, pooled, HEADS, position_offset=offset, num_segments=1)


def write(description: Description) -> dict[str, Any]:
    """Writes `config.json`."""
    offset = getattr(description.config.position, "offset", 0)
    return {
        "model_type": "roberta",
        "pad_token_id": offset - 1,
        "bos_token_id": 0,
        "eos_token_id": 2,
        **write_encoder(description),
        **write_objective(description.objective, HEADS),
    }


def rows(description: Description) -> tuple[MappingRow, ...]:
    """The rows of the weight mapping table, which depend on the head."""
    # Our pooler is the first layer of their classifier; their own pooler belongs to a
    # model without a head.
    objective = description.objective
    if is_classifier(objective) or is_estimator(objective):
        return (*ROWS, *dense("pooler", "classifier.dense", "head"))
    return (*ROWS, *dense("pooler", "pooler.dense", "pooler"))


ROBERTA = Family(
    model_type="roberta",
    prefix="roberta.",
    rows=rows,
    read=read,
    write=write,
    copies={
        "lm_head.decoder.weight": "embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    },
    ignored=r"^embeddings\.(position_ids|token_type_ids)$",
)
