"""Conversion of checkpoints between other libraries and ours, in both directions.

Transbeam's weights are always a mapping from the path of a weight to its values, as in
`{"token_embedding/embeddings": ...}`. A table for each model family maps names and
transforms tensors; it is used in both directions.

    checkpoint = read_checkpoint("path/to/bert-base-uncased")
    model = build_encoder(checkpoint.config, checkpoint.vocabulary_size)
    assign(model, checkpoint.weights(variable_shapes(model)))
"""
