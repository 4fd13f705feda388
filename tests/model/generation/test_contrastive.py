import numpy as np
import pytest

from tests.model.generation.fake_model import table_model
from tests.model.generation.test_generate import PROMPTS, write
from transbeam.configs.schema.generation import ContrastiveConfig, GenerationConfig
from transbeam.model.generation.decode_functions import DecodeFunctions
from transbeam.model.generation.generate import generate

MODEL = table_model()


def plain_search(prompt, k, penalty, number):
    """Su et al., 2022, equation 5, one text at a time."""
    tokens = list(prompt)
    states = [
        MODEL.states[MODEL.state_after(tokens[: end + 1])] for end in range(len(tokens))
    ]
    for _ in range(number):
        logits = MODEL.logits_after(tokens).astype("float64")
        chances = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        options = []
        for token in np.argsort(-chances)[:k]:
            state = MODEL.states[MODEL.state_after([*tokens, int(token)])]
            likeness = max(
                state @ other / np.linalg.norm(state) / np.linalg.norm(other)
                for other in states
            )
            value = (1 - penalty) * chances[token] - penalty * likeness
            options.append((value, int(token), state))
        _, token, state = max(options, key=lambda option: option[0])
        tokens.append(token)
        states.append(state)
    return tokens[len(prompt) :]


@pytest.mark.parametrize(("k", "penalty"), [(3, 0.6), (5, 0.9)])
def test_equals_the_plain_search(k, penalty):
    method = ContrastiveConfig(top_k=k, penalty=penalty)
    expected = [plain_search(prompt, k, penalty, 8) for prompt in PROMPTS]
    assert write(method=method) == expected
    assert write(method=method) != write()


def test_without_a_penalty_it_is_greedy():
    method = ContrastiveConfig(top_k=4, penalty=0.0)
    assert write(method=method, stop_token_ids=(7,)) == write(stop_token_ids=(7,))


def test_a_model_that_keeps_no_hidden_states_is_refused():
    def prefill(token_ids, padding_mask, slots):
        logits, cache = MODEL.steps.prefill(token_ids, padding_mask, slots)
        return logits, {name: cache[name] for name in ("added", "mask")}

    config = GenerationConfig(method=ContrastiveConfig())
    with pytest.raises(ValueError, match="keep_hidden=True"):
        generate(
            DecodeFunctions(prefill, MODEL.steps.step), np.array([[1]]), config=config
        )
