"""Cases of coreference: nothing but the pronoun tells the antecedent."""

from collections import Counter

from transbeam.trainer.analysis.syntax.coreference_cases import make_coreference_cases

CASES = make_coreference_cases()
HE = {"king", "boy", "uncle", "father", "husband", "prince", "man", "son"}


def words(case):
    return [case.text[start:end] for start, end in case.offsets]


def test_the_antecedent_agrees_with_the_pronoun():
    for case in CASES:
        pronoun, antecedent, distractor = words(case)
        assert (antecedent in HE) == (pronoun == "he")
        assert (distractor in HE) == (pronoun == "she")


def test_guesses_without_the_pronoun_are_right_half_of_the_time():
    nearest = Counter(case.offsets[1][0] > case.offsets[2][0] for case in CASES)
    assert nearest == {True: len(CASES) // 2, False: len(CASES) // 2}
    for noun in {word for case in CASES for word in words(case)[1:]}:
        right = sum(words(case)[1] == noun for case in CASES)
        assert right == sum(words(case)[2] == noun for case in CASES)


def test_a_frame_has_both_pronouns():
    frames: dict[int, list] = {}
    for case in CASES:
        frames.setdefault(case.frame, []).append(case)
    assert sorted(frames) == list(range(64))
    for one, other in frames.values():
        assert {words(one)[0], words(other)[0]} == {"he", "she"}
        assert one.text.replace(" he ", " she ") == other.text.replace(" he ", " she ")


def test_texts_differ():
    assert len({case.text for case in CASES}) == len(CASES)
    assert make_coreference_cases() == CASES
