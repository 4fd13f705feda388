"""The part `syntax`, on a small treebank."""

import json

import pytest

from tests.model.conftest import small_config
from tests.trainer.analysis.contexts import make_context
from transbeam.configs.base.errors import DataError
from transbeam.configs.schema.attention import FullAttentionConfig
from transbeam.trainer.analysis.syntax.syntax import FEWEST_WORDS, analyze_syntax

# "She saw the old dogs now."
_SENTENCE = (
    ("she", "PRON", 2, "nsubj"),
    ("saw", "VERB", 0, "root"),
    ("the", "DET", 5, "det"),
    ("old", "ADJ", 5, "amod"),
    ("dogs", "NOUN", 2, "obj"),
    ("now", "ADV", 2, "advmod"),
    (".", "PUNCT", 2, "punct"),
)


def sentence(words=_SENTENCE):
    lines = [
        f"{number}\t{form}\t_\t{tag}\t_\t_\t{head}\t{relation}\t_\t_"
        for number, (form, tag, head, relation) in enumerate(words, 1)
    ]
    return "\n".join([*lines, "", ""])


@pytest.fixture
def treebank(tmp_path):
    """Of two sentences, one with and one without the adjective, and a long one."""
    without = [(*word[:2], min(word[2], 4), word[3]) for word in _SENTENCE]
    without = [word for word in without if word[0] != "old"]
    long = [("dogs", "NOUN", number, "dep") for number in range(30)]
    path = tmp_path / "bank.conllu"
    path.write_text(
        sentence() * (FEWEST_WORDS + 5) + sentence(without) * 20 + sentence(long)
    )
    return path


def small_context():
    attention = FullAttentionConfig(num_heads=3)
    return make_context(
        small_config(hidden_dim=12, num_segments=0, attention=attention), max_tokens=512
    )


def test_a_small_treebank(treebank):
    part = analyze_syntax(small_context(), treebank)
    relations = part.tables["relations"]
    kinds = ["advmod", "all", "amod", "det", "nsubj", "obj", "punct"]
    assert sorted(set(relations["relation"].to_pylist())) == kinds
    # Three heads in two layers, in two directions.
    assert relations.num_rows == 7 * 12
    assert sorted(part.numbers["relations"]) == kinds
    assert part.numbers["sentences"] == 75
    assert part.numbers["skipped"] == 1
    assert part.numbers["relations"]["nsubj"]["baseline"] == [1.0, 1.0, 1.0]
    assert part.numbers["relations"]["nsubj"]["baseline_offset"] == 1
    assert not part.numbers["relations"]["nsubj"]["found"]
    assert any("1 sentences of bank.conllu are longer" in note for note in part.notes)
    assert any("Not found" in note and "nsubj" in note for note in part.notes)
    trees = part.tables["trees"].to_pylist()
    assert [row["measure"] for row in trees].count("UUAS") == 6 + 1
    assert {row["edges"] for row in trees} == {55 * 5 + 20 * 4}
    (axes,) = part.figures["relations"].axes
    assert len(axes.patches) == 2 * 7
    json.dumps(dict(part.numbers), allow_nan=False)


def test_too_few_words(tmp_path):
    path = tmp_path / "bank.conllu"
    path.write_text(sentence() * 2)
    with pytest.raises(DataError, match="no relation has 50 words"):
        analyze_syntax(small_context(), path)
