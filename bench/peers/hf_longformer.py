"""A small random Longformer of transformers on questions, a process of its own.

    hf_longformer.py RESULT

Writes the inputs, with the first segment of each row as its global tokens, the weights
by their names there, and the last hidden states.
"""

import sys

import numpy as np
import torch
from transformers import LongformerConfig, LongformerModel

# The tokens of the question, and of the whole row; the longest is all that there is.
ROWS, LENGTH, WINDOW = ((5, 100), (23, 144), (40, 90)), 144, 16
BEGIN, PAD, END, VOCABULARY = 0, 1, 2, 60


def main() -> None:
    """Writes the file."""
    torch.manual_seed(0)
    config = LongformerConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        attention_window=WINDOW,
        max_position_embeddings=LENGTH + 2,
        type_vocab_size=1,
        pad_token_id=PAD,
        bos_token_id=BEGIN,
        sep_token_id=END,
        eos_token_id=END,
        layer_norm_eps=1e-5,
    )
    model = LongformerModel(config, add_pooling_layer=False).eval()
    random = np.random.default_rng(1)
    shape = (len(ROWS), LENGTH)
    token_ids, second, real = np.full(shape, PAD), np.zeros(shape), np.zeros(shape)
    for row, (question, length) in enumerate(ROWS):
        token_ids[row, :length] = random.integers(END + 1, VOCABULARY, length)
        token_ids[row, [0, question + 1, length - 1]] = BEGIN, END, END
        second[row, question + 2 : length] = 1
        real[row, :length] = 1
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0, 0.3)
        outputs = model(
            torch.tensor(token_ids),
            attention_mask=torch.tensor(real),
            global_attention_mask=torch.tensor(real * (1 - second)),
        )
    weights = {f"weight:{k}": w.numpy() for k, w in model.state_dict().items()}
    np.savez(
        sys.argv[1],
        token_ids=token_ids,
        segment_ids=second,
        padding_mask=real,
        outputs=outputs.last_hidden_state.numpy(),
        **weights,
    )


if __name__ == "__main__":
    main()
