"""Hugging Face's BERT on PyTorch, a process of its own.

    hf_encoder.py LAYERS HIDDEN HEADS INTERMEDIATE LENGTH DTYPE ATTENTION

`LENGTH` is the longest input, `ATTENTION` is `sdpa` or `eager`. For every line it
reads, a batch size and a length, it runs the encoder once and writes the seconds.
"""

import sys
import time

import torch
from transformers import BertConfig, BertModel


def main() -> None:
    """Answers until the input ends."""
    layers, hidden, heads, intermediate, length = map(int, sys.argv[1:6])
    torch.set_grad_enabled(False)
    config = BertConfig(
        vocab_size=8192,
        num_hidden_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        intermediate_size=intermediate,
        max_position_embeddings=length,
        attn_implementation=sys.argv[7],
    )
    model = BertModel(config, add_pooling_layer=False).eval()
    model = model.to(getattr(torch, sys.argv[6]))
    for line in sys.stdin:
        ids = torch.randint(5, 8192, tuple(map(int, line.split())))
        mask = torch.ones_like(ids)
        began = time.perf_counter()
        model(ids, attention_mask=mask)
        print(time.perf_counter() - began, flush=True)


if __name__ == "__main__":
    main()
