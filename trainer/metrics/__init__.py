"""How good answers are: pure functions over arrays and strings, without Keras.

Every metric here has one shape. A *unit* is what was drawn to be evaluated: a record, a
sentence, a question. For `n` of them `statistics(...)` gives float64 `(n, k)`: numbers
that add up. `scores(sums)` makes scores of sums `(..., k)`, by name, each `(...)`:

    statistics = metric.statistics(predictions, targets)       # batch by batch
    metric.scores(statistics.sum(axis=0))                      # of the whole
    intervals(statistics, metric.scores, seed=0)               # and how sure we are

So batches, shards and workers are put together exactly, a mean of batches' F1 or BLEU
never happens, and one bootstrap (`confidence_intervals.py`) serves all metrics. Ranks
are the one thing that does not add up; what is made of them is scored from the units
themselves.
"""
