"""Evaluation metrics: pure functions over arrays and strings, without Keras.

All metrics share one interface. A *unit* is an evaluated item: a record, a sentence, a
question. For `n` units `statistics(...)` returns additive numbers, float64 `(n, k)`.
`scores(sums)` computes scores from sums `(..., k)`, by name, each `(...)`:

    statistics = metric.statistics(predictions, targets)       # batch by batch
    metric.scores(statistics.sum(axis=0))                      # of all batches
    intervals(statistics, metric.scores, seed=0)               # confidence intervals

So batches, shards and workers are combined exactly, without averaging F1 or BLEU over
batches, and one bootstrap (`confidence_intervals.py`) serves all metrics. Ranks are the
only exception: they are not additive, so rank metrics are computed from the units
themselves.
"""
