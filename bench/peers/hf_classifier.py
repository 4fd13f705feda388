"""Hugging Face's BERT classifier, a process of its own.

    hf_classifier.py FOLDER HOW [SIZE [THREADS]]

`FOLDER` has the checkpoint; the first to come makes it, with weights at random. `HOW`
is `float32` or `bfloat16` on PyTorch, or `onnx` or `onnx-int8` on ONNX Runtime; `SIZE`
one of `SIZES`. For
every line it reads, a number of calls and a length, it classifies a row of that many
tokens so often and writes the median of the seconds.
"""

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification

VOCABULARY = 30522
NAMES = ["input_ids", "attention_mask"]


# Layers, width, heads, pieces and most tokens.
SIZES = {
    "bert_base": (12, 768, 12, VOCABULARY, 512),
    "minilm": (6, 384, 12, VOCABULARY, 512),
    "phone_classifier": (6, 256, 4, 8192, 128),
}


def make(folder: Path, size: str) -> None:
    """Writes a checkpoint with two classes."""
    torch.manual_seed(0)
    layers, width, heads, pieces, longest = SIZES[size]
    config = BertConfig(
        num_labels=2,
        type_vocab_size=1,
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        vocab_size=pieces,
        max_position_embeddings=longest,
    )
    BertForSequenceClassification(config).save_pretrained(folder)


def on_torch(folder: Path, dtype: str) -> Callable[[np.ndarray], np.ndarray]:
    """Eager PyTorch, with its fused attention."""
    model = BertForSequenceClassification.from_pretrained(
        folder, attn_implementation="sdpa", dtype=getattr(torch, dtype)
    ).eval()

    def classify(ids: np.ndarray) -> np.ndarray:
        tokens = torch.from_numpy(ids)
        mask = torch.ones_like(tokens)
        return model(tokens, attention_mask=mask).logits.float().numpy()

    return classify


def on_onnx(
    folder: Path, threads: int, *, int8: bool
) -> Callable[[np.ndarray], np.ndarray]:
    """ONNX Runtime, with its graph optimizations."""
    import onnxruntime
    from onnxruntime.quantization import QuantType, quantize_dynamic

    file, small = folder / "model.onnx", folder / "model_int8.onnx"
    if not file.exists():
        model = BertForSequenceClassification.from_pretrained(
            folder, attn_implementation="eager"
        ).eval()
        row = torch.ones((1, 128), dtype=torch.int64)
        axes = {name: {0: "batch", 1: "length"} for name in NAMES}
        torch.onnx.export(
            model,
            (row, row),
            str(file),
            input_names=NAMES,
            output_names=["logits"],
            dynamic_axes=axes,
            dynamo=False,
        )
    if int8 and not small.exists():
        quantize_dynamic(file, small, weight_type=QuantType.QInt8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(small if int8 else file, options)

    def classify(ids: np.ndarray) -> np.ndarray:
        inputs = {NAMES[0]: ids, NAMES[1]: np.ones_like(ids)}
        return session.run(["logits"], inputs)[0]

    return classify


def main() -> None:
    """Answers until the input ends."""
    folder, how = Path(sys.argv[1]), sys.argv[2]
    size = sys.argv[3] if len(sys.argv) > 3 else "bert_base"
    threads = int(sys.argv[4]) if len(sys.argv) > 4 else 0  # all cores
    if threads:
        torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    if not (folder / "config.json").exists():
        make(folder, size)
    if how.startswith("onnx"):
        classify = on_onnx(folder, threads, int8=how == "onnx-int8")
    else:
        classify = on_torch(folder, how)
    for line in sys.stdin:
        calls, length = map(int, line.split())
        ids = np.random.default_rng(0).integers(1000, SIZES[size][3], (1, length))
        taken = []
        for _ in range(calls):
            began = time.perf_counter()
            classify(ids)
            taken.append(time.perf_counter() - began)
        print(statistics.median(taken), flush=True)


if __name__ == "__main__":
    main()
