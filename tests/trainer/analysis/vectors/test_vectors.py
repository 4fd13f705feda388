"""The part `vectors`: occurrences, geometry by layer, neighbors, and its tables."""

import json

import numpy as np
import pytest

from tests.trainer.analysis.random_texts import (
    make_decoder_context,
    make_encoder_context,
    make_inputs,
    with_texts,
)
from transbeam.configs.base.errors import ConfigError
from transbeam.model.inspect.hidden_states import with_hidden_states
from transbeam.trainer.analysis.base.analysis_context import AnalysisContext
from transbeam.trainer.analysis.vectors.layer_geometry import (
    measure_geometry,
    sample_occurrences,
)
from transbeam.trainer.analysis.vectors.occurrences import (
    Occurrence,
    collect_occurrences,
    find_word,
    flatten_texts,
)
from transbeam.trainer.analysis.vectors.piece_vectors import (
    ANALOGIES,
    find_frequent,
    read_piece_vectors,
    tabulate_analogies,
)
from transbeam.trainer.analysis.vectors.vectors import analyze_vectors


@pytest.fixture(scope="module")
def context() -> AnalysisContext:
    return make_encoder_context(*([4, 9, 12, 14] * 9))


@pytest.fixture(scope="module")
def outputs(context) -> list[dict[str, np.ndarray]]:
    """The hidden states of each text, without padding."""
    model = with_hidden_states(context.model)
    found = [model(make_inputs(context, n)) for n in range(len(context.texts))]
    return [{name: np.array(x)[0] for name, x in states.items()} for states in found]


def encode(context: AnalysisContext, text: str) -> list[int]:
    special = context.tokenizer.special
    assert special.begin is not None
    assert special.end is not None
    ids = context.tokenizer.tokenize([text]).flat_values.numpy().tolist()
    return [special.begin, *ids, special.end]


def test_vectors_of_occurrences(context, outputs):
    """In the order that is asked for, and means over several tokens."""
    places = [Occurrence(3, 2, 4), Occurrence(0, 1, 2), Occurrence(3, 1, 2)]
    layers, states = collect_occurrences(context, places, "some")
    assert layers == ("embeddings", "encoder_layer_0", "encoder_layer_1")
    assert states.shape[:2] == (3, 3)
    for layer, vectors in zip(layers, states, strict=True):
        for (text, start, end), vector in zip(places, vectors, strict=True):
            expected = outputs[text][layer][start:end].mean(axis=0)
            np.testing.assert_allclose(vector, expected, atol=2e-5)


def test_occurrences_of_a_word(context):
    """Not within a longer word, nor over the border of two texts."""
    texts = ["the loss of the model", "loss", "a loss.", "modelloss", "the models"]
    few = with_texts(context, *(encode(context, text) for text in texts))
    tokens = flatten_texts(few)
    tokenizer = context.tokenizer
    starts = {
        word: [(x.text, x.start) for x in find_word(tokens, tokenizer, word)]
        for word in ("loss", "model")
    }
    assert [text for text, _ in starts["loss"]] == [0, 1, 2]
    assert starts["loss"][:2] == [(0, 2), (1, 1)]
    assert [text for text, _ in starts["model"]] == [0]
    assert find_word(tokens, tokenizer, "漢") == []
    two = with_texts(context, [20, 21], [22, 20, 21])
    word = [21, 22]
    flat = flatten_texts(two)
    assert flat.ids.tolist() == [20, 21, 22, 20, 21]
    assert flat.texts.tolist() == [0, 0, 1, 1, 1]
    assert flat.positions.tolist() == [0, 1, 0, 1, 2]
    assert word == flat.ids[1:3].tolist()  # adjacent, but in two texts


def test_geometry_against_loops(context, outputs):
    sample = sample_occurrences(
        flatten_texts(context), context.tokenizer.ordinary_ids, seed=0
    )
    found = {(x.layer, x.measure): x for x in measure_geometry(context, sample)}
    layer = "encoder_layer_0"
    outputs = [states[layer] for states in outputs]

    def unit(x: Occurrence) -> np.ndarray:
        vector = outputs[x.text][x.start].astype(np.float64)
        return vector / np.linalg.norm(vector)

    random = np.array([unit(x) for x in sample.random])
    pairs = (random @ random.T)[~np.eye(len(random), dtype=bool)]
    anisotropy = found[layer, "anisotropy"]
    assert anisotropy.value.score == pytest.approx(pairs.mean(), abs=1e-4)
    assert anisotropy.value.low < anisotropy.value.score < anisotropy.value.high
    means = []
    for places in sample.types.values():
        vectors = np.array([unit(x) for x in places])
        cosines = (vectors @ vectors.T)[~np.eye(len(vectors), dtype=bool)]
        means.append(cosines.mean())
    same = found[layer, "self_similarity"]
    assert same.value.score == pytest.approx(np.mean(means), abs=1e-4)
    assert same.adjusted == pytest.approx(np.mean(means) - pairs.mean(), abs=1e-4)
    texts = []
    for row, states in zip(context.texts.rows, outputs, strict=True):
        states = states[np.isin(row["token_ids"], context.tokenizer.ordinary_ids)]
        mean = states.mean(axis=0)
        norms = np.linalg.norm(states, axis=1) * np.linalg.norm(mean)
        texts.append((states @ mean / norms).mean())
    text = found[layer, "text_similarity"]
    assert text.value.score == pytest.approx(np.mean(texts), abs=1e-4)
    vectors = [
        np.array([outputs[x.text][x.start] for x in y])
        for y in [*sample.types.values()]
    ]
    shares = []
    for group in vectors:
        values = np.linalg.eigvalsh(group.astype(np.float64).T @ group)
        shares.append(values[-1] / values.sum())
    share = found[layer, "explainable_variance"]
    assert share.value.score == pytest.approx(np.mean(shares), abs=1e-4)


def test_sample_has_no_special_tokens(context):
    tokens = flatten_texts(context)
    ordinary = context.tokenizer.ordinary_ids
    sample = sample_occurrences(tokens, ordinary, seed=0)
    rows = context.texts.rows
    every = {rows[x.text]["token_ids"][x.start] for x in sample.random}
    assert every <= set(ordinary.tolist())
    assert len(set(sample.random)) == len(sample.random)
    for index, places in sample.types.items():
        assert 5 <= len(places) <= 20
        assert all(rows[x.text]["token_ids"][x.start] == index for x in places)


def test_part(context):
    part = analyze_vectors(context)
    json.dumps(dict(part.numbers), allow_nan=False)
    assert set(part.tables) == {
        "geometry",
        "neighbors",
        "analogies",
        "words",
        "contexts",
    }
    assert set(part.figures) == {"geometry", "pieces", "words", "contexts"}
    rows = part.tables["geometry"].to_pylist()
    assert rows[0]["measure"] == "anisotropy"
    assert rows[0]["adjusted"] is None
    words = part.tables["words"].to_pylist()
    assert len(words) == 4 * 3
    # In the input a piece has one vector but for its position.
    same = {row["layer"]: row["adjusted"] for row in words[:3]}
    assert same["embeddings"] > same["encoder_layer_1"]
    contexts = part.tables["contexts"].to_pylist()
    assert contexts[0]["word"] in context.tokenizer.pieces
    assert part.numbers["analogies"] == 0
    assert any("Analogies" in note for note in part.notes)


def test_part_of_a_decoder_with_words(context):
    decoder = make_decoder_context(context)
    texts = ["the model trains", "the model", "a model reads the loss", "the loss"]
    few = with_texts(decoder, *(encode(decoder, text) for text in texts))
    part = analyze_vectors(few, words=["model", "zebra"])
    words = part.tables["words"].to_pylist()
    assert [row["layer"] for row in words] == [
        "embeddings",
        "decoder_layer_0",
        "decoder_layer_1",
    ]
    assert {(row["word"], row["occurrences"]) for row in words} == {("model", 3)}
    contexts = part.tables["contexts"].to_pylist()
    assert [row["text"] for row in contexts[:3]] == [0, 1, 2]
    assert "the model" in contexts[0]["context"]
    assert any("'zebra': occurs 0 times" in note for note in part.notes)
    neighbors = part.tables["neighbors"].to_pylist()
    if neighbors[0]["piece"] == "model":
        assert all(row["neighbor"] != "model" for row in neighbors[:10])


def test_frequent_pieces_are_sorted(context):
    found = find_frequent(context, 10)
    counts = np.bincount(flatten_texts(context).ids, minlength=200)[found]
    assert (np.diff(counts) <= 0).all()
    assert not set(found) - set(context.tokenizer.ordinary_ids.tolist())


def test_analogies_whose_words_are_no_pieces_are_left_out(context):
    pieces = read_piece_vectors(context)
    np.testing.assert_array_equal(pieces.ids[pieces.find_rows([50, 20])], [50, 20])
    table, missing = tabulate_analogies(pieces, context.tokenizer)
    assert (len(table), missing) == (0, len(ANALOGIES))


def test_empty_words_and_texts(context):
    with pytest.raises(ConfigError, match="words: found ' '"):
        analyze_vectors(context, words=["bank", " "])
    special = context.tokenizer.special
    part = analyze_vectors(with_texts(context, [special.begin, special.end]))
    assert part.notes == ("The texts have fewer than two ordinary tokens.",)
