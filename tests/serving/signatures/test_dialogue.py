"""Models that reply: prompts with the template's tokens, replies with their ends."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tests.serving.conftest import LENGTH, TINY
from tests.serving.signatures.generation_reference import (
    SMALL,
    log_likelihood,
    logits_of,
    rows_of,
)
from tests.serving.signatures.parity_scenario import Scene
from transbeam.configs.cli.progress import SilentBar
from transbeam.configs.schema.evaluation import EvaluationConfig
from transbeam.configs.schema.model import DecoderConfig
from transbeam.configs.schema.objectives.supervised import DialogueConfig
from transbeam.configs.schema.tokenizer import ByteBPEConfig
from transbeam.pipeline.objectives.dialogue import chat_format
from transbeam.serving.parity.export_parity import require_passed
from transbeam.trainer.evaluation.batch_generate import write_answers

NEW = 4
END = "<|endoftext|>"
TALK = [
    {"role": "user", "content": "a list"},
    {"role": "assistant", "content": "of"},
    {"role": "user", "content": "it"},
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The trained run, and a function that calls its signatures."""
    config = replace(
        TINY,
        objective=DialogueConfig(chat_template="plain"),
        tokenizer=ByteBPEConfig(vocabulary_size=300),
        evaluation=EvaluationConfig(max_new_tokens=NEW),
        model=DecoderConfig(**{**SMALL, "max_sequence_length": 2 * LENGTH}),
        export=replace(TINY.export, examples=()),
    )
    scene = Scene.of(tmp_path_factory.mktemp("dialogue") / "run", config)
    prompt = chat_format(scene.trained.tokenizer).render_prompt(TALK)
    return SimpleNamespace(
        trained=scene.trained, ask=scene.ask, scene=scene, prompt=prompt
    )


def test_the_template_s_special_tokens_are_read_as_such(run) -> None:
    assert run.prompt == f"User: a list\nAssistant: of{END}\nUser: it\nAssistant:"
    (ids,) = rows_of(run.ask("tokenize", {"text": [run.prompt]}))
    end = run.trained.tokenizer.special.end
    assert ids.count(end) == 1
    before, after = run.prompt.split(END)
    apart = run.trained.tokenizer.tokenize([before, after]).to_list()
    assert ids == [*apart[0], end, *apart[1]]


def test_a_score_is_that_of_the_reply_with_its_end(run) -> None:
    tokenizer = run.trained.tokenizer
    found = run.ask("score", {"text": [run.prompt], "target_text": ["the list"]})
    prompt, reply = tokenizer.tokenize([run.prompt, " the list"]).to_list()
    after = [*reply, tokenizer.special.end]
    logits = logits_of(run.trained.model, token_ids=[*prompt, *after])
    expected = log_likelihood(logits[len(prompt) - 1 : -1], after)
    assert found["log_likelihood"][0] == pytest.approx(expected, rel=1e-4)
    assert found["num_tokens"][0] == len(after)


def test_the_trainer_writes_the_replies_of_the_export(run) -> None:
    prompts = [run.prompt, "User: a\nAssistant:"]
    trained = run.trained
    written = write_answers(
        [prompt.encode() for prompt in prompts],
        trained.model,
        trained.tokenizer,
        trained.config,
        SilentBar(),
    )
    answers = run.ask("serving_default", {"text": prompts})
    assert written == [text.decode() for text in answers["generated_text"]]
    assert not any(text.startswith(" ") for text in written)


def test_parity_is_checked(run) -> None:
    require_passed(run.scene.judge.saved_model_rows("functions", run.ask))


def test_a_batch_of_prompts_is_that_of_each_alone(run) -> None:
    prompts = [run.prompt, "User: a\nAssistant:"]
    together = rows_of(run.ask("serving_default", {"text": prompts}))
    alone = [rows_of(run.ask("serving_default", {"text": [p]}))[0] for p in prompts]
    assert together == alone
    assert np.all([len(row) <= NEW for row in together])
