"""Writes a small GPT-2 with random weights, and questions with four answers each.

    PYTHON bench/peers/harness_checkpoint.py TOKENIZER FOLDER

`TOKENIZER` has `vocab.json` and `merges.txt`. The questions are in the form of
lm-evaluation-harness: `data.jsonl`, and a task `made` in `made.yaml`.
"""

import json
import random
import shutil
import sys
from pathlib import Path

import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

WORDS = ("tensor", "shape", "value", "list", "of", "the", "returns", "error")
QUESTIONS, END = 40, "<|endoftext|>"
TASK = """\
task: made
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}:"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: label
target_delimiter: " "
metric_list: [{{metric: acc}}, {{metric: acc_norm}}]
"""


def main(tokenizer: Path, folder: Path) -> None:
    """Writes the checkpoint and the questions."""
    torch.manual_seed(0)
    checkpoint = folder / "checkpoint"
    pieces = [str(tokenizer / name) for name in ("vocab.json", "merges.txt")]
    fast = folder / "tokenizer.json"
    ByteLevelBPETokenizer(*pieces).save(str(fast))
    special = dict.fromkeys(("bos_token", "eos_token", "unk_token"), END)
    reader = PreTrainedTokenizerFast(tokenizer_file=str(fast), **special)
    config = GPT2Config(
        vocab_size=len(reader),
        n_positions=128,
        n_embd=32,
        n_layer=2,
        n_head=2,
        bos_token_id=reader.eos_token_id,
        eos_token_id=reader.eos_token_id,
        initializer_range=0.5,  # so that answers differ
    )
    GPT2LMHeadModel(config).save_pretrained(checkpoint)
    reader.save_pretrained(checkpoint)
    for piece in pieces:
        shutil.copy(piece, checkpoint)
    chance = random.Random(0)

    def words(count: int) -> str:
        return " ".join(chance.choices(WORDS, k=count))

    rows = [
        {
            "question": words(8),
            "choices": [words(chance.randint(1, 3)) for _ in range(4)],
            "label": chance.randrange(4),
        }
        for _ in range(QUESTIONS)
    ]
    data = folder / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "made.yaml").write_text(TASK.format(data=data))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
