"""Taggers, from texts, from words and from ids."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from tests.data.hostile_strings import HOSTILE_TEXTS
from tests.serving.conftest import LENGTH, TINY, exported_run
from tests.serving.session import AskingClient
from tests.serving.signatures.parity_scenario import (
    Scene,
    altered,
    failed,
    judged_by_another,
    remembered,
    rows_of,
)
from transbeam.configs.base.bio_tags import EntityTags
from transbeam.configs.schema.objectives.supervised import TokenClassificationConfig
from transbeam.configs.schema.tokenizer import ByteBPEConfig, UnigramConfig
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_tokenizer import (
    WordPieceTokenizer,
)
from transbeam.serving.parity.attention_maps import attention_rows
from transbeam.serving.parity.export_parity import require_passed
from transbeam.serving.predict.prediction import describe, predict
from transbeam.serving.signatures.word_answers import entities
from transbeam.serving.text_ops import row_blocks
from transbeam.serving.text_ops.word_split import SplitWords

ENTITIES = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
CASES = {
    "entities": (ENTITIES, TINY.tokenizer),
    "parts_of_speech": (
        ("NOUN", "VERB", "X"),
        ByteBPEConfig(vocabulary_size=300, specials="gpt2"),
    ),
    "unigram": (ENTITIES, UnigramConfig(vocabulary_size=60, specials="albert")),
}


def config_of(name):
    labels, tokenizer = CASES[name]
    return replace(
        TINY,
        objective=TokenClassificationConfig(labels=labels),
        tokenizer=tokenizer,
        model=replace(TINY.model, num_layers=1),
        export=replace(TINY.export, examples=("the shape of a list",)),
    )


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=() if name == "entities" else pytest.mark.thorough)
        for name in CASES
    ],
)
def scene(request, tmp_path_factory):
    """A run of each kind."""
    folder = tmp_path_factory.mktemp("tagging") / "run"
    return Scene.of(folder, config_of(request.param))


def keras_answer(trained, words):
    """Probabilities (W, C) of words that fit in one row, framed by hand."""
    special, ids, places = trained.tokenizer.special, [], []
    for number, word in enumerate(words):
        prefix = trained.tokenizer.word_prefix if number else ""
        places.append(len(ids) + 1)
        ids += trained.tokenizer.tokenize([prefix + word]).to_list()[0]
    assert len(ids) <= LENGTH - 2
    row = np.array([[special.begin, *ids, special.end]], np.int32)
    inputs = {"token_ids": row, "padding_mask": np.ones_like(row)}
    logits = np.asarray(trained.model(inputs, training=False)["logits"])[0, places]
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


@pytest.mark.thorough(
    instead="test_the_gate_passes_true_tags_and_no_others, "
    "test_the_gate_passes_taggers_for_phones_and_no_others, "
    "test_an_exported_tagger_answers_as_its_functions"
)
@pytest.mark.parametrize("name", CASES)
def test_all_forms_passed_the_gate(name):
    result = exported_run(config_of(name)).result
    assert len({row["form"] for row in result["parity"]}) == 9
    assert len(result["parity"]) == 3 * 5 + 3 * 1 + 3 * 2
    assert all(row["passed"] for row in result["parity"])


def test_the_gate_passes_true_tags_and_no_others(scene):
    judge, ask = scene.judge, remembered(scene.ask)
    assert judge.size == 1 + 6 + 3
    rows = judge.saved_model_rows("functions", ask)
    assert len(rows) == 4
    require_passed(rows)

    def found(signature, output, change):
        wrong = altered(ask, signature, output, change)
        return failed(judge.saved_model_rows("altered", wrong))

    first, *_, last = judge.answer.labels

    def blank(texts):
        return np.full_like(texts, b"")

    def turned(tags):
        """Another tag for each word."""
        other = np.where(tags == first.encode(), last.encode(), first.encode())
        return np.where(tags == b"", b"", other).astype(object)

    assert found("tokenize", "token_ids", lambda ids: ids + 1) == ["token ids"]
    assert found("serving_default", "words", lambda words: words[:, ::-1]) == ["words"]
    # A form that finds no words has no tags, so there is nothing of them to compare.
    no_words, no_tags = (
        partial(altered, signature="serving_default", output=output, change=blank)
        for output in ("words", "tags")
    )
    rows = judge.saved_model_rows("altered", no_tags(no_words(ask)))
    assert failed(rows) == ["words"]
    uneven = found("serving_default", "scores", lambda scores: scores * 0.999)
    assert uneven == ["log-probability"]
    assert found("serving_default", "tags", turned) == [
        "log-probability",
        "log-probability below the best tag's",
    ]


def test_texts_without_an_entity_are_compared(scene):
    ask = remembered(scene.ask)
    texts = {"text": [one.text for one in scene.judge.expected]}
    for output in ask("serving_default", texts):
        if output.startswith("entit"):
            ask = altered(ask, "serving_default", output, lambda of: of[:, :0])
    require_passed(scene.judge.saved_model_rows("functions", ask))


def test_who_looks_at_whom_is_told(scene):
    (row,) = attention_rows("functions", scene.ask, scene.trained)
    require_passed([row])


def test_the_gate_passes_taggers_for_phones_and_no_others(scene):
    for variant, count in (("float32", 1), ("dynamic_int8", 2)):
        phone = scene.phone(variant)
        rows = scene.judge.phone_rows("file", variant, phone)
        require_passed(rows)
        assert len(rows) == count
        other = judged_by_another(scene, partial(rows_of, variant, phone))
        assert other[0] == "log-probability"


def test_an_exported_tagger_answers_as_its_functions(scene):
    texts = {"text": ["a tensor, of it's shape!", "", "the ünknown 漢 list"]}
    scene.require_exported_alike(texts, "serving_default", "tokenize")


def test_answers_to_texts_are_keras_s(scene):
    trained = scene.trained
    labels = trained.config.objective.labels
    texts = ["a tensor, of it's shape!", "", "the ünknown 漢 list"]
    words = [["a", "tensor", ",", "of", "it", "'s", "shape", "!"], []]
    words += [["the", "ünknown", "漢", "list"]]
    found = scene.ask("serving_default", {"text": texts})
    assert found["words"].shape == (3, 8)
    for row, expected in enumerate(words):
        number = len(expected)
        assert [w.decode() for w in found["words"][row] if w] == expected
        starts, ends = found["starts"][row], found["ends"][row]
        spans = [texts[row][a:b] for a, b in zip(starts, ends, strict=True)]
        assert spans == expected + [""] * (8 - number)
        assert not found["tags"][row, number:].any()
        assert not found["scores"][row, number:].any()
        if number:
            answer = keras_answer(trained, expected)
            tags = [labels[best].encode() for best in answer.argmax(axis=1)]
            assert found["tags"][row, :number].tolist() == tags
            scores = found["scores"][row, :number]
            np.testing.assert_allclose(scores, answer.max(axis=1), atol=2e-6)


def test_words_that_are_given_have_the_tags_that_they_have_in_a_text(scene):
    ask = scene.ask
    texts = ["the name of the list", "true", ""]
    words = [[*text.split(), *[""] * (6 - len(text.split()))] for text in texts]
    expected, found = (
        ask("serving_default", {"text": texts}),
        ask("tag_words", {"words": words}),
    )
    assert found["tags"].shape == found["scores"].shape == (3, 6)
    assert found["tags"][:, :5].tolist() == expected["tags"].tolist()
    np.testing.assert_allclose(found["scores"][:, :5], expected["scores"], atol=1e-6)
    assert not found["tags"][:, 5].any()


def test_a_word_that_has_no_piece_has_a_tag(scene):
    found = scene.ask("tag_words", {"words": [["\x01", "", "list"], ["", "", ""]]})
    assert found["tags"].astype(bool).tolist() == [[True] * 3, [False] * 3]


def test_a_text_of_several_rows_has_a_tag_for_each_word(scene):
    trained = scene.trained
    if not isinstance(trained.tokenizer, WordPieceTokenizer):
        pytest.skip("counts on words of one piece")
    # 30 pieces and two that frame them fit; more are cut after 16 each, as a word may
    # have 15 and begin before the cut.
    words = ["the", "a", "of", "."] * 10
    fits = scene.ask("serving_default", {"text": [" ".join(words[:30])]})
    found = scene.ask("serving_default", {"text": [" ".join(words)]})
    expected = keras_answer(trained, words[:30])
    np.testing.assert_allclose(fits["scores"][0], expected.max(axis=1), atol=2e-6)
    rows = [keras_answer(trained, words[i : i + 16]) for i in (0, 16, 32)]
    best = np.concatenate(rows).max(axis=1)
    np.testing.assert_allclose(found["scores"][0], best, atol=2e-6)


def test_rows_are_read_in_blocks_as_at_once(scene, monkeypatch):
    texts = ["the list of a tensor. " * 20, "", "a dog", "it's a list " * 15]
    at_once = scene.ask("serving_default", {"text": texts})
    monkeypatch.setattr(row_blocks, "_TOKENS", 2 * LENGTH)
    found = scene.ask("serving_default", {"text": texts})
    for name, expected in at_once.items():
        if name == "scores":
            np.testing.assert_allclose(found[name], expected, atol=2e-6)
        else:
            assert found[name].tolist() == expected.tolist()


def test_what_a_phone_has_to_reproduce(scene):
    trained = scene.trained
    text = "a tensor's shape"
    tokens = scene.ask("tokenize", {"text": [text, ""]})
    expected = scene.ask("serving_default", {"text": [text]})
    length, special = tokens["length"][0], trained.tokenizer.special
    assert tokens["length"].tolist() == [length, 0]
    word_ids = tokens["word_ids"][0, :length]
    assert sorted(set(word_ids)) == list(range(4))
    row = np.array([special.begin, *tokens["token_ids"][0, :length], special.end])
    inputs = {"token_ids": row, "padding_mask": np.ones_like(row)}
    logits = scene.phone().ask("tag_ids", **inputs)["logits"]
    firsts = 1 + np.searchsorted(word_ids, np.arange(4))
    scores = tf.nn.softmax(logits[firsts]).numpy().max(axis=1)
    np.testing.assert_allclose(scores, expected["scores"][0], atol=2e-5)


def test_hostile_texts_and_an_empty_batch(scene):
    ask = scene.ask
    found = ask("serving_default", {"text": list(HOSTILE_TEXTS)})
    is_word = found["words"] != b""
    assert (found["scores"][is_word] > 0).all()
    assert (found["tags"] != b"").tolist() == is_word.tolist()
    assert {len(of) for of in ask("serving_default", {"text": []}).values()} == {0}


def test_predict_tells_words_and_entities(scene):
    trained = scene.trained
    found = predict(AskingClient(scene.ask, "text"), ["the list", ""])
    assert [word["word"] for word in found[0]["words"]] == ["the", "list"]
    assert found[1]["words"] == []
    assert ("entities" in found[0]) == (trained.config.objective.labels == ENTITIES)
    assert describe(found[0]).splitlines()[0] == "the list"
    assert describe(found[1]).splitlines()[1:] == (
        ["  no entity"] if "entities" in found[1] else []
    )


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("O O O | O", []),
        ("B-PER I-PER O | B-LOC", [("a bb", "PER", 0), ("dddd", "LOC", 1)]),
        # Read from any tags, as conlleval does.
        (
            "I-PER I-LOC I-LOC | I-LOC",
            [("a", "PER", 0), ("bb ccc", "LOC", 0), ("dddd", "LOC", 1)],
        ),
        ("B-PER B-PER I-PER | O", [("a", "PER", 0), ("bb ccc", "PER", 0)]),
        (
            "E-PER I-PER S-PER | E-PER",
            [("a", "PER", 0), ("bb", "PER", 0), ("ccc", "PER", 0), ("dddd", "PER", 1)],
        ),
    ],
)
def test_entities_by_hand(tags, expected):
    assert entities_of(tags) == expected
    bilou = tags.replace("S-", "U-").replace("E-", "L-").replace("-", "_")
    assert entities_of(bilou, "BILU", "_") == expected


@pytest.mark.parametrize(
    ("tags", "places", "expected"),
    [
        ("B-PER I-PER I-LOC | I-LOC", "BI", [("a bb", "PER", 0)]),
        ("I-PER O B-LOC | B-PER", "BI", [("ccc", "LOC", 0), ("dddd", "PER", 1)]),
        ("B-PER I-PER E-PER | B-PER", "BIES", [("a bb ccc", "PER", 0)]),
        ("B-PER I-PER O | S-LOC", "BIES", [("dddd", "LOC", 1)]),
        ("O O O | O", "BIES", []),
    ],
)
def test_strict_entities_by_hand(tags, places, expected):
    assert entities_of(tags, places, strict=True) == expected


def entities_of(tags, places="BIES", hyphen="-", *, strict=False):
    """Text, type and row of what is found in two texts."""
    kinds = ("PER", "LOC")
    labels = ("O", *(f"{at}{hyphen}{kind}" for kind in kinds for at in places))
    text = tf.constant(["a bb ccc", "dddd"])
    words = SplitWords(
        tf.ragged.constant([["a", "bb", "ccc"], ["dddd"]]),
        tf.ragged.constant([[0, 2, 5], [0]], dtype=tf.int32),
        tf.ragged.constant([[1, 4, 8], [4]], dtype=tf.int32),
    )
    chosen = [[*map(labels.index, part.split())] for part in tags.split("|")]
    ids = tf.constant([*chosen[0], *chosen[1]], tf.int64)
    found = entities(text, words, ids, EntityTags(labels), strict=strict)
    rows = [
        (span.decode(), kind.decode(), row)
        for row, pair in enumerate(
            zip(
                found["entities"].to_list(),
                found["entity_types"].to_list(),
                strict=True,
            )
        )
        for span, kind in zip(*pair, strict=True)
    ]
    for row, whole in enumerate(("a bb ccc", "dddd")):
        places = (found[f"entity_{edge}"][row].numpy() for edge in ("starts", "ends"))
        spans = [whole[a:b] for a, b in zip(*places, strict=True)]
        assert spans == [span for span, _, of in rows if of == row]
    return rows
