"""From the shards of records to batches, in an order that the seed alone decides."""
