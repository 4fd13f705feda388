"""How requests are put together, by TF Serving's names.

https://github.com/tensorflow/serving/blob/master/tensorflow_serving/batching/README.md
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class BatchingParameters:
    """How requests are put together.

    Attributes:
        enabled: Whether at all; if not, each is run as it came.
        max_batch_size: Rows in a batch.
        batch_timeout_micros: How long a batch that is not full waits for more. With 0
            it waits for nobody, and what arrives while another runs goes together.
        max_enqueued_batches: How many full batches may wait; what comes then is
            refused.
        num_batch_threads: Batches that run at once.
        allowed_batch_sizes: A batch is filled up to the next of these by repeating its
            first row. All sizes are allowed if empty.
    """

    enabled: bool = True
    max_batch_size: int = 32
    batch_timeout_micros: int = 0
    max_enqueued_batches: int = 64
    num_batch_threads: int = 2
    allowed_batch_sizes: tuple[int, ...] = ()

    @property
    def most_rows(self) -> int:
        """That may wait."""
        return self.max_batch_size * self.max_enqueued_batches
