"""Hugging Face datasets: tokenize and group into blocks, as `run_mlm.py` does.

Runs in an environment of its own, which has `datasets` and `tokenizers`:

    python hf_datasets.py TEXT TOKENIZER OUTPUT PROCESSES LENGTH DOCUMENT

TOKENIZER is a `tokenizer.json`, a DOCUMENT of the text a `line` or a `paragraph`. No
special tokens are added and nothing is masked.
"""

import os
import sys
from itertools import chain

os.environ["TOKENIZERS_PARALLELISM"] = "false"

from datasets import Dataset, disable_progress_bars
from tokenizers import Tokenizer


def main(
    text: str, tokenizer: str, output: str, processes: str, length: str, document: str
) -> None:
    disable_progress_bars()
    size = int(length)
    loaded = Tokenizer.from_file(tokenizer)

    def tokenize(batch: dict) -> dict:
        encoded = loaded.encode_batch_fast(batch["text"], add_special_tokens=False)
        return {"input_ids": [one.ids for one in encoded]}

    def group(batch: dict) -> dict:
        ids = list(chain.from_iterable(batch["input_ids"]))
        whole = len(ids) // size * size
        return {"input_ids": [ids[i : i + size] for i in range(0, whole, size)]}

    with open(text, encoding="utf-8") as file:
        documents = file.read().split("\n" if document == "line" else "\n\n")
    dataset = Dataset.from_dict({"text": documents})
    workers = int(processes)
    dataset = dataset.map(
        tokenize, batched=True, remove_columns=["text"], num_proc=workers
    )
    dataset = dataset.map(group, batched=True, num_proc=workers)
    dataset.save_to_disk(output)


if __name__ == "__main__":
    main(*sys.argv[1:])
