"""Batching parameters, with TF Serving's names.

https://github.com/tensorflow/serving/blob/master/tensorflow_serving/batching/README.md
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class BatchingParameters:
    """Parameters of request batching.

    Attributes:
        enabled: False to run each request alone.
        max_batch_size: Maximum number of rows in a batch.
        batch_timeout_micros: Microseconds that a batch that is not full waits for more
            rows. With 0 it does not wait; requests that arrive during a run still share
            the next batch.
        max_enqueued_batches: Maximum number of full batches in the queue; further
            requests are rejected.
        num_batch_threads: Number of batches that run at once.
        allowed_batch_sizes: Batch sizes to pad to, by repeating the first row. Any
            size is allowed if empty.
    """

    enabled: bool = True
    max_batch_size: int = 32
    batch_timeout_micros: int = 0
    max_enqueued_batches: int = 64
    num_batch_threads: int = 2
    allowed_batch_sizes: tuple[int, ...] = ()

    @property
    def most_rows(self) -> int:
        """Maximum number of queued rows."""
        return self.max_batch_size * self.max_enqueued_batches
