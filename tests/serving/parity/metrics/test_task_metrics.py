"""Loss of a task's metric by a phone's file, computed by hand."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tests.serving.conftest import TINY
from tests.serving.phone.generative_models import (
    GPT2,
    PREFIX,
    T5,
    keras_logits,
    shared,
    small,
    some_ids,
)
from tests.serving.record_files import write_records
from transbeam.configs.schema.objectives.language_modeling import (
    MaskedConfig,
    SentencePairsConfig,
)
from transbeam.configs.schema.objectives.supervised import (
    ClassificationConfig,
    ImageClassificationConfig,
    PairClassificationConfig,
    RegressionConfig,
    SpanQAConfig,
    TokenClassificationConfig,
)
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.serving.base.applied_calibration import NOT_CALIBRATED
from transbeam.serving.parity.base.parity_checks import log_softmax
from transbeam.serving.parity.export_parity import check_metric
from transbeam.serving.parity.metrics import perplexity
from transbeam.serving.parity.metrics.perplexity import PerplexityMetric
from transbeam.serving.parity.metrics.task_metrics import (
    Explained,
    TaskAccuracy,
    make_task_metric,
)
from transbeam.serving.parity.metrics.validation_examples import (
    ValidationExample,
    labelled,
    run_keras,
)


def toy(**tolerance):
    """The parts of a trained model that a metric needs."""
    export = replace(TINY.export, tolerance=replace(TINY.export.tolerance, **tolerance))
    config = replace(TINY, export=export)
    return SimpleNamespace(config=config, calibration=NOT_CALIBRATED)


class Answers:
    """A model that has an answer ready for each text, which is its number."""

    def __init__(self, **outputs):
        self.outputs = outputs

    def ask(self, signature, *, number):
        assert signature == "asked"
        return {name: of[number[0]] for name, of in self.outputs.items()}

    def __call__(self, batch, training):
        assert training is False
        return {name: of[batch["number"][:, 0]] for name, of in self.outputs.items()}


def accuracy(keras, right, places=None, outputs=("logits",), **tolerance):
    """The metric of a model whose answers are known."""
    trained = toy(**tolerance)
    trained.model = keras
    questions = [
        ValidationExample({"number": np.array([number])}, np.array(of), where)
        for number, (of, where) in enumerate(
            zip(right, places or [None] * len(right), strict=True)
        )
    ]
    return TaskAccuracy(trained, "asked", questions, outputs)


def two_classes(hits):
    """Logits (N, 2) of answers of which these are right, where 1 always is."""
    hits = np.asarray(hits, bool)
    return Answers(logits=np.stack([~hits, hits], axis=-1).astype(np.float32))


def lost_and_won(total, lost, won, already_wrong=10, **tolerance):
    """The row of a file that loses some answers of Keras and wins others."""
    keras = np.ones(total, bool)
    keras[: won + already_wrong] = False
    phone = keras.copy()
    phone[:won] = True
    phone[total - lost :] = False
    metric = accuracy(two_classes(keras), [1] * total, **tolerance)
    score, row = metric.measured(two_classes(phone))
    assert metric.of_keras == keras.mean()
    assert score == phone.mean()
    return row("form")


def test_a_loss_beyond_a_point_and_beyond_chance_fails():
    """18 of 872 net: 2.06%, where 1% and 1.645 * sqrt(22) / 872 = 0.88% are allowed."""
    row = lost_and_won(872, lost=20, won=2)
    assert row.value == pytest.approx(18 / 872)
    assert row.limit == pytest.approx(0.01 + 1.645 * 22**0.5 / 872)
    assert row.limit == pytest.approx(0.018848, abs=1e-6)
    assert not row.passed
    assert row.check == f"accuracy lost, of {1 - 12 / 872:.4f} on 872 answers"


def test_as_much_by_chance_passes():
    """16 of 872 net, of 30 that changed: 1.83%, of 2.03% that are allowed."""
    row = lost_and_won(872, lost=23, won=7)
    assert (row.passed, row.value) == (True, pytest.approx(16 / 872))
    # Of as many that are lost and none that is won, chance explains less.
    assert not lost_and_won(872, lost=17, won=0).passed


def test_one_answer_of_few_passes():
    """1 of 40 is 2.5%, and 1% and 1.645 / 40 = 4.1% are allowed."""
    row = lost_and_won(40, lost=1, won=0)
    assert row.limit == pytest.approx(0.01 + 0.041125)
    assert row.passed
    assert not lost_and_won(40, lost=5, won=0).passed  # 12.5%, of 10.2%


def test_what_is_lost_may_be_allowed():
    assert lost_and_won(872, lost=20, won=2, metric_loss=0.012).passed
    assert lost_and_won(872, lost=20, won=2, metric_loss=0.011).passed is False


def test_what_is_won_is_no_loss():
    row = lost_and_won(100, lost=0, won=8)
    assert (row.value, row.passed) == (-0.08, True)


def test_answers_at_places_are_judged_each_by_itself():
    """Of two texts with three and one: two of the four are right."""
    logits = np.zeros((2, 4, 3), np.float32)
    for text, place, tag in ((0, 0, 2), (0, 1, 1), (0, 3, 0), (1, 2, 1)):
        logits[text, place, tag] = 1.0
    places = [np.array([0, 1, 3]), np.array([2])]
    metric = accuracy(Answers(logits=logits), [[2, 0, 0], [2]], places)
    assert metric.keras.tolist() == [True, False, True, False]
    wrong = logits.copy()
    wrong[0, 3, 1] = 2.0
    wrong[0, 2, 1] = 9.0  # nobody asks about this place
    score, row = metric.measured(Answers(logits=wrong))
    assert (score, row("form").value) == (0.25, 0.25)


def test_a_span_is_right_if_both_its_ends_are():
    ends = {
        "start_logits": np.eye(5, dtype=np.float32)[[1, 1, 2]],
        "end_logits": np.eye(5, dtype=np.float32)[[3, 4, 3]],
    }
    metric = accuracy(
        Answers(**ends), [[1, 3]] * 3, outputs=("start_logits", "end_logits")
    )
    assert metric.keras.tolist() == [True, False, False]


def test_answers_that_are_no_numbers_fail():
    """Though the first of them is what `argmax` finds, and would be right here."""
    keras, right = np.arange(60) % 2, [0] * 60
    logits = np.stack([keras == 0, keras == 1], axis=-1).astype(np.float32)
    metric = accuracy(Answers(logits=logits), right)
    score, row = metric.measured(Answers(logits=np.full_like(logits, np.nan)))
    assert (score, row("form").passed) == (0.0, False)


def test_perplexity_is_worked_out_over_all_tokens():
    """e to the mean of 1, 2 and 6, not the mean of means."""
    surprise = [np.array([1.0, 2.0]), np.array([6.0])]
    metric = PerplexityMetric(toy(), surprise, lambda of: of)
    assert metric.of_keras == pytest.approx(np.exp(3))
    for more, passed in ((0.019, True), (0.021, False), (-0.5, True)):
        asked = [of + np.log(1 + more) for of in surprise]
        score, row = metric.measured(asked)
        assert score == pytest.approx(np.exp(3) * (1 + more))
        made = row("form")
        assert (made.value, made.passed) == (pytest.approx(more), passed)
        assert (made.limit, made.form) == (0.02, "form")
    _, row = metric.measured([np.array([1.0, np.nan]), np.array([6.0])])
    assert not row("form").passed


def test_perplexity_of_masks_by_hand(trained, exported, tmp_path):
    """At the places that are hidden, with the record's own ids."""
    ids = some_ids(trained, 10)
    mask = trained.tokenizer.special.mask
    hidden = [*ids[:3], mask, *ids[4:8], mask, ids[9]]
    write_records(
        tmp_path,
        "validation",
        [
            static_masks(
                hidden, [1] * 10, [3, 8, 0], [ids[3], ids[8], 0], [1.0, 1.0, 0.0]
            )
        ],
    )
    metric = make_task_metric(trained, tmp_path)
    assert metric is not None
    batch = {
        "token_ids": np.array([hidden]),
        "padding_mask": np.ones((1, 10), np.int32),
        "masked_positions": np.array([[3, 8]]),
    }
    logits = trained.model(batch, training=False)["logits"].numpy()[0]
    chosen = log_softmax(logits)[[0, 1], [ids[3], ids[8]]]
    assert metric.of_keras == pytest.approx(np.exp(-chosen.mean()), rel=1e-5)
    score, row = metric.measured(TFLiteRunner(exported.tflite / "model_float32.tflite"))
    assert score == pytest.approx(metric.of_keras, rel=1e-4)
    assert row("form").passed


def static_masks(ids, documents, positions, masked_ids, weights):
    return {
        "token_ids": ids,
        "document_ids": documents,
        "masked_positions": positions,
        "masked_ids": masked_ids,
        "masked_weights": weights,
    }


def of_kind(trained, objective, segments=False):
    """A model of another kind, as far as its records are asked about."""
    names = ["token_ids", "padding_mask", *(["segment_ids"] if segments else [])]
    if isinstance(objective, MaskedConfig):
        names.append("masked_positions")
    return SimpleNamespace(
        config=replace(
            trained.config,
            objective=objective,
            export=replace(trained.config.export, examples=()),
        ),
        tokenizer=trained.tokenizer,
        calibration=NOT_CALIBRATED,
        model=SimpleNamespace(input=dict.fromkeys(names)),
    )


def listed(question):
    inputs = {name: of.tolist() for name, of in question.inputs.items()}
    return inputs, np.asarray(question.right).tolist(), question.positions


def test_masks_of_a_record_are_those_of_its_documents(trained, tmp_path):
    """Of two documents; as many as the file has room for, in their own places."""
    ids = [2, 11, 4, 4, 4, 4, 4, 3, 2, 4, 12, 3, 0, 0]
    documents = [1] * 8 + [2] * 4 + [0] * 2
    record = static_masks(
        ids,
        documents,
        [2, 3, 4, 5, 6, 9, 0],
        [21, 22, 23, 24, 25, 26, 0],
        [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0],
    )
    write_records(tmp_path, "validation", [record])
    first, second = labelled(trained, tmp_path)
    room = trained.config.export.tflite_masks
    assert room == 4
    inputs, right, places = listed(first)
    assert (right, places) == ([21, 22, 23, 24], None)
    assert inputs == {
        "token_ids": ids[:8],
        "padding_mask": [1] * 8,
        "masked_positions": [2, 3, 4, 5],
    }
    inputs, right, _ = listed(second)
    assert right == [26]
    assert inputs == {
        "token_ids": ids[8:12],
        "padding_mask": [1] * 4,
        "masked_positions": [1],
    }


def test_where_a_record_hides_nothing_every_seventh_token_is_hidden(trained, tmp_path):
    """From the fourth on, but what frames a text; and the record stays as it is."""
    ordinary = some_ids(trained, 19)
    ids = [2, *ordinary[:8], 3, 2, *ordinary[8:18], 3]  # 3, 10, 17: 10 is a [CLS]
    documents = [1] * 10 + [2] * 12
    write_records(
        tmp_path, "validation", [{"token_ids": ids, "document_ids": documents}]
    )
    mask = trained.tokenizer.special.mask
    first, second = labelled(trained, tmp_path)
    for question, start, end, place in ((first, 0, 10, 3), (second, 10, 22, 7)):
        inputs, right, _ = listed(question)
        expected = ids[start:end]
        assert right == [expected[place]]
        expected[place] = mask
        assert inputs["token_ids"] == expected
        assert inputs["masked_positions"] == [place]
    write_records(
        tmp_path,
        "validation",
        [{"token_ids": ids[:3], "document_ids": [1, 1, 1]}],
    )
    assert list(labelled(trained, tmp_path)) == []


@pytest.mark.parametrize(
    ("objective", "segments"),
    [
        (ClassificationConfig(labels=("a", "b", "c")), False),
        (PairClassificationConfig(labels=("a", "b", "c")), True),
    ],
)
def test_labels_of_texts(trained, tmp_path, objective, segments):
    """Without the padding, and with segments only where the model tells them apart."""
    record = {
        "token_ids": [2, 9, 3, 8, 3, 0, 0],
        "document_ids": [1] * 5 + [0] * 2,
        "segment_ids": [0, 0, 0, 1, 1, 0, 0],
        "label": 2,
    }
    write_records(tmp_path, "validation", [record, record | {"label": 0}])
    first, second = labelled(of_kind(trained, objective, segments), tmp_path)
    expected = {"token_ids": [2, 9, 3, 8, 3], "padding_mask": [1] * 5}
    if segments:
        expected["segment_ids"] = [0, 0, 0, 1, 1]
    assert listed(first) == (expected, [2], None)
    assert listed(second) == (expected, [0], None)


def test_tags_are_those_of_each_document_where_one_is_asked_for(trained, tmp_path):
    record = {
        "token_ids": [2, 9, 8, 3, 2, 7, 3, 2, 6, 6, 3, 0],
        "document_ids": [1] * 4 + [2] * 3 + [3] * 4 + [0],
        "label_ids": [0, 1, 2, 0, 0, 5, 0, 0, 3, 4, 0, 0],
        "label_weights": np.array([0, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0], np.float32),
    }
    write_records(tmp_path, "validation", [record])
    objective = TokenClassificationConfig(labels=tuple("abcdef"))
    first, last = labelled(of_kind(trained, objective), tmp_path)  # none of the second
    assert first.inputs["token_ids"].tolist() == [2, 9, 8, 3]
    assert (first.right.tolist(), first.positions.tolist()) == ([1, 2], [1, 2])
    assert last.inputs["token_ids"].tolist() == [2, 6, 6, 3]
    assert (last.right.tolist(), last.positions.tolist()) == ([3], [1])


def test_a_span_has_two_places(trained, tmp_path):
    objective = SpanQAConfig(stride=7, max_question_length=8)
    record = {
        "token_ids": [2, 9, 3, 8, 7, 6, 3, 0],
        "document_ids": [1] * 7 + [0],
        "segment_ids": [0] * 3 + [1] * 4 + [0],
        "start_position": 3,
        "end_position": 5,
        "context_start": 0,
    }
    write_records(tmp_path, "validation", [record])
    (one,) = labelled(of_kind(trained, objective, segments=True), tmp_path)
    inputs, right, places = listed(one)
    assert (right, places) == ([3, 5], None)
    assert inputs == {
        "token_ids": [2, 9, 3, 8, 7, 6, 3],
        "padding_mask": [1] * 7,
        "segment_ids": [0] * 3 + [1] * 4,
    }


def test_images_have_their_shape_and_label(trained, tmp_path):
    image = np.arange(2 * 2 * 3, dtype=np.uint8)
    write_records(tmp_path, "validation", [{"image": image.tobytes(), "label": 1}])
    objective = ImageClassificationConfig(labels=("cat", "dog"), image_size=2)
    (one,) = labelled(of_kind(trained, objective), tmp_path)
    assert one.inputs["image"].tolist() == image.reshape(2, 2, 3).tolist()
    assert one.right.tolist() == [1]


def test_keras_is_asked_some_rows_at_a_time(trained):
    """And fills them up, which is seen in no answer."""
    questions = []
    for number in range(19):
        ids = np.array(some_ids(trained, 4 + number % 7, seed=number), np.int32)
        places = np.array([1, 3][: 1 + number % 2], np.int32)
        inputs = {
            "token_ids": ids,
            "padding_mask": np.ones_like(ids),
            "masked_positions": places,
        }
        questions.append(ValidationExample(inputs, ids[places]))
    found = run_keras(trained, questions)
    assert len(found) == len(questions)
    for one, outputs in zip(questions, found, strict=True):
        alone = {name: row[np.newaxis] for name, row in one.inputs.items()}
        expected = trained.model(alone, training=False)["logits"].numpy()[0]
        logits = outputs["logits"][: len(one.right)]
        np.testing.assert_allclose(logits, expected, atol=2e-5, rtol=0)


@pytest.mark.parametrize("objective", [RegressionConfig(), SentencePairsConfig()])
def test_records_that_tell_no_answer(trained, run_folder, objective):
    assert (
        make_task_metric(of_kind(trained, objective, segments=True), run_folder) is None
    )


def test_labels_that_are_all_the_same_leave_nothing_to_explain(trained, tmp_path):
    record = {"token_ids": [2, 9, 3], "document_ids": [1] * 3}
    label = np.array([2.5], np.float32)
    write_records(tmp_path, "validation", [record | {"label": label}] * 3)
    assert make_task_metric(of_kind(trained, RegressionConfig()), tmp_path) is None


def test_of_numbers_the_share_of_the_variance_is_judged():
    """Labels 1, 2, 3, 4 have the variance 1.25; errors of 0.5 leave 0.25 of it."""
    labels = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
    questions = [
        ValidationExample({"number": np.array([number])}, labels[number : number + 1])
        for number in range(4)
    ]
    trained = toy()
    trained.model = Scores(labels + 0.5)
    metric = Explained(trained, "regress_ids", questions)
    assert metric.of_keras == pytest.approx(1 - 0.25 / 1.25)
    score, row = metric.measured(Scores(labels + 0.51))
    assert score == pytest.approx(1 - 0.2601 / 1.25, rel=1e-5)
    made = row("form")
    assert (made.value, made.limit) == (pytest.approx(0.0101 / 1.25, rel=1e-4), 0.01)
    assert made.passed
    assert made.check == "R squared lost, of 0.8000 on 4 texts"
    for wrong in (labels + 0.52, np.full(4, np.nan)):  # 0.0204 / 1.25 is 0.0163
        assert not metric.measured(Scores(wrong))[1]("form").passed


class Scores:
    """As `Answers`, of a model that gives numbers: (1,) on a phone, (B,) in Keras."""

    def __init__(self, scores):
        self.scores = scores

    def ask(self, signature, *, number):
        assert signature == "regress_ids"
        return {"score": self.scores[number[0]]}

    def __call__(self, batch, training):
        return {"score": self.scores[batch["number"][:, 0]]}


@pytest.mark.parametrize(
    "objective",
    [
        ClassificationConfig(labels=("a", "b")),
        TokenClassificationConfig(labels=("a", "b")),
        SpanQAConfig(stride=7, max_question_length=8),
    ],
)
def test_records_without_a_label_are_passed_over(
    trained, run_folder, tmp_path, objective
):
    """Those of texts alone, which whoever has no labels writes."""
    model = of_kind(trained, objective)
    assert make_task_metric(model, run_folder) is None
    told = {
        "token_ids": [2, 9, 3],
        "document_ids": [1, 1, 1],
        "label": 1,
        "label_ids": [0, 1, 0],
        "label_weights": np.array([0, 1, 0], np.float32),
        "start_position": 1,
        "end_position": 1,
    }
    silent = {name: told[name] for name in ("token_ids", "document_ids")}
    write_records(tmp_path, "validation", [silent, told, silent])
    (one,) = labelled(model, tmp_path)
    assert set(one.right.tolist()) == {1}


def test_without_records_there_is_no_metric(trained, tmp_path):
    assert make_task_metric(trained, tmp_path) is None
    assert make_task_metric(small_trained("gpt2_small"), tmp_path) is None


def test_records_without_what_is_to_be_written_tell_a_writer_nothing(run_folder):
    assert make_task_metric(small_trained("t5_small"), run_folder) is None


def small_trained(name):
    return SimpleNamespace(config=small(name))


def test_a_prefix_is_given_and_only_what_follows_is_judged(tmp_path):
    """Of two texts in one record; a third is all prefix, and nothing is asked of it."""
    trained, files = shared(**PREFIX)
    rows = [some_ids(trained, number, seed=number) for number in (9, 6, 4)]
    given = (5, 1, 4)
    record = {
        "token_ids": [*rows[0], *rows[1], *rows[2]],
        "document_ids": [1] * 9 + [2] * 6 + [3] * 4,
        "prefix_mask": [1] * 5 + [0] * 4 + [1] + [0] * 5 + [1] * 4,
    }
    write_records(tmp_path, "validation", [record])
    metric = make_task_metric(trained, tmp_path)
    assert metric is not None
    surprise = []
    for row, number in zip(rows[:2], given, strict=False):
        logits = keras_logits(trained, row[:-1], given=number)[number - 1 :]
        chosen = log_softmax(logits)[np.arange(len(row) - number), row[number:]]
        surprise += (-chosen).tolist()
    assert len(surprise) == 4 + 5
    expected = np.exp(np.mean(surprise))
    assert metric.of_keras == pytest.approx(expected, rel=1e-5)
    made, scores = check_metric(metric, {"float32": files["float32"]})
    assert scores["float32"] == pytest.approx(expected, rel=1e-4)
    assert [row.passed for row in made] == [True]


@pytest.mark.parametrize("writer", [GPT2, T5], ids=["gpt2_small", "t5_small"])
def test_a_writers_perplexity_is_that_of_keras_on_the_whole_text(writer, tmp_path):
    """Of each token after the first, given those before it."""
    trained, files = shared(**writer)
    has_source = trained.config.model.kind != "decoder"
    rows = [some_ids(trained, 5 + 3 * number, seed=number) for number in range(4)]
    rows.append(some_ids(trained, 1))  # of which nothing is asked
    sources = [some_ids(trained, 7, seed=9 + number) for number in range(5)]
    sides = {"encoder_": sources, "decoder_": rows} if has_source else {"": rows}
    records = [
        {
            f"{side}{key}": values
            for side, texts in sides.items()
            for key, values in {
                "token_ids": texts[number],
                "document_ids": [1] * len(texts[number]),
            }.items()
        }
        for number in range(5)
    ]
    write_records(tmp_path, "validation", records)
    metric = make_task_metric(trained, tmp_path)
    assert metric is not None
    surprise = []
    for row, source in zip(rows[:4], sources, strict=False):
        logits = keras_logits(trained, row[:-1], source if has_source else None)
        chosen = log_softmax(logits)[np.arange(len(row) - 1), row[1:]]
        surprise += (-chosen).tolist()
    assert len(surprise) == 4 + 7 + 10 + 13
    expected = np.exp(np.mean(surprise))
    assert metric.of_keras == pytest.approx(expected, rel=1e-5)
    made, scores = check_metric(metric, {"float32": files["float32"]})
    assert scores["float32"] == pytest.approx(expected, rel=1e-4)
    assert [(row.form, row.passed) for row in made] == [("TFLite float32", True)]


def test_a_file_that_cannot_be_asked_is_a_failed_row(exported):
    def ask(model):
        raise RuntimeError("failed to prepare\nin some line")

    files = {"float32": exported.tflite / "model_float32.tflite"}
    rows, scores = check_metric(PerplexityMetric(toy(), [np.ones(2)], ask), files)
    assert scores == {}
    assert [(row.form, row.check, row.passed) for row in rows] == [
        ("TFLite float32", "does not run (failed to prepare)", False)
    ]


def test_texts_are_read_as_far_as_the_cache_and_all_of_them_go(monkeypatch):
    texts = [perplexity._Text(np.arange(10)) for _ in range(3)]
    monkeypatch.setattr(perplexity, "_texts", lambda *_: texts)
    monkeypatch.setattr(perplexity, "_TOKENS", 6)
    config = SimpleNamespace(export=SimpleNamespace(tflite_cache=4))
    bounded = list(perplexity._bounded(SimpleNamespace(config=config), None))
    # Four tokens are asked for where five are read; then two of six are left.
    assert [text.ids.tolist() for text in bounded] == [[0, 1, 2, 3, 4], [0, 1, 2]]
