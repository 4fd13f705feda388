"""`evaluation`: test set, generation settings and metrics."""

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

TextScore = Literal["bleu", "bleu_lowercase", "chrf", "rouge", "exact_match", "f1"]


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """Evaluation of a trained model, without effect on its weights."""

    test: Source | None = None
    """Test set: `transbeam evaluate --test` evaluates on these documents instead of the
    validation split. The filters of `data.cleaning` drop none of them.
    """

    method: GreedyConfig | SampleConfig | BeamConfig | ContrastiveConfig = option(
        GreedyConfig
    )
    """Decoding method, for seq2seq, text_to_text, completion and dialogue."""

    max_new_tokens: int | None = option(None, minimum=1)
    """Default maximum number of generated tokens, used where a request sets none;
    limited by the room that the prompt leaves. Left out: objective.decoder_length, or
    64 for decoders. A prompt of completion is cut to leave room for as many, at most
    half of model.max_sequence_length.
    """

    text_scores: tuple[TextScore, ...] = ("bleu", "chrf")
    """Metrics of generated texts, and of the extracts of span_qa where answers are free
    texts, against the references: BLEU (sacrebleu, 13a) with and without case, chrF,
    ROUGE for English summaries, exact match, and F1 of the shared words, without case,
    punctuation and English articles (SQuAD). Empty: no texts are generated or scored.
    """

    answers: int | None = option(None, minimum=1)
    """Number of documents for which texts are generated, from the first. Left out: all.
    """

    max_answer_length: int = option(30, minimum=1)
    """Maximum length of an answer in tokens, for span_qa."""

    strict_entities: bool = False
    """Count only entities whose tags follow the tagging scheme, as seqeval's strict
    mode does: in IOB2 a B followed by I tags of the same type; in schemes with closing
    tags, ended by one. false: an I without a B also begins an entity, as in conlleval.
    Exported taggers use the same rule.
    """

    errors: int = option(200, minimum=0)
    """Number of worst predictions that are saved for error analysis."""

    def __post_init__(self) -> None:
        check_options(self)
        check_weights("test", self.test)
