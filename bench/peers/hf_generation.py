"""Hugging Face's GPT-2 on PyTorch, a process of its own: `hf_generation.py DTYPE`.

For every line it reads, a batch size, it generates and writes the seconds taken.
"""

import sys
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

PROMPT, NEW = 32, 64


def main() -> None:
    """Answers batch sizes until the input ends."""
    logging.set_verbosity_error()
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    dtype = getattr(torch, sys.argv[1])
    model = GPT2LMHeadModel(GPT2Config()).eval().to(dtype)
    prompts = torch.randint(5, 50_257, (8, PROMPT))
    for line in sys.stdin:
        print(_seconds(model, prompts[: int(line)]), flush=True)


def _seconds(model: GPT2LMHeadModel, prompts: torch.Tensor) -> float:
    began = time.perf_counter()
    outputs = model.generate(
        prompts,
        attention_mask=torch.ones_like(prompts),
        do_sample=False,
        min_new_tokens=NEW,
        max_new_tokens=NEW,
        pad_token_id=0,
    )
    assert outputs.shape[1] == PROMPT + NEW
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
