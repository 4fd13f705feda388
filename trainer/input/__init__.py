"""Batches from shards of records, in an order that only the seed determines."""
