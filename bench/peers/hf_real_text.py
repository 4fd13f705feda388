"""A training step of Hugging Face's models on documents of mixed lengths.

    hf_real_text.py TASK LAYERS HIDDEN HEADS INTERMEDIATE LENGTH VOCABULARY DROPOUT \
        SMOOTHING DTYPE

A process of its own. `TASK` is `causal` (GPT-2) or `seq2seq` (Marian). For every line,
a file of documents as `bench/real_text.py` writes it, it pads them to the longest,
takes one step of AdamW with clipping, and writes the seconds.
"""

import contextlib
import sys
import time

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import GPT2Config, GPT2LMHeadModel, MarianConfig, MarianMTModel

IGNORED = -100


def main() -> None:
    """Answers until the input ends."""
    task = sys.argv[1]
    model = build(task, *map(int, sys.argv[2:8]), dropout=float(sys.argv[8]))
    smoothing, half = float(sys.argv[9]), sys.argv[10] == "bfloat16"
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    for line in sys.stdin:
        documents = np.load(line.strip())
        began = time.perf_counter()
        inputs, targets = batch_of(documents, "" if task == "causal" else "decoder_")
        autocast = torch.autocast("cpu", torch.bfloat16)
        with autocast if half else contextlib.nullcontext():
            scores = model(**inputs).logits
        loss = torch.nn.functional.cross_entropy(
            scores.float().flatten(0, 1),
            targets.flatten(),
            ignore_index=IGNORED,
            label_smoothing=smoothing,
        )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(time.perf_counter() - began, flush=True)


def build(task, layers, hidden, heads, intermediate, length, vocabulary, dropout):
    """A model with weights at random."""
    if task == "causal":
        config = GPT2Config(
            vocab_size=vocabulary,
            n_layer=layers,
            n_embd=hidden,
            n_head=heads,
            n_inner=intermediate,
            n_positions=length,
            resid_pdrop=dropout,
            embd_pdrop=dropout,
            attn_pdrop=dropout,
        )
        return GPT2LMHeadModel(config)
    config = MarianConfig(
        vocab_size=vocabulary,
        encoder_layers=layers,
        decoder_layers=layers,
        d_model=hidden,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=intermediate,
        decoder_ffn_dim=intermediate,
        max_position_embeddings=length,
        dropout=dropout,
        attention_dropout=dropout,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        forced_eos_token_id=1,
    )
    return MarianMTModel(config)


def batch_of(documents, side: str) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Rows that are padded to the longest, and what is to be said after each token."""
    lengths = documents[f"{side}lengths"].tolist()

    def rows(name: str, lengths: list[int], padding: int = 0) -> torch.Tensor:
        pieces = torch.from_numpy(documents[name].astype("int64")).split(lengths)
        return pad_sequence(pieces, batch_first=True, padding_value=padding)

    def real(lengths: list[int]) -> torch.Tensor:
        return (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()

    targets = rows("targets", lengths, IGNORED)
    targets[rows("weights", lengths) == 0] = IGNORED
    if not side:
        return {
            "input_ids": rows("ids", lengths),
            "attention_mask": real(lengths),
        }, targets
    source = documents["encoder_lengths"].tolist()
    return {
        "input_ids": rows("encoder_ids", source),
        "attention_mask": real(source),
        "decoder_input_ids": rows("decoder_ids", lengths),
        "decoder_attention_mask": real(lengths),
    }, targets


if __name__ == "__main__":
    main()
