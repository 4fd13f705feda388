"""Writes a small decoder with random weights, and questions with four answers each.

    PYTHON bench/peers/harness_checkpoint.py TOKENIZER FOLDER gpt2|llama

`TOKENIZER` has `vocab.json` and `merges.txt`. The questions are in the form of
lm-evaluation-harness: `data.jsonl`, and the tasks `made`, which chooses among the
answers, and `rolled`, which scores whole texts in windows.
"""

import json
import random
import shutil
import sys
from pathlib import Path

import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    LlamaConfig,
    PreTrainedTokenizerFast,
)

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
metric_list: [{{metric: acc}}, {{metric: acc_norm}}, {{metric: acc_bytes}}]
"""
ROLLED = """\
task: rolled
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{{{text}}}}"
metric_list: [{{metric: word_perplexity}}, {{metric: byte_perplexity}}]
"""


def main(tokenizer: Path, folder: Path, family: str) -> None:
    """Writes the checkpoint and the questions."""
    torch.manual_seed(0)
    checkpoint = folder / "checkpoint"
    pieces = [str(tokenizer / name) for name in ("vocab.json", "merges.txt")]
    fast = folder / "tokenizer.json"
    ByteLevelBPETokenizer(*pieces).save(str(fast))
    special = dict.fromkeys(("bos_token", "eos_token", "unk_token"), END)
    reader = PreTrainedTokenizerFast(tokenizer_file=str(fast), **special)
    shared = {
        "vocab_size": len(reader),
        "bos_token_id": reader.eos_token_id,
        "eos_token_id": reader.eos_token_id,
        "initializer_range": 0.5,  # so that answers differ
    }
    if family == "gpt2":
        config = GPT2Config(n_positions=128, n_embd=32, n_layer=2, n_head=2, **shared)
    else:
        config = LlamaConfig(
            max_position_embeddings=128,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            **shared,
        )
    AutoModelForCausalLM.from_config(config).save_pretrained(checkpoint)
    reader.save_pretrained(checkpoint)
    for piece in pieces:
        shutil.copy(piece, checkpoint)
    chance = random.Random(0)

    def words(count: int) -> str:
        return " ".join(chance.choices(WORDS, k=count))

    def choices() -> list[str]:
        found = [words(chance.randint(1, 3)) for _ in range(4)]
        return found if len(set(found)) == 4 else choices()

    rows = [
        {
            "question": words(8),
            "choices": choices(),
            "label": chance.randrange(4),
            "text": words(chance.randint(1, 300)),
        }
        for _ in range(QUESTIONS)
    ]
    data = folder / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "made.yaml").write_text(TASK.format(data=data))
    (folder / "rolled.yaml").write_text(ROLLED.format(data=data))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
