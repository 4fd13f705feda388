"""Predictions are read where there are tokens, and at the masked ones."""

from typing import Any

import numpy as np

from tests.model.inspect.decoders import make_decoder
from tests.trainer.analysis.numbered_texts import MASK, NumberedTokenizer, make_context
from transbeam.trainer.analysis.lenses.lens_texts import make_lens_batches, mask_tokens


def test_every_token_of_a_decoder_s_texts(randomise):
    context = make_context(make_decoder(randomise))
    batches = make_lens_batches(context, context.texts, tokens=16)
    assert len(batches) > 1
    found = {}
    for batch in batches:
        width = batch.inputs["token_ids"].shape[1]
        for cell in batch.cells:
            row, column = divmod(int(cell), width)
            token = int(batch.inputs["token_ids"][row, column])
            found.setdefault(int(batch.index[row]), []).append(token)
    expected = [row["token_ids"].tolist() for row in context.texts.rows]
    assert [found[index] for index in range(len(expected))] == expected


def test_masked_tokens():
    ids = np.zeros((3, 20), "int32")
    ids[0], ids[1, :5], ids[2, :3] = np.arange(5, 25), (2, 7, 8, 9, 3), (2, 3, 1)
    inputs = {
        "token_ids": ids,
        "padding_mask": (ids > 0).astype("int32"),
        "masked_positions": np.zeros((3, 1), "int32"),
    }
    tokenizer: Any = NumberedTokenizer()
    found = mask_tokens(np.arange(3), inputs, tokenizer, np.random.default_rng(0))
    changed = found.inputs["token_ids"] != ids
    assert (found.inputs["token_ids"][changed] == MASK).all()
    # 15% of 20; one of three ordinary tokens; none where all are special.
    assert changed.sum(axis=1).tolist() == [3, 1, 0]
    assert np.isin(ids[changed], tokenizer.ordinary_ids).all()
    rows, columns = np.divmod(found.cells, found.inputs["masked_positions"].shape[1])
    positions = found.inputs["masked_positions"][rows, columns]
    read = set(zip(rows.tolist(), positions.tolist(), strict=True))
    assert read == set(zip(*(x.tolist() for x in np.nonzero(changed)), strict=True))
    assert (ids == inputs["token_ids"]).all()
