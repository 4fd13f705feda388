"""TFLite files for MediaPipe Tasks, which take a text and return classes or a vector.

`TextClassifier` and `TextEmbedder` tokenize the text themselves, with a vocabulary in
the file's metadata. These tasks need a file with one signature and three inputs,
whether or not the model has segment embeddings.
"""

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from transbeam.configs.base.version import VERSION
from transbeam.configs.loader.export_support import MEDIAPIPE_CLIENTS
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.pipeline.tokenizers.files.tokenizer_folder import (
    read_tokenizer,
)
from transbeam.pipeline.tokenizers.files.tokenizer_model import TokenizerModel
from transbeam.serving.base.run_records import documents
from transbeam.serving.base.trained_run import TOKENIZER, TrainedRun
from transbeam.serving.parity.base.parity_checks import (
    ParityCheck,
    log_softmax,
    phone_row,
    probabilities_off,
)
from transbeam.serving.phone.conversion.tflite_converter import (
    convert_endpoints,
    write_variants,
)
from transbeam.serving.phone.mediapipe_tasks.mediapipe_check import (
    check_examples,
    check_mediapipe,
)
from transbeam.serving.phone.quantization.int4_weights import (
    NONE_ROUNDED,
    RoundedWeights,
)
from transbeam.serving.phone.tflite_format.tflite_metadata import (
    TextModelMetadata,
    with_metadata,
)
from transbeam.serving.signatures.base.interface import Endpoint, ids_spec
from transbeam.serving.signatures.base.text_inputs import TextInputs
from transbeam.serving.signatures.embedding import Embedder

PREFIX = "mediapipe"  # of the files' names
_COMPARED = 24  # texts
_INPUTS = {  # names that the clients require
    "ids": "The pieces of the text, [CLS] before them and [SEP] after them.",
    "mask": "1 where there is a piece, 0 behind the text.",
    "segment_ids": "All 0.",
}


def write_mediapipe(
    trained: TrainedRun,
    run_folder: Path,
    folder: Path,
    rounded: RoundedWeights = NONE_ROUNDED,
) -> dict[str, Path]:
    """Writes the variants that `export.tflite` lists, for MediaPipe Tasks.

    Args:
        trained: The model to export.
        run_folder: The run's folder; the vocabulary of its tokenizer is stored in the
            files.
        folder: The output folder; created if it does not exist.
        rounded: As in `write_tflite`.

    Returns:
        The file of each variant.

    Raises:
        ConfigError: MediaPipe does not support the task, or would tokenize texts
            differently than in training.
        ArtifactError: A file cannot be written.
    """
    config = trained.config
    model = read_tokenizer(run_folder / TOKENIZER).model
    check_mediapipe(config, model)
    check_examples(trained, config.export.examples)
    endpoint = {MEDIAPIPE_CLIENTS[config.objective.kind]: mediapipe_endpoint(trained)}
    metadata = _metadata(config, model)
    names = {"ids": "token_ids", "mask": "padding_mask"}
    contents = convert_endpoints(trained, run_folder, endpoint, folder, rounded, names)
    packed = {variant: with_metadata(of, metadata) for variant, of in contents.items()}
    return write_variants(packed, folder, PREFIX)


def mediapipe_rows(
    trained: TrainedRun,
    run_folder: Path,
    plain: Mapping[str, Path],
    packed: Mapping[str, Path],
) -> list[ParityCheck]:
    """Compares MediaPipe files with the plain files, which were checked with Keras.

    Args:
        trained: The model.
        run_folder: The run's folder; its validation records are the inputs.
        plain: The plain TFLite file of each variant, which is not for MediaPipe.
        packed: The file of each variant, from `write_mediapipe`.
    """
    rows = []
    client = MEDIAPIPE_CLIENTS[trained.config.objective.kind]
    rows_of_ids = [ids for ids, _ in islice(documents(run_folder), _COMPARED)]
    for variant, file in packed.items():
        models = TFLiteRunner(plain[variant]), TFLiteRunner(file)
        longest = models[1].size(client, "ids")
        off = [_difference(*models, client, ids[:longest]) for ids in rows_of_ids]
        if off:
            form = f"MediaPipe's file, {variant}"
            tolerance = trained.config.export.tolerance
            what = "from the plain one"
            rows.append(phone_row(form, what, np.array(off), variant, tolerance))
    return rows


def _difference(
    plain: TFLiteRunner, packed: TFLiteRunner, client: str, ids: np.ndarray
) -> np.ndarray:
    """Returns differences of two files' log-probabilities or embeddings for a text."""
    mask = np.ones_like(ids)
    texts = {"token_ids": ids, "padding_mask": mask}
    found = packed.ask(client, ids=ids, mask=mask, segment_ids=0 * ids)
    if "embedding" in found:
        return found["embedding"] - plain.ask("embed", **texts)["embedding"]
    logits = plain.ask("classify_ids", **texts)["logits"]
    return probabilities_off(found["probability"], log_softmax(logits))


def mediapipe_endpoint(trained: TrainedRun) -> Endpoint:
    """Returns the signature for MediaPipe: `ids`, `mask`, `segment_ids`, int32 (1, S).

    `S` is the maximum length: MediaPipe's clients truncate texts to this length, as in
    training; with a dynamic length they would not truncate at all. The clients pad with
    0, whatever the id of `[PAD]` is: padding ids do not affect the model's outputs.

    Returns:
        For a classifier the output is `probability`, float32 (1, C): the client uses
        outputs as scores, without a softmax. For a masked language model the output is
        `embedding`, float32 (1, D).
    """
    is_classifier = trained.config.objective.kind == "classification"
    classifier = TextInputs(trained) if is_classifier else None
    embedder = None if is_classifier else Embedder(trained)

    def answer(
        ids: tf.Tensor, mask: tf.Tensor, segment_ids: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        if embedder:
            return embedder.embed_ids(ids, mask)
        assert classifier
        logits = classifier.ask(ids, mask)["logits"]
        return {"probability": tf.nn.softmax(logits)}

    longest = trained.config.model.max_sequence_length
    length = embedder.max_length if embedder else longest
    return Endpoint(answer, [ids_spec(name, 1, length) for name in _INPUTS])


def _metadata(config: RunConfig, model: TokenizerModel) -> TextModelMetadata:
    labels = getattr(config.objective, "labels", None)
    purpose, output = (
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
        description=f"{purpose}; made with Transbeam {VERSION}.",
        version=str(config.export.version),
        inputs=_INPUTS,
        output=output,
        tokenizer=kind,
        tokenizer_file=file,
        labels=labels,
    )
