"""Checks that this version supports a run's export, to servers and to phones.

All objectives and tokenizers can be trained and exported, except that image models with
an even number of channels cannot be exported; phones lack support for kernel attention
in generative models. An unsupported run is reported before the work starts, and by
`transbeam check`.
"""

from pathlib import Path

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.attention import KernelAttentionConfig
from transbeam.configs.schema.model import DecoderConfig, Seq2SeqModelConfig
from transbeam.configs.schema.objectives.language_modeling import CausalConfig
from transbeam.configs.schema.objectives.objective import (
    ClassObjective,
    ImageObjective,
    LabelSetObjective,
    SpanObjective,
    TextObjective,
)
from transbeam.configs.schema.objectives.supervised import (
    CompletionConfig,
    DialogueConfig,
)
from transbeam.configs.schema.objectives.traits import input_names
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.tokenizer import (
    ByteBPEConfig,
    PretrainedConfig,
    TokenizerConfig,
    UnigramConfig,
    WordPieceConfig,
)

# Who answers for models of which objective.
MEDIAPIPE_CLIENTS = {
    "classification": "TextClassifier",
    "masked": "TextEmbedder",
    "contrastive_pairs": "TextEmbedder",
}
CASED = "distinguishes upper and lower case, which MediaPipe does not"
PLAIN = "the plain TFLite file runs in LiteRT, with the ids made by the app"
# Objectives whose models map a single text to a single row of numbers.
_OF_A_TEXT = ("classification", "regression", "masked", "contrastive_pairs")
_BESIDE = (
    "Remove the key: the tokenizer in Kotlin, Swift and Python lies beside the "
    "plain file"
)


_OF_LITERT_LM = CausalConfig | CompletionConfig | DialogueConfig


def check_export(run: RunConfig) -> None:
    """Checks that a run's model can be exported.

    Raises:
        ConfigError: This version cannot export the model; the message names the
            unsupported key.
    """
    objective = run.objective
    if isinstance(objective, ImageObjective) and objective.channels % 2 == 0:
        raise ConfigError(
            f"objective.channels={objective.channels}: this version of Transbeam "
            "exports only models of grey images (1) and of colour (3)"
        )
    if isinstance(objective, TextObjective):
        assert isinstance(run.model, DecoderConfig | Seq2SeqModelConfig)
        _check_cache(run, run.model)
    _check_embedding(run)
    _check_fitted(run)
    for key in ("litert_lm", "tflite_text", "mediapipe"):
        if getattr(run.export, key) and not run.export.tflite:
            raise ConfigError(
                f"export.{key}=True is made of the files that export.tflite names, and "
                "that is empty. Name a variant there, such as float32, or remove the "
                "key"
            )
    if run.export.litert_lm:
        _check_litert_lm(run)
    if run.export.tflite_text:
        check_tflite_text(run)
    if run.export.mediapipe:
        check_mediapipe_task(run)
        _check_mediapipe_tokenizer(run.tokenizer)


def _check_fitted(run: RunConfig) -> None:
    """Checks that fitted numbers which an export needs belong to its objective."""
    objective = run.objective
    if run.export.fitted_temperature and not isinstance(objective, ClassObjective):
        raise ConfigError(
            f"export.fitted_temperature=True: objective.kind={objective.kind} has no "
            "classes whose probabilities could be calibrated; expected a kind of "
            "classification, or sentence_pairs. Remove the key"
        )
    has_thresholds = isinstance(objective, LabelSetObjective | SpanObjective)
    if run.export.fitted_thresholds and not has_thresholds:
        raise ConfigError(
            f"export.fitted_thresholds=True: objective.kind={objective.kind} decides "
            "by no threshold; expected multi_label_classification or span_qa. Remove "
            "the key"
        )


def _check_embedding(run: RunConfig) -> None:
    """Checks that embeddings are pooled from a token that has seen the whole text."""
    pooling = run.export.embedding_pooling
    is_decoder = isinstance(run.model, DecoderConfig)
    unsuited = ("first",) if is_decoder else ("last", "end_token")
    if pooling in unsuited:
        token = "first token sees no other" if is_decoder else "tokens all see the text"
        better = "last, end_token, mean or max" if is_decoder else "first, mean or max"
        raise ConfigError(
            f"export.embedding_pooling={pooling} does not go with model.kind="
            f"{run.model.kind}, whose {token}. Write {better}"
        )


def check_mediapipe_task(run: RunConfig) -> None:
    """Checks that MediaPipe has a client for the task and can read its labels.

    Raises:
        ConfigError: The objective is not in `MEDIAPIPE_CLIENTS`, the model is a
            decoder, or a label has more than one line.
    """
    kind = run.objective.kind
    if kind not in MEDIAPIPE_CLIENTS:
        raise ConfigError(
            f"objective.kind={kind}: MediaPipe Tasks has no client for it; it has "
            "TextClassifier, for objective.kind=classification, and TextEmbedder, for "
            "masked and contrastive_pairs. Remove `export.mediapipe: true`: "
            f"{PLAIN}"
        )
    if isinstance(run.model, DecoderConfig):
        raise ConfigError(
            "model.kind=decoder: MediaPipe puts [CLS] and [SEP] around texts, and a "
            f"decoder is trained on others. Remove `export.mediapipe: true`: {PLAIN}"
        )
    for label in getattr(run.objective, "labels", ()):
        if not {"\n", "\r"}.isdisjoint(label):
            raise ConfigError(
                f"objective.labels: {label!r} is of more than one line; expected one "
                "line each, as MediaPipe reads them from a file. Rename the label"
            )


def unsuited_to_mediapipe(kind: str, problem: str) -> ConfigError:
    """Makes the error for a vocabulary that MediaPipe would tokenize differently.

    Args:
        kind: `tokenizer.kind`.
        problem: The vocabulary's property that MediaPipe does not support.
    """
    return ConfigError(
        f"tokenizer.kind={kind}: the vocabulary {problem}; expected a WordPiece "
        "vocabulary with `lowercase: true`, or a unigram one with `specials: albert` "
        "and `normalization: nmt_nfkc_cf`. Train with one of these, or export no "
        f"MediaPipe file: {PLAIN}"
    )


def _check_mediapipe_tokenizer(tokenizer: TokenizerConfig) -> None:
    """Checks the tokenizer's settings, before there is a vocabulary.

    The pieces of the vocabulary are checked at export.
    """
    match tokenizer:
        case ByteBPEConfig():
            problem = "is of kind byte_bpe, which MediaPipe does not know"
        case WordPieceConfig(lowercase=False):
            problem = CASED
        case UnigramConfig(specials="t5"):
            problem = "does not frame texts, where MediaPipe puts [CLS] and [SEP]"
        case UnigramConfig(normalization="nmt_nfkc" | "nfkc" | "identity"):
            problem = CASED
        case _:
            return
    raise unsuited_to_mediapipe(tokenizer.kind, problem)


def check_tflite_text(run: RunConfig) -> None:
    """Checks, by the configuration alone, that a TFLite file of the run can take text.

    A pretrained tokenizer is checked later, when its files are read.

    Raises:
        ConfigError: The task reads more than one text, the tokenizer is not WordPiece,
            or no variant of `export.tflite` can contain a tokenizer.
    """
    if run.objective.kind not in _OF_A_TEXT:
        raise ConfigError(
            f"export.tflite_text=True: objective.kind={run.objective.kind} does "
            "not read one text at a time; expected classification, regression, or "
            f"masked or contrastive_pairs, whose files embed. {_BESIDE}"
        )
    if not isinstance(run.tokenizer, WordPieceConfig | PretrainedConfig):
        raise no_wordpiece(f"tokenizer.kind={run.tokenizer.kind}")
    if set(run.export.tflite) == {"int8"}:
        raise ConfigError(
            "export.tflite_text=True: export.tflite names int8 alone, and the "
            "interpreter that int8 is calibrated in has no ops of a tokenizer. Name "
            f"another variant there, such as dynamic_int8. {_BESIDE}"
        )


def no_wordpiece(tokenizer: str) -> ConfigError:
    """Makes the error for a tokenizer that no TFLite file can contain."""
    return ConfigError(
        f"export.tflite_text=True: {tokenizer} has no ops that TFLite files may hold; "
        f"expected a WordPiece. {_BESIDE}"
    )


def _check_cache(run: RunConfig, model: DecoderConfig | Seq2SeqModelConfig) -> None:
    """Checks that a generative model for phones has a cache with a slot per token."""
    if not run.export.tflite:
        return
    key, attention = "attention", model.attention
    if isinstance(model, Seq2SeqModelConfig) and model.decoder_attention is not None:
        key, attention = "decoder_attention", model.decoder_attention
    if isinstance(attention, KernelAttentionConfig):
        raise ConfigError(
            f"model.{key}.kind=kernel: such a decoder keeps sums of its tokens, and "
            "the cache of a TFLite file has a slot for each token. Write `kind: "
            "sliding_window`, whose cost also grows with the length alone, or ask for "
            "no such file with `export: {tflite: []}`"
        )
    longest, cache = model.max_sequence_length, run.export.tflite_cache
    if cache is not None and cache > longest:
        raise ConfigError(
            f"export.tflite_cache={cache} is more than "
            f"model.max_sequence_length={longest}, the longest text of the model. Make "
            "it smaller, or leave it out"
        )


def _check_litert_lm(run: RunConfig) -> None:
    """Checks that LiteRT-LM runs the model: a decoder, of one text for each message."""
    kind = run.objective.kind
    if not isinstance(run.objective, _OF_LITERT_LM):
        raise ConfigError(
            f"export.litert_lm=True does not go with objective.kind={kind}: LiteRT-LM "
            "runs decoders that read from left to right, which `causal`, `completion` "
            "and `dialogue` train. Take the key away; the TFLite file alone is written "
            "of all that write"
        )
    fields = input_names(run.objective)
    if len(fields) > 1:
        raise ConfigError(
            "export.litert_lm=True: LiteRT-LM has one text for each message, and "
            f"objective.prompt has the fields {' and '.join(fields)}. Write a template "
            "of one field, or take the key away"
        )


def check_tokenizer(run: RunConfig) -> None:
    """Checks that a pretrained tokenizer exists.

    Raises:
        ConfigError: The tokenizer does not exist; the message names the key.
    """
    tokenizer = run.tokenizer
    if isinstance(tokenizer, PretrainedConfig) and not Path(tokenizer.path).exists():
        raise ConfigError(
            f"tokenizer.path={tokenizer.path}: there is no such file or folder, and "
            "without a tokenizer no records can be made. Put the tokenizer's files "
            "there that the model was trained with, or name another place"
        )
