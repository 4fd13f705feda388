"""`evaluation`: test set, generation settings and scores of an evaluation."""

from dataclasses import dataclass
from typing import Literal

from transbeam.configs.base.fields import check_options, option
from transbeam.configs.schema.generation import (
    BeamConfig,
    ContrastiveConfig,
    GreedyConfig,
    SampleConfig,
)
from transbeam.configs.schema.sources import Source, check_weights

TextScore = Literal["bleu", "bleu_lowercase", "chrf", "rouge", "exact_match"]


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """Evaluation of a trained model; nothing here changes its weights."""

    test: Source | None = option(
        "Documents that are kept for the end: `transbeam evaluate --test` reads them "
        "in place of the validation split, and drops none by the rules of "
        "`data.cleaning`.",
        default=None,
    )
    method: GreedyConfig | SampleConfig | BeamConfig | ContrastiveConfig = option(
        "How answers are written, for seq2seq and text_to_text.", default=GreedyConfig
    )
    max_new_tokens: int | None = option(
        "New tokens of a text at most, where a client says nothing: never more than "
        "its prompt leaves room for. Left out: objective.decoder_length, or 64 where a "
        "text goes on from its prompt (causal, prefix).",
        default=None,
        minimum=1,
    )
    text_scores: tuple[TextScore, ...] = option(
        "What answers are scored by, beside the reference texts: BLEU (sacrebleu, 13a) "
        "with and without case, chrF, ROUGE for summaries in English, the share that "
        "is right to the letter. None: no answers are written.",
        default=("bleu", "chrf"),
    )
    answers: int | None = option(
        "For how many documents answers are written, the first ones. Left out: all.",
        default=None,
        minimum=1,
    )
    max_answer_length: int = option(
        "Tokens of an answer at most, for span_qa.", default=30, minimum=1
    )
    strict_entities: bool = option(
        "Count an entity only where its tags are as the scheme wants them, as "
        "seqeval's strict mode does: in IOB2 a B and the I of its type behind it; "
        "where tags close an entity, closed by one. Otherwise, as conlleval does, an I "
        "alone is an entity too. Exported taggers give the same entities.",
        default=False,
    )
    errors: int = option(
        "How many of the worst examples are written down.", default=200, minimum=0
    )

    def __post_init__(self) -> None:
        check_options(self)
        check_weights("test", self.test)
