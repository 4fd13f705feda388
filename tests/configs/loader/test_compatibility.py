"""The model against the objective and the records."""

from pathlib import Path
from typing import get_args

import pytest

import transbeam
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.reflection import section_kind
from transbeam.configs.loader.yaml_config import parse_run
from transbeam.configs.schema.objectives.objective import Objective
from transbeam.configs.schema.objectives.traits import TRAITS
from transbeam.model.__main__ import main as check_main

TEXTS = "name: x\ndata:\n  source: {kind: text, path: x}\n  sequence_length: 128\n"
IMAGES = "name: x\ndata: {source: {kind: images, path: x}}\n"
CLASSES = "objective: {kind: image_classification, labels: [a, b]}\n"
PATCHES = "model: {patches: {image_size: 224}}\n"


def error_of(text: str) -> str:
    parse_run(text, "f")  # records can be made
    with pytest.raises(ConfigError) as caught:
        parse_run(text, "f", with_model=True)
    return str(caught.value)


OBJECTIVES = {
    "text_to_text": ", source: 'a {text}'",
    "completion": ", prompt: 'a {text}'",
    **dict.fromkeys(
        (
            "classification",
            "multi_label_classification",
            "pair_classification",
            "token_classification",
            "image_classification",
        ),
        ", labels: [a, b]",
    ),
}
MODELS = {
    "encoder": "model: {kind: encoder}\n",
    "decoder": "model: {kind: decoder}\n",
    "seq2seq": "model: {kind: seq2seq}\n",
}


def objective_of(kind: str) -> str:
    return f"objective: {{kind: {kind}{OBJECTIVES.get(kind, '')}}}\n"


def test_every_objective_has_a_family() -> None:
    assert sorted(TRAITS) == sorted(map(section_kind, get_args(Objective)))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("objective", TRAITS)
def test_objective_and_family(objective: str, model: str) -> None:
    text = TEXTS + objective_of(objective) + MODELS[model]
    needed = TRAITS[objective].models
    if model not in needed:
        named = " or ".join(
            {"e": "an ", "d": "a ", "s": "a "}[n[0]] + n for n in needed
        )
        keys = " or ".join(f"`kind: {each}`" for each in needed)
        assert error_of(text).startswith(
            f"f:6: model.kind={model} does not go with objective.kind={objective}, "
            f"which trains {named}. Write {keys} in `model`"
        )
    elif objective != "image_classification":
        parse_run(text, "f", with_model=True)


QUESTION_IS_GLOBAL = (
    "model:\n  attention: {kind: global_window, num_global_tokens: NUMBER, "
    "global_tokens: first_segment}\n"
)


@pytest.mark.parametrize("kind", TRAITS)
def test_a_first_segment_is_global_where_there_are_two(kind: str) -> None:
    text = TEXTS + objective_of(kind) + QUESTION_IS_GLOBAL.replace("NUMBER", "66")
    if TRAITS[kind].has_segments:
        parse_run(text, "f", with_model=True)
    elif "encoder" in TRAITS[kind].models and kind != "image_classification":
        assert error_of(text).startswith(
            "f:7: model.attention.global_tokens=first_segment: the records of "
            f"objective.kind={kind} have no two texts, of which the first could be "
            "global, as those of sentence_pairs, pair_classification, pair_regression, "
            "span_qa have."
        )


def test_a_question_is_global_as_a_whole() -> None:
    text = TEXTS + objective_of("span_qa") + QUESTION_IS_GLOBAL
    assert error_of(text.replace("NUMBER", "65")).startswith(
        "f:7: model.attention.num_global_tokens=65 is less than 66, the longest "
        "question with [CLS] and [SEP]"
    )
    shorter = text.replace("kind: span_qa", "kind: span_qa, max_question_length: 63")
    parse_run(shorter.replace("NUMBER", "65"), "f", with_model=True)
    # Of other pairs, the first text may be longer.
    pair = TEXTS + objective_of("pair_regression") + QUESTION_IS_GLOBAL
    parse_run(pair.replace("NUMBER", "1"), "f", with_model=True)


def test_images_have_no_segments_to_be_global() -> None:
    attention = QUESTION_IS_GLOBAL.removeprefix("model:\n").replace("NUMBER", "1")
    model = f"model:\n  patches: {{image_size: 224}}\n{attention}"
    assert "have no two texts" in error_of(IMAGES + CLASSES + model)


def test_model_that_is_left_out_has_its_place_at_the_objective() -> None:
    message = error_of(TEXTS + "objective:\n  kind: causal\n")
    assert message.startswith("f:6: model.kind=encoder does not go with objective.kind")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            TEXTS + "model: {max_sequence_length: 127}\n",
            "f:4: data.sequence_length=128 is more than model.max_sequence_length=127. "
            "Make the records shorter, or the model's longest input longer.",
        ),
        (
            "name: x\ndata: {source: {kind: text, path: x}}\n"
            "model: {max_sequence_length: 127}\n",
            "f:3: data.sequence_length=128 is more than model.max_sequence_length=127.",
        ),
        (
            TEXTS + "objective:\n  kind: seq2seq\n  decoder_length: 513\n"
            "model: {kind: seq2seq}\n",
            "f:7: objective.decoder_length=513 is more than "
            "model.max_sequence_length=512.",
        ),
        (
            TEXTS + "objective:\n  kind: span_corruption\n  noise_density: 0.5\n"
            "  mean_noise_span_length: 1.0\n"
            "model: {kind: seq2seq, max_sequence_length: 383}\n",
            "f:9: objective.decoder_length=384 (left out, by the encoder's) is more "
            "than model.max_sequence_length=383.",
        ),
        (
            TEXTS + "objective: {kind: prefix}\n"
            "model:\n  kind: decoder\n  attention:\n    kind: sliding_window\n",
            "f:9: model.attention.kind=sliding_window does not go with "
            "objective.kind=prefix, whose tokens all see the whole prefix",
        ),
        (
            TEXTS + "objective: {kind: contrastive_pairs}\n"
            "export: {embedding_pooling: max}\n",
            "f:6: export.embedding_pooling=max is not the pooling that "
            "objective.kind=contrastive_pairs trains, model.pooler.kind=mean",
        ),
        (
            TEXTS + "objective: {kind: contrastive_pairs}\n"
            "model: {kind: decoder}\nexport: {embedding_pooling: end_token}\n",
            "f:7: export.embedding_pooling=end_token is not the pooling that "
            "objective.kind=contrastive_pairs trains, model.pooler.kind=last",
        ),
        (
            TEXTS + "model:\n  patches: {image_size: 64}\n",
            "f:6: model.patches: the model reads images, and the records of "
            "objective.kind=masked are texts. Remove `patches`",
        ),
        (
            IMAGES + CLASSES,
            "f:3: objective.kind=image_classification needs a model that reads images. "
            "Write `patches: {image_size: 224, num_channels: 3}` in `model`",
        ),
        (
            IMAGES + CLASSES + "model: {patches: {image_size: 112}}\n",
            "f:4: model.patches.image_size=112 is not objective.image_size=224: make",
        ),
        (
            IMAGES + CLASSES + "model: {patches: {num_channels: 1}}\n",
            "f:4: model.patches.num_channels=1 is not objective.channels=3: make them",
        ),
    ],
)
def test_refused(text: str, message: str) -> None:
    assert error_of(text).startswith(message)


@pytest.mark.parametrize(
    "text",
    [
        TEXTS + "objective: {kind: sentence_pairs}\nmodel: {num_segments: 2}\n",
        TEXTS + "objective: {kind: span_qa}\nmodel: {num_segments: 2}\n",
        TEXTS + "model: {num_segments: 1}\n",
        TEXTS + "model: {num_segments: 2}\n",
        TEXTS + "objective: {kind: prefix}\nmodel: {kind: decoder}\n",
        TEXTS + "objective: {kind: contrastive_pairs}\n"
        "model: {pooler: {kind: first}}\nexport: {embedding_pooling: first}\n",
        TEXTS + "objective: {kind: contrastive_pairs}\n"
        "model: {kind: decoder, pooler: {kind: end_token}}\n"
        "export: {embedding_pooling: end_token}\n",
        TEXTS + "objective: {kind: causal}\n"
        "model: {kind: decoder, attention: {kind: kernel}}\n",
        TEXTS + "objective: {kind: seq2seq, decoder_length: 512}\n"
        "model: {kind: seq2seq}\n",
        # The data's length says nothing of images.
        IMAGES.replace("}}", "}, sequence_length: 4096}") + CLASSES + PATCHES,
    ],
)
def test_allowed(text: str) -> None:
    parse_run(text, "f", with_model=True)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("{}", "encoder of 4 blocks, 256 wide, 4 heads; attention full, position "),
        (
            "{kind: decoder, attention: {num_key_value_heads: 2}}",
            "decoder of 4 blocks, 256 wide, 4 heads on 2 of keys and values; attention "
            "full, position learned\n",
        ),
        (
            "{kind: seq2seq, num_decoder_layers: 2, attention: {kind: block_sparse}, "
            "decoder_attention: {kind: sliding_window}, position: {kind: rope}}",
            "seq2seq of 4 and 2 blocks, 256 wide, 4 heads; attention block_sparse and "
            "sliding_window, position rope\n",
        ),
    ],
)
def test_check_says_what_the_model_is(
    tmp_path: Path, capsys, model: str, said: str
) -> None:
    objective = {"{}": "masked", "{kind: d": "causal", "{kind: s": "span_corruption"}
    file = tmp_path / "run.yaml"
    objective = objective_of(objective[model[:8]])
    pieces = "tokenizer: {num_sentinels: 8}\n"
    file.write_text(f"{TEXTS}{pieces}{objective}model: {model}\n")
    assert check_main(["check", str(file)]) == 0
    assert f"  model      {said}" in capsys.readouterr().out


def test_check_of_images_speaks_of_images(tmp_path: Path, capsys) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(IMAGES + CLASSES + PATCHES)
    assert check_main(["check", str(file)]) == 0
    out = capsys.readouterr().out
    assert "  data       images in records of 224 × 224 pixels\n" in out
    assert "10,000 steps of 32 records: 320,000 images" in out
    assert "tokenizer" not in out


@pytest.mark.parametrize("command", ["check", "train", "evaluate", "export", "run"])
def test_commands_that_use_the_model_ask_these_rules(
    tmp_path: Path, capsys, command: str
) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(TEXTS + objective_of("causal"))
    arguments = [] if command == "check" else ["--run", str(tmp_path / "run")]
    assert transbeam.main([command, str(file), *arguments]) == 2
    assert f"error: {file}:5: model.kind=encoder does" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
