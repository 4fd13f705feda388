"""Requirements of an objective: document fields and special pieces.

A source that lacks a required field, or a tokenizer to be trained that will lack a
required piece, is reported before anything is read.
"""

from collections.abc import Iterator
from typing import assert_never

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.model import DecoderConfig
from transbeam.configs.schema.objectives.language_modeling import SpanCorruptionConfig
from transbeam.configs.schema.objectives.objective import (
    EmbeddingObjective,
    Objective,
    SpanObjective,
    VectorObjective,
)
from transbeam.configs.schema.objectives.supervised import DialogueConfig
from transbeam.configs.schema.objectives.traits import fields_needed, traits
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.sources import (
    ArraysSourceConfig,
    ImagesSourceConfig,
    MixtureSourceConfig,
    PythonDocsSourceConfig,
    SingleSource,
    Source,
    TextSourceConfig,
    WarcSourceConfig,
    WikipediaSourceConfig,
    ZipSourceConfig,
)
from transbeam.configs.schema.table_sources import (
    ConllSourceConfig,
    ConlluSourceConfig,
    CsvSourceConfig,
    JsonlSourceConfig,
    LabeledLinesSourceConfig,
    ParallelSourceConfig,
    ParquetSourceConfig,
    SquadSourceConfig,
    TFRecordSourceConfig,
    XmlSourceConfig,
)
from transbeam.configs.schema.tokenizer import (
    ByteBPEConfig,
    PretrainedConfig,
    TokenizerConfig,
    UnigramConfig,
    WordPieceConfig,
)

_TEXT = ("text",)
_LABELLED = ("text", "label")
# Keys of `columns` that name no field that an objective needs.
_NO_FIELDS = ("label_names", "references", "where")
_FRAME = ("begin", "end")
PURPOSES = {
    "begin": "stands before a text",
    "end": "stands after a text",
    "mask": "hides a token",
}


def source_fields(source: SingleSource) -> tuple[str, ...]:
    """The fields that the documents of a source have.

    Example:
    >>> source_fields(TextSourceConfig(path="a.txt"))
    ('text',)
    """
    match source:
        case (
            TextSourceConfig()
            | ZipSourceConfig()
            | WikipediaSourceConfig()
            | WarcSourceConfig()
        ):
            return _TEXT
        case PythonDocsSourceConfig():
            summaries = source.examples == "summaries"
            return ("text", "target_text") if summaries else _TEXT
        case ImagesSourceConfig() | ArraysSourceConfig():
            return ("image", "label")
        case ParallelSourceConfig():
            return ("text", "target_text")
        case LabeledLinesSourceConfig():
            return _LABELLED
        case ConllSourceConfig() | ConlluSourceConfig():
            return ("text", "words", "tags")
        case SquadSourceConfig():
            answer = "answers" if source.answers == "spans" else "target_text"
            return ("text", "second_text", answer)
        case (
            CsvSourceConfig()
            | JsonlSourceConfig()
            | ParquetSourceConfig()
            | TFRecordSourceConfig()
            | XmlSourceConfig()
        ):
            columns = vars(source.columns)
            return tuple(
                name
                for name, column in columns.items()
                if column is not None and name not in _NO_FIELDS
            )
    assert_never(source)


def gives_field(source: Source | None, name: str) -> bool:
    """Returns whether the documents of a source, or of a part of it, have a field.

    Example:
    >>> gives_field(TextSourceConfig(path="a.txt"), "label")
    False
    """
    return any(name in source_fields(part) for part in _parts(source))


def check_needs(run: RunConfig) -> None:
    """Checks that a run's source and tokenizer fit its objective.

    Raises:
        ConfigError: The documents of a source lack a field that the objective needs, or
            the tokenizer to be trained will lack a special piece or a chat template;
            the message suggests a remedy.
    """
    _check_fields(run)
    _check_pieces(run)
    _check_chat_template(run)


def _check_fields(run: RunConfig) -> None:
    needed = fields_needed(run.objective)
    sources = {
        "data.source": run.data.source,
        "data.validation_source": run.data.validation_source,
        "evaluation.test": run.evaluation.test,
    }
    for key, given in sources.items():
        # Hard negatives may be missing: one part of a mixture that has them is enough.
        in_any = {field for source in _parts(given) for field in source_fields(source)}
        for source in _parts(given):
            _check_negatives(run.objective, source, key)
            fields = {*source_fields(source), *({"negative_text"} & in_any)}
            if isinstance(run.objective, SpanObjective) and "target_text" in fields:
                fields.add("answers")  # the closest run of the text
            missing = [field for field in needed if field not in fields]
            if not missing:
                continue
            if hasattr(source, "columns") and "image" not in missing:
                named = ("target_text" if n == "answers" else n for n in missing)
                example = ", ".join(f"{name}: COLUMN" for name in named)
                remedy = f"Name its column: {key}.columns={{{example}}}"
            else:
                remedy = "Take a source whose documents have it, or another objective"
            raise ConfigError(
                f"objective.kind={run.objective.kind} needs {' and '.join(missing)} of "
                f"each document, and {key}.kind={source.kind} as configured gives "
                f"{' and '.join(source_fields(source))} alone. {remedy}"
            )


def _check_negatives(objective: Objective, source: SingleSource, key: str) -> None:
    """Rejects a column of hard negatives that the objective would not read."""
    if not isinstance(objective, EmbeddingObjective) or objective.hard_negatives:
        return
    if "negative_text" in source_fields(source):
        raise ConfigError(
            f"{key}.columns.negative_text is read only with "
            "objective.hard_negatives=true, and that is false. Set it, or remove the "
            "column"
        )


def _parts(source: Source | None) -> Iterator[SingleSource]:
    if isinstance(source, MixtureSourceConfig):
        yield from (part.source for part in source.parts)
    elif source is not None:
        yield source


def pieces_needed(run: RunConfig) -> tuple[str, ...]:
    """The special pieces that a run requires, by the names of `SpecialIds`.

    A decoder's texts need no begin token. Sentinels are not included: their number is
    `SpanCorruptionConfig.num_sentinels`.
    """
    if frames_texts_for_decoder(run):
        return ("end",)
    return traits(run.objective).pieces


def frames_texts_for_decoder(run: RunConfig) -> bool:
    """Returns whether records of an encoder's objective are framed for a decoder.

    Example:
    >>> from transbeam.configs.schema.data import DataConfig
    >>> from transbeam.configs.schema.objectives.supervised import RegressionConfig
    >>> data = DataConfig(source=TextSourceConfig(path="corpus.txt"))
    >>> run = RunConfig(name="gpt", data=data, objective=RegressionConfig())
    >>> frames_texts_for_decoder(run)
    False
    """
    is_decoder = isinstance(run.model, DecoderConfig)
    return is_decoder and "encoder" in traits(run.objective).models


def ends_with_end_token(run: RunConfig) -> bool:
    """Returns whether an end token is added to a decoder's texts, to be pooled from."""
    if not isinstance(run.model, DecoderConfig):
        return False
    is_pooled = isinstance(run.objective, VectorObjective)
    return is_pooled and run.model.text_pooler.kind == "end_token"


def known_special_pieces(tokenizer: TokenizerConfig) -> tuple[str, ...] | None:
    """The special pieces a tokenizer will have; None if they depend on its files."""
    match tokenizer:
        case WordPieceConfig():
            return ("begin", "end", "mask")
        case ByteBPEConfig():
            roberta = tokenizer.specials == "roberta"
            return ("begin", "end", "mask") if roberta else _FRAME
        case UnigramConfig():
            albert = tokenizer.specials == "albert"
            return ("begin", "end", "mask") if albert else ("end",)
        case PretrainedConfig():
            return None
    assert_never(tokenizer)


def _check_pieces(run: RunConfig) -> None:
    given = known_special_pieces(run.tokenizer)
    if given is None:
        return
    for piece in pieces_needed(run):
        if piece not in given:
            raise missing_piece(run.objective, run.tokenizer, piece)
    if isinstance(run.objective, SpanCorruptionConfig):
        there = run.tokenizer.num_sentinels
        check_sentinels(run.objective, run.data.sequence_length, there)


def _check_chat_template(run: RunConfig) -> None:
    objective = run.objective
    is_trained = not isinstance(run.tokenizer, PretrainedConfig)
    if not isinstance(objective, DialogueConfig) or not is_trained:
        return
    if objective.chat_template is None:
        raise ConfigError(
            "objective.kind=dialogue needs a chat template, and the tokenizer of "
            f"tokenizer.kind={run.tokenizer.kind} that is trained has none. Name one: "
            "objective.chat_template=plain, or Jinja"
        )
    if objective.chat_template == "chatml":
        raise ConfigError(
            "objective.chat_template=chatml writes <|im_start|>, which is no piece of "
            "a tokenizer that is trained. Write plain, or take a pretrained tokenizer "
            "that has it"
        )


def missing_piece(
    objective: Objective, tokenizer: TokenizerConfig, piece: str
) -> ConfigError:
    """Makes the error for a special piece that a tokenizer lacks."""
    return ConfigError(
        f"objective.kind={objective.kind} needs a piece that {PURPOSES[piece]}, and "
        f"the tokenizer of tokenizer.kind={tokenizer.kind} has none. Choose special "
        "pieces with one (tokenizer.kind=wordpiece has it), or another objective"
    )


def check_sentinels(
    objective: SpanCorruptionConfig, sequence_length: int, there: int
) -> None:
    """Checks that there are enough sentinels for the spans of a text.

    Raises:
        ConfigError: There are too few sentinels; the message has the required number.
    """
    count = objective.num_sentinels(sequence_length)
    if there < count:
        raise ConfigError(
            f"objective.kind=span_corruption needs {count} sentinel pieces for "
            f"data.sequence_length={sequence_length}, and the tokenizer has {there}. "
            f"Set tokenizer.num_sentinels={count} or more, or "
            "objective.mean_noise_span_length higher"
        )
