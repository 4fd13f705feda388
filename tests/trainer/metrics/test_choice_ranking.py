"""Rankings of choices: values by hand."""

import numpy as np

from transbeam.trainer.metrics.choice_ranking import ChoiceAccuracy, rank_choices


def test_a_long_choice_wins_per_character():
    found = rank_choices(np.array([-6.0, -7.5]), ["no", "perhaps"], [1, 2])
    # -6 < -7.5; per token -6 < -3.75; per character -3.0 < -1.071
    assert found == {
        "accuracy": 0,
        "accuracy_per_token": 1,
        "accuracy_per_character": 1,
        "accuracy_per_byte": 1,
    }


def test_bytes_are_not_characters():
    found = rank_choices(np.array([-6.0, -6.3]), ["ja", "né"], [1, 1])
    # per character -3.0, -3.15; per byte -3.0, -2.1
    assert found["accuracy_per_character"] == 0
    assert found["accuracy_per_byte"] == 1


def test_a_choice_that_the_question_makes_likelier():
    unconditional = np.array([-2.0, -5.0])
    found = rank_choices(np.array([-4.0, -4.5]), ["a", "b"], [1, 1], unconditional)
    assert found["accuracy"] == 0  # -4.0 > -4.5
    assert found["accuracy_over_unconditional"] == 1  # -2.0 < 0.5


def test_of_equal_choices_the_first_is_chosen():
    assert set(rank_choices(np.array([-1.0, -1.0]), ["a", "b"], [1, 1]).values()) == {0}


def test_accuracy_counts_each_ranking_apart():
    metric = ChoiceAccuracy(("accuracy", "accuracy_per_byte"))
    chosen = [{"accuracy": n % 2, "accuracy_per_byte": 0} for n in range(4)]
    sums = metric.statistics(chosen, [0, 1, 0, 0]).sum(axis=0)
    found = {name: score.item() for name, score in metric.scores(sums).items()}
    assert found == {"accuracy": 0.75, "accuracy_per_byte": 0.75}
