"""The page of presets: what each costs by our count, and what its paper says."""

import re
from pathlib import Path
from typing import Any

from docs.site.markdown import escape, table
from transbeam.configs.loader.yaml_config import load_run
from transbeam.model.cost.report import count_cost

PATH = "model_zoo.md"
PRESETS = Path(__file__).parents[2] / "configs/presets"

_INTRODUCTION = """\
# Model zoo

Configurations of published models, and four of our own sizes, in `configs/presets/`.
None comes with weights: train one on your corpus, or [import a checkpoint](weights.md).

```sh
transbeam cost configs/presets/bert_base.yaml
transbeam data configs/presets/bert_base.yaml --set data.source.path=my.txt
```

- **Parameters** are those of the backbone, and equal those of the published checkpoints
  where there are some ([figures and sources](cost.md#published-figures)).
- **GFLOPs** are of one record of the given length, forward and backward.
- **Memory** is that of weights, gradients and optimizer in a training, without
  activations. Both are by `transbeam cost`; [how it counts](cost.md#how-it-is-counted).
- **Cost to train** and **score** are the paper's, with the place. They are left empty
  where it has none. None was measured here.
"""
_HEADER = ["preset", "parameters", "tokens", "GFLOPs", "memory, GB"]
_FIELD = re.compile(r"^#   (\w+) +(.*)$")
_LINK = re.compile(r"(?<!\()https://[^\s,);]+")


def page() -> str:
    """Writes the page."""
    files = sorted(PRESETS.glob("*.yaml"))
    heads = {file.stem: Header(file.read_text("utf-8")) for file in files}
    costs = {file.stem: count_cost(load_run(file)) for file in files}
    counts = [_counts(name, cost) for name, cost in costs.items()]
    parts = [
        _INTRODUCTION,
        "\n## Counted\n\n",
        table(_HEADER, counts),
        "\n\n## Published\n\n",
        table(
            ["preset", "model", "cost to train", "score"],
            [
                [
                    f"`{name}`",
                    _linked(head.title),
                    _linked(head.fields.get("cost", "")),
                    _linked(head.fields.get("score", "")),
                ]
                for name, head in heads.items()
            ],
        ),
        "\n",
    ]
    return "".join(parts)


class Header:
    r"""The comment that a preset begins with.

    Attributes:
        title: Its first paragraph.
        fields: `parameters`, and where the paper has them `cost` and `score`.

    Example:
    >>> head = Header("# BERT.\n#\n#   score  GLUE 79.6;\n#          SQuAD 88.5\n#\n")
    >>> head.title, head.fields
    ('BERT.', {'score': 'GLUE 79.6; SQuAD 88.5'})
    """

    def __init__(self, text: str) -> None:
        comment = text.partition("\nname:")[0].splitlines()
        paragraphs = "\n".join(comment).split("\n#\n")
        first = paragraphs[0].splitlines()
        self.title = " ".join(line.removeprefix("#").strip() for line in first)
        self.fields: dict[str, str] = {}
        name = ""
        for line in paragraphs[1].splitlines() if len(paragraphs) > 1 else ():
            if match := _FIELD.match(line):
                name = match[1]
                self.fields[name] = match[2]
            elif name:
                self.fields[name] += f" {line.removeprefix('#').strip()}".rstrip()


def _counts(name: str, cost: dict[str, Any]) -> list[str]:
    length, work = cost["length"], cost["flops"]["per_sequence"]
    tokens = f"{length['tokens']:,}"
    if length["decoder_tokens"]:
        tokens += f" + {length['decoder_tokens']:,}"
    flops = work["forward"]["total"] + work["backward"]["total"]
    memory = cost["memory"]["training"]
    held = sum(memory[part] for part in ("weights", "gradients", "optimizer"))
    return [
        f"`{name}`",
        f"{cost['parameters']['total']:,}",
        tokens,
        f"{flops / 1e9:,.1f}",
        f"{held / 1e9:,.2f}",
    ]


def _linked(text: str) -> str:
    return _LINK.sub(lambda url: f"[link]({url[0]})", escape(text))
