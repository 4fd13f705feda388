"""A training step of Hugging Face's models on PyTorch, a process of its own.

    hf_training.py TASK LAYERS HIDDEN HEADS INTERMEDIATE LENGTH VOCABULARY DTYPE

`TASK` is `masked` or `causal`. Of masked tokens only the asked-for ones
go through the head, which the library leaves to its user. `bfloat16` is autocast. For
every line, a batch size and a number of asked-for positions, it takes one step of AdamW
with clipping and writes the seconds.
"""

import contextlib
import sys
import time

import torch
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel


def main() -> None:
    """Answers until the input ends."""
    task = sys.argv[1]
    layers, hidden, heads, intermediate, length, vocabulary = map(int, sys.argv[2:8])
    if task == "masked":
        model = BertForMaskedLM(
            BertConfig(
                vocab_size=vocabulary,
                num_hidden_layers=layers,
                hidden_size=hidden,
                num_attention_heads=heads,
                intermediate_size=intermediate,
                max_position_embeddings=length,
            )
        )
    else:
        model = GPT2LMHeadModel(
            GPT2Config(
                vocab_size=vocabulary,
                n_layer=layers,
                n_embd=hidden,
                n_head=heads,
                n_inner=intermediate,
                n_positions=length,
            )
        )
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    half = sys.argv[8] == "bfloat16"
    losses = {"masked": masked, "causal": causal}
    for line in sys.stdin:
        batch, asked = map(int, line.split())
        ids = torch.randint(5, vocabulary, (batch, length))
        began = time.perf_counter()
        autocast = torch.autocast("cpu", torch.bfloat16)
        with autocast if half else contextlib.nullcontext():
            loss = losses[task](model, ids, asked)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(time.perf_counter() - began, flush=True)


def masked(model: BertForMaskedLM, ids: torch.Tensor, asked: int) -> torch.Tensor:
    """The loss of some positions, the same in each row for simplicity."""
    places = torch.randperm(ids.shape[1])[:asked]
    vectors = model.bert(ids, attention_mask=torch.ones_like(ids)).last_hidden_state
    scores = model.cls(vectors[:, places]).float()
    return torch.nn.functional.cross_entropy(
        scores.flatten(0, 1), ids[:, places].flatten()
    )


def causal(model: GPT2LMHeadModel, ids: torch.Tensor, asked: int) -> torch.Tensor:
    """The loss of every next token."""
    return model(ids, labels=ids).loss


if __name__ == "__main__":
    main()
