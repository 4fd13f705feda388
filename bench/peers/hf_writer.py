"""Hugging Face's LLaMA, a process of its own that writes a text.

    hf_writer.py FOLDER HOW THREADS

`FOLDER` has the checkpoint; the first to come makes it, with weights at random. `HOW`
is `float32` on PyTorch, or `onnx` or `onnx-int8` on ONNX Runtime, where the cache goes
in and comes out with each call. For every line it reads, `PROMPT SKIP NEW`, it reads so
many tokens, writes `SKIP`, and writes the seconds that `NEW` more took; with `NEW` 0
those until the first was known.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

# Those of `bench.phone_writing`.
LAYERS, WIDTH, HEADS, GROUPS, INSIDE, PIECES = 6, 384, 6, 2, 1024, 8192
KEPT = [f"{kind}_{layer}" for layer in range(LAYERS) for kind in "kv"]

# Ids (1, T) and what was kept → scores of the next token, and what is kept now.
Read = Callable[[np.ndarray, Any], tuple[np.ndarray, Any]]


def make(folder: Path) -> None:
    """Writes a checkpoint."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=PIECES,
        hidden_size=WIDTH,
        intermediate_size=INSIDE,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=GROUPS,
        max_position_embeddings=128,
        tie_word_embeddings=True,
    )
    LlamaForCausalLM(config).save_pretrained(folder)


def on_torch(folder: Path) -> tuple[Read, Any]:
    """Eager PyTorch, with its fused attention and its growing cache."""
    model = LlamaForCausalLM.from_pretrained(folder, attn_implementation="sdpa").eval()

    def read(ids: np.ndarray, kept: Any) -> tuple[np.ndarray, Any]:
        found = model(
            torch.from_numpy(ids),
            past_key_values=kept,
            use_cache=True,
            logits_to_keep=1,
        )
        return found.logits[0, -1].numpy(), found.past_key_values

    return read, None


class Step(torch.nn.Module):
    """The model as a graph: what was kept goes in, what is kept comes out."""

    def __init__(self, model: LlamaForCausalLM) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, *kept: torch.Tensor) -> Any:
        before, number = kept[0].shape[2], ids.shape[1]
        places = torch.arange(number) + before
        seen = torch.arange(before + number)[None] <= places[:, None]
        mask = torch.where(seen, 0.0, torch.finfo(torch.float32).min)[None, None]
        cache = DynamicCache(list(zip(kept[::2], kept[1::2], strict=True)))
        found = self.model(
            ids,
            attention_mask=mask,
            position_ids=places[None],
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        layers = found.past_key_values.layers
        new = [x for layer in layers for x in (layer.keys, layer.values)]
        return (found.logits[:, -1], *new)


def on_onnx(folder: Path, threads: int, *, int8: bool) -> tuple[Read, Any]:
    """ONNX Runtime, with its graph optimizations."""
    import onnxruntime
    from onnxruntime.quantization import QuantType, quantize_dynamic

    file, small = folder / "model.onnx", folder / "model_int8.onnx"
    if not file.exists():
        model = LlamaForCausalLM.from_pretrained(folder, attn_implementation="eager")
        some = [torch.zeros(1, GROUPS, 3, WIDTH // HEADS) for _ in KEPT]
        new = [f"new_{name}" for name in KEPT]
        axes = {name: {2: f"{name}_tokens"} for name in KEPT + new}
        torch.onnx.export(
            Step(model.eval()),
            (torch.ones((1, 5), dtype=torch.int64), *some),
            str(file),
            input_names=["ids", *KEPT],
            output_names=["logits", *new],
            dynamic_axes={"ids": {1: "length"}, **axes},
            dynamo=False,
        )
    if int8 and not small.exists():
        quantize_dynamic(file, small, weight_type=QuantType.QInt8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(small if int8 else file, options)

    def read(ids: np.ndarray, kept: Any) -> tuple[np.ndarray, Any]:
        logits, *new = session.run(None, {"ids": ids, **kept})
        return logits[0], dict(zip(KEPT, new, strict=True))

    nothing = np.zeros((1, GROUPS, 0, WIDTH // HEADS), np.float32)
    return read, dict.fromkeys(KEPT, nothing)


def seconds(read: Read, kept: Any, prompt: int, skip: int, new: int) -> float:
    """Of reading a prompt, or of writing on after it."""
    ids = np.random.default_rng(0).integers(5, PIECES, (1, prompt))
    began = time.perf_counter()
    logits, kept = read(ids, kept)
    for number in range(skip + new):
        if number == skip:
            began = time.perf_counter()
        logits, kept = read(np.array([[logits.argmax()]]), kept)
    return time.perf_counter() - began


def main() -> None:
    """Answers until the input ends."""
    folder, how, threads = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    if not (folder / "config.json").exists():
        make(folder)
    if how == "float32":
        read, nothing = on_torch(folder)
    else:
        read, nothing = on_onnx(folder, threads, int8=how == "onnx-int8")
    for line in sys.stdin:
        print(seconds(read, nothing, *map(int, line.split())), flush=True)


if __name__ == "__main__":
    main()
