"""Our side of `bench.head_metrics`, a process of its own.

    head_metrics_worker RUN TEXTS

For every line it reads, it goes once over all texts and writes the seconds: `bare` is
the forward pass alone, `metrics` the whole part `heads` of an analysis, with intervals
and figures. The means are written beside `TEXTS`.
"""

import sys
import time
from pathlib import Path

import numpy as np
import tensorflow as tf

from bench.head_metrics import METRICS
from transbeam.configs.cli.console import Console
from transbeam.model.inspect.attention_statistics import OFFSETS
from transbeam.trainer.analysis.base.analysis_context import (
    AnalysisContext,
    AnalyzedTexts,
)
from transbeam.trainer.analysis.base.analysis_part import AnalysisPart
from transbeam.trainer.analysis.base.analyzed_model import load_analyzed_model
from transbeam.trainer.analysis.heads.heads import analyze_heads


def main() -> None:
    """Answers until the input ends."""
    run, texts = map(Path, sys.argv[1:])
    context = _read(run, texts)
    forward = tf.function(
        lambda inputs: context.model(inputs, training=False), reduce_retracing=True
    )
    for line in sys.stdin:
        began = time.perf_counter()
        if line.strip() == "bare":
            for batch in context.batches():
                forward(batch.inputs)
        else:
            means = _means(analyze_heads(context))
            np.save(texts.with_name("ours.npy"), means)
        print(time.perf_counter() - began, flush=True)


def _read(run: Path, texts: Path) -> AnalysisContext:
    found = load_analyzed_model(run, None)
    ids = np.load(texts)["token_ids"]
    rows = tuple({"token_ids": x, "segment_ids": np.zeros_like(x)} for x in ids)
    return AnalysisContext(
        config=found.config,
        model=found.model,
        tokenizer=found.tokenizer,
        texts=AnalyzedTexts("corpus", rows),
        console=Console(quiet=True),
        seed=0,
        run_folder=run,
    )


def _means(part: AnalysisPart) -> np.ndarray:
    """Returns the means in the peer's order: (L, H, M)."""
    columns = []
    for table, column, names in (
        ("metrics", "metric", METRICS),
        ("offsets", "offset", OFFSETS),
    ):
        rows = part.tables[table].to_pylist()
        for name in names:
            layers: dict[str, list[float]] = {}
            for line in rows:
                if line[column] == name:
                    layers.setdefault(line["layer"], []).append(line["mean"])
            columns.append(list(layers.values()))
    return np.moveaxis(np.array(columns), 0, -1)


if __name__ == "__main__":
    main()
