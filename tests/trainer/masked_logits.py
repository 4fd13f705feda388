"""Logits of a trained model for texts."""

import numpy as np

from transbeam.serving.base.trained_run import TrainedRun


def scores(trained: TrainedRun, texts: list[str]) -> tuple[list[list[str]], list]:
    """Of each text its pieces, and the model's scores of all its places."""
    pieces, answers = [], []
    for text in texts:
        ids = trained.tokenizer.tokenize([text]).numpy()[0].astype("int32")[None]
        pieces.append([trained.tokenizer.pieces[i] for i in ids[0]])
        inputs = {
            "token_ids": ids,
            "padding_mask": np.ones_like(ids),
            "segment_ids": np.zeros_like(ids),
            "masked_positions": np.arange(ids.shape[1], dtype="int32")[None],
        }
        inputs = {name: inputs[name] for name in trained.model.input}
        answers.append(trained.model(inputs)["logits"].numpy()[0])
    return pieces, answers
