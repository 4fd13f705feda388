"""Weights both ways: checkpoints of other programs to ours, and ours to theirs.

Our side is always a mapping from the path of a weight to its values, as in
`{"token_embedding/embeddings": ...}`. One table of names for each family of models says
what stands where, and how to turn one into the other; it is read in both directions.

    checkpoint = read_checkpoint("path/to/bert-base-uncased")
    model = build_encoder(checkpoint.config, checkpoint.vocabulary_size)
    assign(model, checkpoint.weights(shapes_of(model)))
"""
