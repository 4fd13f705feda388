"""Paraphrases told from other pairs by the similarity of vectors: AUC on MRPC.

    python -m bench.pair_similarity RUN... [--dev]

`RUN` is the folder of a trained or imported run whose model is an encoder, such as
`runs/minilm` and `runs/tasks_mrpc_vectors`. A vector is the mean over a text's tokens.
The area under the ROC curve is the share of pairs of one paraphrase and one other pair
of which the paraphrase is the more similar. Intervals of 95% by the bootstrap over
pairs; of two runs, also of their difference on the same resamples. The pairs are those
of MRPC's test set or, with `--dev`, of the validation source of
`configs/tasks/mrpc_vectors.yaml`, by which to choose a recipe.
"""

import argparse
from dataclasses import replace
from pathlib import Path

from transbeam.configs.system.quiet_imports import quiet_import

quiet_import("tensorflow", "tensorflow_text")

import numpy as np  # noqa: E402
from numpy.typing import NDArray  # noqa: E402

from bench.pairs import heading, row  # noqa: E402
from bench.task_baselines import documents, task_config  # noqa: E402
from transbeam.configs.loader.model_files import find_model_files  # noqa: E402
from transbeam.configs.schema.model import EncoderConfig, PoolerConfig  # noqa: E402
from transbeam.model.build import build_embedder  # noqa: E402
from transbeam.model.weights.safetensors_store import (  # noqa: E402
    load_matching_weights,
)
from transbeam.pipeline.records.token_rows import tokenize_texts  # noqa: E402
from transbeam.pipeline.tokenizers.files.tokenizer_folder import (  # noqa: E402
    load_tokenizer,
)
from transbeam.trainer.base.warm_start import find_origin  # noqa: E402
from transbeam.trainer.evaluation.batch_generate import (  # noqa: E402
    grouped_by_length,
)

Floats = NDArray[np.float64]
Pair = tuple[bool, str, str]
_MEAN = PoolerConfig(kind="mean")
_RESAMPLES = 1000


def main() -> None:
    """Prints a row for each run."""
    parser = argparse.ArgumentParser(prog="bench.pair_similarity", description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--dev", action="store_true")
    arguments = parser.parse_args()
    pairs = dev_pairs() if arguments.dev else test_pairs()
    labels = np.array([label for label, _, _ in pairs])
    first, second = ([pair[n] for pair in pairs] for n in (1, 2))
    print(heading(f"{len(labels):,} pairs", "AUC", "above the first"))
    draws = np.random.default_rng(1).integers(0, len(labels), (_RESAMPLES, len(labels)))
    found: list[Floats] = []
    for run in arguments.runs:
        scores = np.sum(embed(run, first) * embed(run, second), axis=1)
        resampled = np.array([auc(scores[rows], labels[rows]) for rows in draws])
        found.append(np.concatenate([[auc(scores, labels)], resampled]))
        above = shown(found[-1] - found[0]) if len(found) > 1 else ""
        print(row(str(run), shown(found[-1]), above), flush=True)


def shown(values: Floats) -> str:
    """The first value, and the interval of the others in brackets."""
    low, high = np.percentile(values[1:], [2.5, 97.5])
    return f"{values[0]:.4f} ({low:.4f}-{high:.4f})"


def auc(scores: Floats, labels: NDArray[np.bool_]) -> float:
    """Area under the ROC curve; equal scores count as half.

    Example:
    >>> auc(np.array([0.9, 0.4, 0.4]), np.array([True, True, False]))
    0.75
    """
    _, place, count = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(count) - (count - 1) / 2)[place]
    positive = int(labels.sum())
    below = ranks[labels].sum() - positive * (positive + 1) / 2
    return float(below / (positive * (len(labels) - positive)))


def test_pairs() -> list[Pair]:
    """The test pairs, each with whether its texts say the same."""
    return [
        (document.label == "1", document.text, document.second_text)
        for _, document in documents(task_config("mrpc").evaluation.test)
    ]


def dev_pairs() -> list[Pair]:
    """The dev pairs; those of label 0 are a text and its hard negative."""
    return [
        (False, document.text, document.negative_text)
        if document.negative_text
        else (True, document.text, document.second_text)
        for _, document in documents(task_config("mrpc_vectors").data.validation_source)
    ]


def embed(run: Path, texts: list[str], longest: int = 128) -> Floats:
    """Unit vectors of texts, (N, D), of their first tokens."""
    origin, files = find_origin(run), find_model_files(run)
    assert isinstance(origin.config.model, EncoderConfig)
    assert files.tokenizer is not None
    tokenizer = load_tokenizer(files.tokenizer)
    config = replace(origin.config.model, pooler=_MEAN)
    model = build_embedder(config, tokenizer.vocabulary_size)
    load_matching_weights(model, origin.values(), str(run))
    special = tokenizer.special
    rows = tokenize_texts([text.encode() for text in texts], tokenizer)
    framed = [
        [special.begin or 0, *inner[: longest - 2].tolist(), special.end or 0]
        for inner in np.split(rows.ids, rows.row_splits[1:-1])
    ]
    vectors = np.zeros((len(texts), origin.config.model.hidden_dim))
    for group in grouped_by_length(np.array(list(map(len, framed))), 64, longest):
        ids = np.full((len(group.rows), group.width), special.pad, np.int32)
        for place, text in enumerate(group.rows):
            ids[place, : len(framed[text])] = framed[text]
        mask = (ids != special.pad).astype(np.int32)
        known = {"token_ids": ids, "padding_mask": mask}
        inputs = {name: known.get(name, np.zeros_like(ids)) for name in model.input}
        if "position_ids" in inputs:
            inputs["position_ids"] = np.broadcast_to(np.arange(group.width), ids.shape)
        vectors[group.rows] = model.predict_on_batch(inputs)["embedding"]
    return vectors


if __name__ == "__main__":
    main()
