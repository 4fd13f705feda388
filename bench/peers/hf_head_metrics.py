"""Metrics of attention heads by transformers and PyTorch, a process of its own.

    hf_head_metrics.py CHECKPOINT TEXTS RESULT

`TEXTS` is what `bench.head_metrics` writes. For every line it reads, it goes once over
all texts in batches, and writes the seconds:

- `bare`: the forward pass alone, by its fastest attention.
- `metrics`: the full maps of a batch, then the metrics of them; the maps are dropped
  with the batch.
- `kept`: as the notebooks of the papers: first the full maps of all texts, in float16,
  then the metrics.

The means over texts of `metrics` are written to `RESULT`.
"""

import sys
import time
from collections.abc import Iterator

import numpy as np
import torch
from transformers import BertModel

REACH, DISTANT, THRESHOLD, BATCH = 8, 16, 0.001, 32


def main() -> None:
    """Answers until the input ends."""
    checkpoint, texts, result = sys.argv[1:]
    torch.set_grad_enabled(False)
    file = np.load(texts)
    ids = torch.from_numpy(file["token_ids"]).long()
    members = torch.from_numpy(file["classes"])
    ways = {"bare": "sdpa", "metrics": "eager", "kept": "eager"}
    models = {
        attention: BertModel.from_pretrained(
            checkpoint, add_pooling_layer=False, attn_implementation=attention
        ).eval()
        for attention in ("sdpa", "eager")
    }
    for line in sys.stdin:
        way = line.strip()
        began = time.perf_counter()
        batches = ids.split(BATCH)
        model = models[ways[way]]
        if way == "bare":
            for batch in batches:
                model(batch, attention_mask=torch.ones_like(batch))
        else:
            maps: Iterator[torch.Tensor] | list[torch.Tensor]
            maps = (_maps(model, batch) for batch in batches)
            if way == "kept":
                maps = [found.half() for found in maps]
            found = [
                _metrics(found.float(), members[batch])
                for found, batch in zip(maps, batches, strict=True)
            ]
            means = torch.cat(found, dim=1).mean(dim=1).numpy()
            if way == "metrics":  # those of kept maps are rounded
                np.save(result, means)
        print(time.perf_counter() - began, flush=True)


def _maps(model: BertModel, batch: torch.Tensor) -> torch.Tensor:
    """Returns the maps of all layers: (L, B, H, T, T)."""
    mask = torch.ones_like(batch)
    return torch.stack(model(batch, mask, output_attentions=True).attentions)


def _metrics(maps: torch.Tensor, members: torch.Tensor) -> torch.Tensor:
    """Returns the metrics of each layer, text and head: (L, B, H, M)."""
    length = maps.shape[-1]
    found = []
    position = torch.arange(length)
    distance = (position[None] - position[:, None]).abs()
    end = members[..., 1]  # (B, T)
    for layer in maps:
        entropy = -(layer * layer.clamp_min(1.2e-38).log()).sum(-1).mean(-1)
        to_classes = layer @ members[:, None]
        ends = end.sum(1)[:, None]
        metrics = [
            entropy,
            entropy / np.log(length),
            layer.amax(-1).mean(-1),
            (layer * (1 - end)[:, None, None]).amax(-1).mean(-1),
            (layer < THRESHOLD).float().mean((-2, -1)),
            (layer * distance).sum(-1).mean(-1),
            (layer * (distance > DISTANT)).sum(-1).mean(-1),
            layer[..., 0].mean(-1),
            (to_classes[..., 1] * end[:, None]).sum(-1) / ends,
        ]
        metrics += to_classes.mean(2).unbind(-1)
        metrics += [
            layer.diagonal(offset, -2, -1).sum(-1) / length
            for offset in range(-REACH, REACH + 1)
        ]
        found.append(torch.stack(metrics, dim=-1))
    return torch.stack(found)


if __name__ == "__main__":
    main()
