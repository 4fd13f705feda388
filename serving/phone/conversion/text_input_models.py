"""TFLite files with a tokenizer inside, for runtimes with tf-text's ops.

Each file has one signature, which takes a text. The files have the same weights and
outputs as the files that take token ids.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow_text import tflite_registrar

from transbeam.configs.loader.export_support import check_tflite_text, no_wordpiece
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.pipeline.tokenizers.base.text_frame import (
    TextFrame,
    embedding_frame,
    frame_of_run,
)
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_tokenizer import (
    WordPieceTokenizer,
)
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.parity.base.parity_checks import ParityCheck, phone_row
from transbeam.serving.parity.base.parity_texts import labelled_texts
from transbeam.serving.phone.conversion.tflite_converter import (
    convert_endpoints,
    write_variants,
)
from transbeam.serving.phone.quantization.int4_weights import (
    NONE_ROUNDED,
    RoundedWeights,
)
from transbeam.serving.phone.tokenizer.tflite_wordpiece import (
    CUSTOM_OPS,
    GraphWordPiece,
)
from transbeam.serving.signatures.base.interface import Endpoint
from transbeam.serving.signatures.embedding import Embedder, tokenize_endpoint
from transbeam.serving.signatures.task_factory import make_signature_task
from transbeam.serving.text_ops.text_encoder import TextEncoder

# Plain signatures, and the names of their counterparts on text.
FROM_TEXT = {
    "classify_ids": "classify_text",
    "regress_ids": "regress_text",
    "embed": "embed_text",
}
PREFIX = "text"  # of the files' names
_TEXT = tf.TensorSpec([1], tf.string, name="text")


def text_signature(trained: TrainedRun) -> str:
    """Returns the token id signature with the same outputs as the text signature.

    Raises:
        ConfigError: The task has other inputs than one text, or the tokenizer is not a
            WordPiece.
    """
    check_tflite_text(trained.config)
    if not isinstance(trained.tokenizer, WordPieceTokenizer):
        raise no_wordpiece("the tokenizer that tokenizer.path names")
    if trained.tokenizer.whole is not None:
        raise no_wordpiece("a tokenizer with added tokens, which are found whole,")
    plain = make_signature_task(trained).phone_endpoints()
    return next(name for name in FROM_TEXT if name in plain)


def write_text_models(
    trained: TrainedRun,
    run_folder: Path,
    folder: Path,
    rounded: RoundedWeights = NONE_ROUNDED,
) -> dict[str, Path]:
    """Writes a file for each variant of `export.tflite` except `int8`.

    Args:
        trained: The model to export.
        run_folder: As in `write_tflite`.
        folder: The output folder; created if it does not exist.
        rounded: As in `write_tflite`.

    Raises:
        ConfigError: As `text_signature`.
        ArtifactError: As `write_tflite`.
    """
    plain = text_signature(trained)
    endpoints = {FROM_TEXT[plain]: _from_text(trained, plain)}
    contents = convert_endpoints(
        trained, run_folder, endpoints, folder, rounded, custom_ops=CUSTOM_OPS
    )
    return write_variants(contents, folder, PREFIX)


def text_rows(
    trained: TrainedRun,
    run_folder: Path,
    plain: Mapping[str, Path],
    files: Mapping[str, Path],
) -> list[ParityCheck]:
    """Compares text-input files with the token-id files, which were checked with Keras.

    Args:
        trained: The model.
        run_folder: The run's folder; its validation records are among the compared
            texts.
        plain: The TFLite file that takes token ids, by variant.
        files: The file of each variant, from `write_text_models`.
    """
    signature = text_signature(trained)
    texts = [text for text, *_ in labelled_texts(trained, run_folder)]
    longest, frame = _longest(trained, signature), _frame(trained, signature)
    encoder = TextEncoder(trained.tokenizer, longest, frame)
    tokenize = tokenize_endpoint(encoder).function
    rows = []
    for variant, file in files.items():
        plain_model = TFLiteRunner(plain[variant])
        text_model = TFLiteRunner(file, custom_ops=tflite_registrar.SELECT_TFTEXT_OPS)
        differences = []
        for text in texts:
            tokens = tokenize(tf.constant([text]))
            ids = tokens["token_ids"].numpy()[0, : tokens["length"].numpy()[0]]
            inputs = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
            expected = plain_model.ask(signature, **inputs)
            content = np.array([text.encode()], object)
            found = text_model.run(FROM_TEXT[signature], text=content)
            differences += [found[name][0] - of for name, of in expected.items()]
        form = f"TFLite with the tokenizer, {variant}"
        tolerance = trained.config.export.tolerance
        rows.append(
            phone_row(
                form, "from the plain one", np.array(differences), variant, tolerance
            )
        )
    return rows


def _from_text(trained: TrainedRun, plain: str) -> Endpoint:
    task = make_signature_task(trained)
    ask, inputs = task.phone_endpoints()[plain]
    assert isinstance(trained.tokenizer, WordPieceTokenizer)
    tokenizer = GraphWordPiece(trained.tokenizer, _frame(trained, plain))
    length = _longest(trained, plain)

    def answer(text: tf.Tensor) -> Mapping[str, Any]:
        row = tokenizer.row(text, length)
        row["segment_ids"] = tf.zeros_like(row["token_ids"])
        return ask(*(row[str(spec.name)] for spec in inputs))

    return Endpoint(answer, [_TEXT])


def _frame(trained: TrainedRun, plain: str) -> TextFrame:
    """Returns the special tokens of a signature's rows."""
    make = embedding_frame if plain == "embed" else frame_of_run
    return make(trained.config, trained.tokenizer.special)


def _longest(trained: TrainedRun, plain: str) -> int:
    """Returns the maximum number of tokens of a signature's rows."""
    if plain == "embed":
        return Embedder(trained).max_length
    return make_signature_task(trained).max_length
