"""What a model is asked to predict: one module per objective.

Each module has two functions:

    features(run: RunConfig) -> tuple[Feature, ...]
        The record contract, which needs neither the corpus nor a tokenizer.
    make_records(batch: DocumentBatch, tokenizer: Tokenizer, run: RunConfig,
                 split: Split) -> Records
        The records of one part of one split, a function of its arguments alone.

No module imports TensorFlow.
"""
