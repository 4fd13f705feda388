"""Requests of clients with texts of any kind and length."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tests.serving.native.c_client import Inputs, Outputs
from transbeam.pipeline.tokenizers.base.vocabulary import MASK
from transbeam.serving.export.stored_requests import warm_up_inputs
from transbeam.serving.signatures.base.interface import Endpoint, SignatureTask
from transbeam.serving.signatures.causal import CausalTask

TEXTS = (
    f"Returns a {MASK} of the same shape, or None.".encode(),
    b"",
    "ünknown 漢字 👩‍👩‍👧‍👦! \u202e".encode(),
    b"a\x00b \xff\xfe",  # no UTF-8
    b"word " * 300,
)
ROWS = len(TEXTS)
# Some rows take the likeliest tokens, and some draw.
WISHES = {
    "max_new_tokens": [5, 1, 4, 3, 2],
    "temperature": [0.0, 0.8, 0.0, 1.0, 2.0],
    "top_k": [0, 5, 0, 0, 3],
    "top_p": [1.0, 1.0, 1.0, 0.9, 0.8],
    "seed": [0, 1, 2, 3, 4],
    "min_p": [0.0, 0.1, 0.0, 0.0, 0.0],
    "repetition_penalty": [1.0, 1.0, 1.3, 1.0, 1.0],
    "no_repeat_ngram_size": [2, 0, 0, 1, 0],
    "logit_bias": [b"", b"3:2.5,4:-100", b"", b"", b"1:-1"],
    "stop": [b"", b"e", b"\n", b"the", b""],
}


def requests_of(task: SignatureTask) -> list[tuple[str, Inputs]]:
    """One for each signature on texts, and one for each other that is warmed up."""
    endpoints = task.endpoints()
    # A prompt has to leave room for what is written.
    texts = [text[:40] for text in TEXTS] if isinstance(task, CausalTask) else TEXTS
    found = dict(_on_texts(endpoints, texts)) if "tokenize" in endpoints else {}
    for name, inputs in warm_up_inputs(task):
        found.setdefault(name, inputs)
    return list(found.items())


def answers_of(
    task: SignatureTask, requests: list[tuple[str, Inputs]]
) -> list[Outputs]:
    """Outputs of Keras, without a SavedModel."""
    endpoints = task.endpoints()
    answers = []
    for name, inputs in requests:
        function, specs = endpoints[name]
        given = [tf.constant(inputs[str(spec.name)], spec.dtype) for spec in specs]
        outputs = function(*given)
        answers.append({name: value.numpy() for name, value in outputs.items()})
    return answers


def _on_texts(
    endpoints: dict[str, Endpoint], texts: Sequence[bytes]
) -> Iterator[tuple[str, Inputs]]:
    for name, endpoint in endpoints.items():
        inputs = {}
        for place, spec in enumerate(endpoint.inputs):
            values = _values(spec, [*texts[place:], *texts[:place]])
            if values is None:
                break
            inputs[str(spec.name)] = np.array(values, spec.dtype.as_numpy_dtype)
        else:
            yield name, inputs


def _values(spec: tf.TensorSpec, texts: list[bytes]) -> list[Any] | None:
    """Of an input: texts, in another order for each, or wishes; None for all others."""
    if spec.name in WISHES:
        return WISHES[spec.name]
    if spec.name == "inputs":
        return [_example(text) for text in texts]
    return texts if spec.dtype == tf.string and spec.shape.rank == 1 else None


def _example(text: bytes) -> bytes:
    example = tf.train.Example()
    for name in ("text", "second_text"):
        example.features.feature[name].bytes_list.value.append(text)
    return example.SerializeToString()
