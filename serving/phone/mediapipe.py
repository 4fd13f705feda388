"""Files for MediaPipe Tasks: an app passes a text and gets classes or a vector.

`TextClassifier` and `TextEmbedder` make the ids themselves, of a vocabulary inside the
file. They take a file with one signature and three inputs, whether or not the model
tells segments apart. `serving.phone.reading` says how they read a text; who trained a
model that reads otherwise is told so here, not by wrong answers on the phone.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from configs.errors import ConfigError
from configs.run import RunConfig
from configs.run_folder import write_atomically, writing
from configs.version import VERSION
from pipeline.tokenizers.artifact import TokenizerModel, read_tokenizer
from pipeline.tokenizers.sentence_piece_model import SentencePieceModel
from pipeline.tokenizers.vocabulary import CLS, CONTINUATION, SEP
from pipeline.tokenizers.wordpiece_model import WordPieceModel
from serving.encoding import TextEncoder
from serving.phone.metadata import TextModelMetadata, with_metadata
from serving.phone.reading import MediaPipeReading
from serving.tasks.classification import Classification
from serving.tasks.interface import Endpoint, ids_spec
from serving.tasks.masked import FillMask
from serving.tflite import convert_endpoints
from serving.trained import Trained

# Who answers for models of which objective.
CLIENTS = {"classification": "TextClassifier", "masked": "TextEmbedder"}

_INPUTS = {  # the names that the clients look for
    "ids": "The pieces of the text, [CLS] before them and [SEP] after them.",
    "mask": "1 where there is a piece, 0 behind the text.",
    "segment_ids": "All 0.",
}
_PLAIN = "The plain TFLite file runs in LiteRT, with the ids made by the app"
_SUITED = (
    "a WordPiece vocabulary with `lowercase: true`, or a unigram one with `specials: "
    "albert` and `normalization: nmt_nfkc_cf`"
)
# Of the words of a vocabulary, with a first letter that has an upper case which the
# client does not fold: 0.6% in BERT's English one, 1% in one of German texts, 4% of
# French ones, but most in Greek or Cyrillic, where each sentence begins with one.
_MOST_CASED = 0.1


def file_name(variant: str) -> str:
    """What the file of a variant is called.

    Example:
    >>> file_name("float32")
    'mediapipe_float32.tflite'
    """
    return f"mediapipe_{variant}.tflite"


def write_mediapipe(trained: Trained, tokenizer: Path, folder: Path) -> dict[str, Path]:
    """Writes the variants that `export.tflite` names, for MediaPipe's client.

    Args:
        trained: What to export.
        tokenizer: The run's tokenizer folder, whose vocabulary goes into the files.
        folder: Made if it is not there.

    Returns:
        The file of each variant.

    Raises:
        ConfigError: MediaPipe has no client for the task, or would read the texts
            otherwise than the model has learned to.
        ArtifactError: The disk refuses.
    """
    config = trained.config
    model = read_tokenizer(tokenizer).model
    check_mediapipe(config, model)
    check_examples(trained, config.export.examples)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    endpoint = {CLIENTS[config.objective.kind]: mediapipe_endpoint(trained)}
    metadata = _metadata(config, model)
    files = {}
    for variant, content in convert_endpoints(
        endpoint, config.export.tflite, folder
    ).items():
        files[variant] = folder / file_name(variant)
        write_atomically(files[variant], with_metadata(content, metadata))
    return files


def mediapipe_endpoint(trained: Trained) -> Endpoint:
    """The one signature: `ids`, `mask` and `segment_ids`, int32 (1, S) each.

    `S` is `model.max_sequence_length`: the clients cut a text there, as we do, and
    would not cut it at all if the length were left open. They fill up with 0, whatever
    `[PAD]` is: what stands in the padding does not matter to our models.

    Returns:
        Of a classifier `probability`, float32 (1, C): the client takes what it gets
        for scores, and computes no softmax. Of a masked language model `embedding`,
        float32 (1, D).
    """
    is_classifier = trained.config.objective.kind == "classification"
    classifier = Classification(trained) if is_classifier else None
    embedder = None if is_classifier else FillMask(trained)

    def answer(
        ids: tf.Tensor, mask: tf.Tensor, segment_ids: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        if embedder:
            return embedder.embed_ids(ids, mask)
        assert classifier
        logits = classifier.asking.ask_ids(ids, mask)["logits"]
        return {"probability": tf.nn.softmax(logits)}

    length = trained.config.model.max_sequence_length
    return Endpoint(answer, [ids_spec(name, 1, length) for name in _INPUTS])


def check_mediapipe(config: RunConfig, model: TokenizerModel) -> None:
    """Refuses a run whose model MediaPipe's clients cannot run, or would feed wrongly.

    Args:
        config: The run.
        model: Of its tokenizer.

    Raises:
        ConfigError: With what stands in the way.
    """
    objective = config.objective
    if objective.kind not in CLIENTS:
        raise ConfigError(
            f"objective.kind={objective.kind}: MediaPipe Tasks has no client for it; "
            "it has TextClassifier, for objective.kind=classification, and "
            f"TextEmbedder, for masked. Export no MediaPipe file: {_PLAIN}"
        )
    for label in getattr(objective, "labels", ()):
        if not {"\n", "\r"}.isdisjoint(label):
            raise ConfigError(
                f"objective.labels: {label!r} is of more than one line; expected one "
                "line each, as MediaPipe reads them from a file. Rename the label"
            )
    if isinstance(model, WordPieceModel):
        problem = _problem_of_wordpiece(model)
    elif isinstance(model, SentencePieceModel):
        problem = _problem_of_sentencepiece(model)
    else:
        problem = f"is of kind {model.kind}, which MediaPipe does not know"
    if problem:
        raise ConfigError(
            f"tokenizer.kind={config.tokenizer.kind}: the vocabulary {problem}; "
            f"expected {_SUITED}. Train with one of these, or export no MediaPipe "
            f"file: {_PLAIN}"
        )


def check_examples(trained: Trained, texts: Sequence[str]) -> None:
    """Refuses texts of which MediaPipe would make other ids than ours.

    Args:
        trained: Has the tokenizer.
        texts: What people will ask about, such as `export.examples`.

    Raises:
        ConfigError: With the first such text.
    """
    for text, (theirs, ours) in read_differently(trained, texts).items():
        raise ConfigError(
            f"export.examples: MediaPipe reads {text!r} as {' '.join(theirs)}; "
            f"expected {' '.join(ours)}, as the model has learned it. MediaPipe folds "
            "upper case in ASCII alone and strips no accents: train with "
            "`tokenizer.strip_accents: false`, or export no MediaPipe file: "
            f"{_PLAIN}"
        )


def read_differently(
    trained: Trained, texts: Sequence[str]
) -> dict[str, tuple[list[str], list[str]]]:
    """The texts of which MediaPipe makes other ids, each with its pieces and ours."""
    if not texts:
        return {}
    reading: Any = MediaPipeReading(trained.tokenizer)
    length = trained.config.model.max_sequence_length
    found = []
    for tokenizer in (reading, trained.tokenizer):
        tokens = tokenizer.tokenize(tf.constant(list(texts)))
        encoded = TextEncoder(tokenizer, length).text(tokens)
        rows: Any = zip(encoded.token_ids.numpy(), encoded.lengths.numpy(), strict=True)
        found.append([row[:length].tolist() for row, length in rows])
    pieces = trained.tokenizer.pieces
    return {
        text: ([pieces[i] for i in theirs], [pieces[i] for i in ours])
        for text, theirs, ours in zip(texts, *found, strict=True)
        if theirs != ours
    }


def _problem_of_wordpiece(model: WordPieceModel) -> str | None:
    if not model.lowercase:
        return "tells upper case from lower, which MediaPipe does not"
    words = [
        piece
        for piece in model.pieces
        if len(piece) > 1 and not piece.startswith((CONTINUATION, "["))
    ]
    cased = sum(not word[0].isascii() and word[0].upper() != word[0] for word in words)
    if cased > _MOST_CASED * len(words):
        return (
            f"has {cased:,} words of {len(words):,} that begin with a letter outside "
            "ASCII, whose upper case MediaPipe does not fold"
        )
    return None


def _problem_of_sentencepiece(model: SentencePieceModel) -> str | None:
    special, pieces = model.special, model.pieces
    framing = [None if i is None else pieces[i] for i in (special.begin, special.end)]
    if framing != [CLS, SEP]:
        named = " and ".join(piece or "nothing" for piece in framing)
        return f"frames texts with {named}, where MediaPipe puts {CLS} and {SEP}"
    text = "ABCDEFGHIJKLM NOPQRSTUVWXYZ"
    if model.processor.encode(text) != model.processor.encode(text.lower()):
        return "tells upper case from lower, which MediaPipe does not"
    return None


def _metadata(config: RunConfig, model: TokenizerModel) -> TextModelMetadata:
    labels = getattr(config.objective, "labels", None)
    told, output = (
        ("A vector for a text", ("embedding", "The vector."))
        if labels is None
        else (
            f"Which of {len(labels)} classes a text is of",
            ("probability", "Of each class, in the order of the labels."),
        )
    )
    (file,) = model.files().items()
    kind: Any = model.kind
    return TextModelMetadata(
        name=config.name,
        description=f"{told}; made with Transbeam {VERSION}.",
        version=str(config.export.version),
        inputs=_INPUTS,
        output=output,
        tokenizer=kind,
        tokenizer_file=file,
        labels=labels,
    )
