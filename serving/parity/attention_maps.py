"""Parity of the signature `attention` with Keras."""

from typing import Any

import numpy as np

from transbeam.configs.schema.attention import FullAttentionConfig
from transbeam.configs.schema.objectives.objective import ImageObjective
from transbeam.configs.schema.objectives.traits import input_names
from transbeam.model.inspect.attention_maps import attention_probabilities
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.parity.base.parity_checks import ParityCheck, at_most, largest
from transbeam.serving.runtimes.saved_model import AskTexts

_TEXTS = ["It returns a list, or nothing at all.", "", "No café, 漢字 and 123.5!"]
_KINDS = {
    "attention": ("self_attention", "", ""),
    "encoder_attention": ("self_attention", "encoder_", "encoder_"),
    "decoder_attention": ("self_attention", "decoder_", "decoder_"),
    "cross_attention": ("cross_attention", "decoder_", "encoder_"),
}


def attention_rows(form: str, ask: AskTexts, trained: TrainedRun) -> list[ParityCheck]:
    """Compares attention weights; returns [] if there is no signature `attention`.

    Keras runs on each text separately, without padding, layer by layer.

    Args:
        form: As in `ParityCheck`.
        ask: A function that calls a signature of the exported model.
        trained: The Keras model.
    """
    config = trained.config
    if isinstance(config.objective, ImageObjective):
        return []
    if not isinstance(config.model.attention, FullAttentionConfig):
        return []
    names = [*input_names(config.objective)]
    if config.model.kind == "seq2seq":
        names.append("target_text")
    columns = {
        name: [*_TEXTS[place:], *_TEXTS[:place]] for place, name in enumerate(names)
    }
    answers = ask("attention", columns)
    off = max(_off(trained, answers, row) for row in range(len(_TEXTS)))
    what = "share of attention, largest difference"
    return [at_most(form, what, off, config.export.tolerance.saved_model)]


def _off(trained: TrainedRun, answers: Any, row: int) -> float:
    """Returns the largest difference of one text's attention weights from Keras's."""
    sides = {name.removesuffix("length") for name in answers if name.endswith("length")}
    length = {side: int(answers[f"{side}length"][row]) for side in sides}
    inputs = {
        name: np.zeros((1, 1), np.int32)  # masked positions, which have no effect
        for name in trained.model.input
    }
    for side in sides:
        ids = answers[f"{side}token_ids"][row, : length[side]]
        inputs[f"{side}token_ids"] = ids[np.newaxis]
        inputs[f"{side}padding_mask"] = np.ones_like(ids)[np.newaxis]
    if "segment_ids" in inputs:
        inputs["segment_ids"] = answers["segment_ids"][row : row + 1, : length[""]]
    if "prefix_mask" in inputs:  # the text is all prefix
        inputs["prefix_mask"] = inputs["padding_mask"]
    seen = attention_probabilities(trained.model, inputs)
    off = 0.0
    for name, (kind, queries, keys) in _KINDS.items():
        if name not in answers:
            continue
        side = name.removesuffix("attention") if kind == "self_attention" else queries
        expected = [
            np.asarray(probabilities)[0]
            for path, probabilities in seen.items()
            if path.startswith(side) and path.endswith(f"/{kind}")
        ]
        found = np.array(answers[name][row])
        real = found[:, :, : length[queries], : length[keys]]
        off = max(off, largest(real - np.stack(expected)))
        real[...] = 0
        off = max(off, largest(found))  # weights from and to padding are 0
    return off
