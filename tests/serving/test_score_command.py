"""`transbeam score` gives what the exported SavedModel gives."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from tests.serving.conftest import TINY, invocation_of
from transbeam.configs.schema.sources import TextSourceConfig
from transbeam.pipeline.batch_inference.score_command import score
from transbeam.pipeline.batch_inference.score_request import ScoreRequest

TEXTS = ["the [MASK] of a list", "a tensor", "[MASK] of the [MASK] .", "true"]


def invocation(folder: Path, corpus: Path):
    corpus.write_text("\n".join(TEXTS), "utf-8")
    source = TextSourceConfig(path=str(corpus), document="line")
    config = replace(TINY, data=replace(TINY.data, source=source))
    return invocation_of(folder, config)


def test_masks_are_filled(exported, run_folder, ask, tmp_path: Path) -> None:
    output = tmp_path / "answers.jsonl"
    score(invocation(run_folder, tmp_path / "a.txt"), ScoreRequest(output=output))
    rows = [json.loads(line) for line in output.read_bytes().splitlines()]
    expected = ask("serving_default", TEXTS)
    for i, row in enumerate(rows):
        fills = [[piece.decode() for piece in m] for m in expected["fills"][i]]
        assert row["outputs"]["fills"] == fills
        scores = np.array(row["outputs"]["scores"], np.float32)
        np.testing.assert_array_equal(scores, expected["scores"][i])


def test_texts_are_embedded(exported, run_folder, ask, tmp_path: Path) -> None:
    output = tmp_path / "vectors.parquet"
    request = ScoreRequest(output=output, model=exported.saved_model, signature="embed")
    score(invocation(run_folder, tmp_path / "a.txt"), request)
    rows = pq.read_table(output)["outputs"].to_pylist()
    vectors = np.array([row["embedding"] for row in rows], np.float32)
    np.testing.assert_array_equal(vectors, ask("embed", TEXTS)["embedding"])
