"""Projector files, read as TensorBoard reads them."""

import numpy as np
import pytest
from google.protobuf import text_format
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

from tests.trainer.analysis.random_texts import make_encoder_context, with_texts
from transbeam.configs.base.errors import ArtifactError
from transbeam.trainer.analysis.vectors.projector import (
    format_metadata,
    write_projector,
)


@pytest.fixture(scope="module")
def context():
    return make_encoder_context(5, 9, 12)


def test_files(context, tmp_path):
    number = write_projector(tmp_path / "projector", context)
    folder = tmp_path / "projector"
    config = ProjectorConfig()
    text_format.Parse((folder / "projector_config.pbtxt").read_text(), config)
    (embedding,) = config.embeddings
    vectors = np.loadtxt(folder / embedding.tensor_path, delimiter="\t")
    header, *rows = (folder / embedding.metadata_path).read_text().split("\n")[:-1]
    assert header == "piece\tcount"
    assert len(vectors) == len(rows) == number
    table = context.model.get_layer("token_embedding").embeddings.numpy()
    counts = []
    for row, vector in zip(rows, vectors, strict=True):
        piece, count = row.split("\t")
        counts.append(int(count))
        index = context.tokenizer.pieces.index(piece)
        np.testing.assert_allclose(vector, table[index], rtol=1e-5)
    every = np.concatenate([row["token_ids"] for row in context.texts.rows])
    assert counts == sorted(counts, reverse=True)
    assert max(counts) <= np.bincount(every).max()


def test_labels_stay_in_their_cells():
    """A line separator of Unicode would be the end of a line as well."""
    text = format_metadata({"piece": ["a\tb\r\n\u2028", "é"], "count": [1, 2]})
    assert text.splitlines() == ["piece\tcount", r"a\tb\r\n\u2028" + "\t1", "é\t2"]


def test_nothing_to_write(context, tmp_path):
    special = context.tokenizer.special
    few = with_texts(context, [special.begin, special.end])
    assert write_projector(tmp_path / "projector", few) == 0
    assert not (tmp_path / "projector").exists()


def test_a_folder_that_cannot_be_made(context, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactError):
        write_projector(tmp_path / "file" / "projector", context)
