"""Conversion between `ModelSpec` messages and the addressed models."""

from tensorflow_serving.apis import model_pb2

from transbeam.serving.server.protocol.rest_paths import ModelTarget


def model_spec(
    name: str, version: int, signature: str | None = None
) -> model_pb2.ModelSpec:
    """Creates the model spec of a response."""
    spec = model_pb2.ModelSpec(name=name, signature_name=signature)
    spec.version.value = version
    return spec


def target_spec(target: ModelTarget, signature: str) -> model_pb2.ModelSpec:
    """Creates the model spec that a client would send for a target.

    Example:
    >>> parse_target(target_spec(ModelTarget("demo", label="stable"), "")).label
    'stable'
    """
    spec = model_pb2.ModelSpec(name=target.name, signature_name=signature)
    if target.version is not None:
        spec.version.value = target.version
    elif target.label is not None:
        spec.version_label = target.label
    return spec


def parse_target(spec: model_pb2.ModelSpec) -> ModelTarget:
    """Returns the target that a model spec addresses."""
    choice = spec.WhichOneof("version_choice")
    return ModelTarget(
        spec.name,
        spec.version.value if choice == "version" else None,
        spec.version_label if choice == "version_label" else None,
    )
