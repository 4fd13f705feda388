"""Converts a trained model to the dtype of its SavedModel: float32 or bfloat16."""

from dataclasses import replace

from transbeam.serving.base.trained_run import TrainedRun, build


def in_dtype(trained: TrainedRun) -> TrainedRun:
    """Returns the trained model with weights and computation in `export.dtype`.

    If the dtype is bfloat16, the weights are also stored in bfloat16: a server reads
    all weights for each text, and half as many bytes take half the time. Norms, softmax
    and outputs stay float32.

    Args:
        trained: In float32.
    """
    config = trained.config
    if config.export.dtype == "float32":
        return trained
    size = trained.tokenizer.vocabulary_size
    model = build(config, size, config.export.dtype)
    for weight, exact in zip(model.weights, trained.model.weights, strict=True):
        assert weight.path.split("/")[1:] == exact.path.split("/")[1:], weight.path
        weight.assign(exact.value)
    return replace(trained, model=model)


def with_tolerance(trained: TrainedRun) -> TrainedRun:
    """Returns the trained run with the parity tolerance of its SavedModel's dtype."""
    export = trained.config.export
    if export.dtype == "float32":
        return trained
    tolerance = replace(export.tolerance, saved_model=export.tolerance.bfloat16)
    export = replace(export, tolerance=tolerance)
    return replace(trained, config=replace(trained.config, export=export))
