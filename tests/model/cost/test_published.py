"""The presets have the published counts, and `docs/cost.md` says so."""

from pathlib import Path
from typing import NamedTuple

import pytest

from transbeam.configs.loader.yaml_config import load_run
from transbeam.model.cost.report import count_cost

ROOT = Path(__file__).parents[3]
DOCUMENT = ROOT / "docs/cost.md"
PRESETS = sorted(path.stem for path in (ROOT / "configs/presets").glob("*.yaml"))


class Published(NamedTuple):
    """Published facts on a model's weights."""

    figure: str
    exact: int | None
    source: str


def exact(count: int, source: str) -> Published:
    return Published(f"{count:,}", count, source)


PUBLISHED = {
    "bert_base": exact(109_482_240, "checkpoint; paper: 110 million"),
    "bert_large": exact(335_141_888, "checkpoint; paper: 340 million"),
    "roberta_base": exact(124_645_632, "checkpoint; paper: 125 million"),
    "distilbert": exact(66_362_880, "checkpoint; paper: 66 million"),
    "gpt2_small": exact(124_439_808, "checkpoint; paper: 117 million, corrected"),
    "gpt2_medium": exact(354_823_168, "checkpoint; paper: 345 million, corrected"),
    "gpt2_large": exact(774_030_080, "checkpoint; 774 million"),
    "gpt2_xl": exact(1_557_611_200, "checkpoint; 1,558 million"),
    "gpt3_small": Published("125 million", None, "paper, table D.1"),
    "gpt3_medium": Published("356 million", None, "paper, table D.1"),
    "gpt3_large": Published("760 million", None, "paper, table D.1"),
    "gpt3_xl": Published("1,320 million", None, "paper, table D.1; see below"),
    "gpt3_2_7b": Published("2,650 million", None, "paper, table D.1"),
    "gpt3_6_7b": Published("6,660 million", None, "paper, table D.1"),
    "gpt3_13b": Published("12,850 million", None, "paper, table D.1; see below"),
    "gpt3_175b": Published("174,600 million", None, "paper, table D.1"),
    "t5_small": exact(60_506_624, "checkpoint; paper: 60 million"),
    "t5_base": exact(222_903_552, "checkpoint; paper: 220 million"),
    "llama_7b": exact(6_738_415_616, "checkpoint; paper: 6.7 billion"),
    "transformer_base": Published("65 million", None, "paper, table 3"),
    "transformer_big": Published("213 million", None, "paper, table 3"),
    "longformer_base": exact(148_659_456, "checkpoint"),
    "vit_base": exact(85_798_656, "checkpoint without its head; paper: 86 million"),
}


def row(preset: str) -> str:
    """A line of the document's table."""
    cost = count_cost(load_run(ROOT / f"configs/presets/{preset}.yaml"))
    work, tokens = cost["flops"]["per_sequence"], cost["length"]
    published = PUBLISHED.get(preset, Published("–", None, "ours in these sizes"))
    length = f"{tokens['tokens']:,}"
    if tokens["decoder_tokens"]:
        length += f" + {tokens['decoder_tokens']:,}"
    cells = [
        f"`{preset}`",
        f"{cost['parameters']['total']:,}",
        published.figure,
        published.source,
        length,
        f"{work['forward']['total'] / 1e9:,.1f}",
        f"{work['backward']['total'] / 1e9:,.1f}",
    ]
    return f"| {' | '.join(cells)} |"


# GPT-3's paper gives sizes (table 2.1) that do not make its counts (table D.1).
OTHER_SIZES = {
    "gpt3_xl": ["model.attention.num_heads=16"],
    "gpt3_13b": ["model.hidden_dim=5120", "model.feedforward.intermediate_dim=20480"],
}


@pytest.mark.parametrize("preset", PUBLISHED)
def test_preset_has_the_published_count(preset):
    path = ROOT / f"configs/presets/{preset}.yaml"
    run = load_run(path, OTHER_SIZES.get(preset, []))
    total = count_cost(run)["parameters"]["total"]
    published = PUBLISHED[preset]
    if published.exact is not None:
        assert total == published.exact
        return
    millions = int(published.figure.split()[0].replace(",", ""))
    # The tables round; the Transformer's authors had another vocabulary.
    tolerance = 0.035 if preset.startswith("transformer") else 0.004
    assert total / 1e6 == pytest.approx(millions, rel=tolerance)


def test_every_published_model_is_a_preset():
    assert set(PUBLISHED) <= set(PRESETS)


@pytest.mark.parametrize("preset", PRESETS)
def test_document_shows_what_is_counted(preset):
    assert row(preset) in DOCUMENT.read_text("utf-8").splitlines()
