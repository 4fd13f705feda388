"""`transbeam cost`: what it prints, what it refuses, and that it builds nothing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import transbeam

ROOT = Path(__file__).parents[3]
GPT2 = str(ROOT / "configs/presets/gpt2_small.yaml")
T5 = str(ROOT / "configs/presets/t5_small.yaml")
VIT = str(ROOT / "configs/presets/vit_base.yaml")
BERT = str(ROOT / "configs/presets/bert_base.yaml")


def cost(capsys, *argv):
    assert transbeam.main(["cost", *argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def error(capsys, *argv):
    assert transbeam.main(["cost", *argv]) == 2
    return capsys.readouterr().err


def test_json_has_the_published_count(capsys):
    counted = cost(capsys, BERT)["parameters"]
    assert counted["total"] == 109_482_240
    parts = ("embeddings", "layers", "after_layers")
    assert sum(counted[part] for part in parts) == sum(counted["parts"].values())
    assert counted["layers"] == 85_054_464
    assert counted["after_layers"] == 768 * 768 + 768
    heads = sum(counted["heads"].values())
    assert counted["total_with_heads"] == counted["total"] + heads


def test_unused_pooler_is_not_trained(capsys):
    counted = cost(capsys, str(ROOT / "configs/presets/roberta_base.yaml"))[
        "parameters"
    ]
    heads = sum(counted["heads"].values())
    pooler = counted["parts"]["pooler"]
    assert counted["total_with_heads"] == counted["total"] + heads - pooler


def test_length_and_batch_take_the_place_of_the_run_s(capsys):
    short = cost(capsys, GPT2, "--length", "128", "--batch", "2")
    long = cost(capsys, GPT2, "--length", "256", "--batch", "6")
    assert short["length"] == {"tokens": 128, "decoder_tokens": 0}
    work = [c["flops"]["per_sequence"]["forward"] for c in (short, long)]
    assert work[1]["feedforward"] == 2 * work[0]["feedforward"]
    assert work[1]["attention"] == 4 * work[0]["attention"]
    kept = [c["memory"]["training"]["activations"] for c in (short, long)]
    assert kept[0] == 2 * sum(short["memory"]["activations_per_sequence"].values())
    assert kept[1] == 6 * sum(long["memory"]["activations_per_sequence"].values())


def test_work_per_token_is_that_of_a_record_shared_out(capsys):
    counted = cost(capsys, T5)
    assert counted["length"] == {"tokens": 512, "decoder_tokens": 184}
    flops = counted["flops"]
    for way in ("forward", "backward"):
        total = flops["per_sequence"][way]["total"]
        parts = {k: v for k, v in flops["per_sequence"][way].items() if k != "total"}
        assert total == sum(parts.values())
        assert flops["per_token"][way]["total"] == total / (512 + 184)


def test_attention_against_length(capsys):
    window = ["--set", "model.attention.kind=sliding_window"]
    rows = cost(capsys, GPT2, *window)["attention"]
    assert [row["length"] for row in rows] == [2**n for n in range(7, 15)]
    first, *_, last = rows
    assert last["full_flops"] == 128**2 * first["full_flops"]
    assert last["full_flops"] == 12 * 2 * 2 * 16_384**2 * 768
    assert last["full_score_bytes"] == 4 * 12 * 12 * 16_384**2
    by_length = {row["length"]: row for row in rows}
    share = by_length[4096]["full_flops"] / by_length[4096]["flops"]
    assert 7 < share <= 8
    assert by_length[8192]["flops"] == 2 * by_length[4096]["flops"]


def test_text_shows_every_part(capsys):
    assert transbeam.main(["cost", GPT2]) == 0
    text = capsys.readouterr().out
    for shown in (
        "presets_gpt2_small: 124,439,808 weights; a sequence is 1,024 tokens",
        "decoder_layers/feedforward",
        "elementwise",
        "optimizer",
        "cache in generation",
        "16,384 tokens",
    ):
        assert shown in text
    assert max(map(len, text.splitlines())) <= 88


def test_pretrained_tokenizer_without_its_files(capsys, tmp_path):
    tokenizer = [
        "--set",
        f"tokenizer={{kind: pretrained, path: {tmp_path / 'gone'}}}",
    ]
    assert "--vocabulary-size" in error(capsys, GPT2, *tokenizer)
    counted = cost(capsys, GPT2, *tokenizer, "--vocabulary-size", "50257")
    assert counted["parameters"]["total"] == 124_439_808


def test_images_have_one_length_and_no_vocabulary(capsys):
    counted = cost(capsys, VIT)
    assert counted["length"]["tokens"] == 197
    assert counted["vocabulary_size"] == 0
    assert "197 tokens" in error(capsys, VIT, "--length", "100")


def test_too_long_for_the_model(capsys):
    told = error(capsys, GPT2, "--length", "1025")
    assert "1025 is more than model.max_sequence_length=1024" in told


def test_model_that_does_not_fit_its_objective(capsys):
    told = error(capsys, GPT2, "--set", "objective.kind=masked")
    assert "model.kind=decoder does not go with objective.kind=masked" in told


@pytest.mark.parametrize("option", ["--length", "--batch", "--vocabulary-size"])
def test_numbers_begin_at_one(capsys, option):
    with pytest.raises(SystemExit):
        transbeam.main(["cost", GPT2, option, "0"])
    assert "0 is less than 1" in capsys.readouterr().err


def test_counting_imports_nothing_heavy():
    program = (
        "import sys, transbeam\n"
        f"assert transbeam.main(['cost', {GPT2!r}]) == 0\n"
        "names = {name.partition('.')[0] for name in sys.modules}\n"
        "print(*(names & {'keras', 'tensorflow', 'numpy', 'jax', 'rich'}))\n"
        "print(*sorted(n for n in sys.modules if n.startswith('model')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    *_, heavy, rooms = done.stdout.splitlines()
    assert heavy == ""
    assert all(
        name.startswith(
            (
                "transbeam.model.cost",
                "transbeam.model.base.weight_paths",
                "transbeam.model.__main__",
            )
        )
        or name == "model"
        for name in rooms.split()
    )


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("abc", "argument --length: 'abc' is not a whole number"),
        ("1.5", "argument --length: '1.5' is not a whole number"),
        ("0", "argument --length: 0 is less than 1"),
    ],
)
def test_no_length_is_refused_in_words(capsys, option, said):
    with pytest.raises(SystemExit):
        transbeam.main(["cost", BERT, "--length", option])
    assert said in capsys.readouterr().err


def test_images_have_no_vocabulary(capsys):
    said = error(capsys, VIT, "--vocabulary-size", "100")
    assert "vocabulary_size=100: the model reads images" in said
