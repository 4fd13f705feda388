"""Who is asked, and who answered: a `ModelSpec`, and what it means."""

from tensorflow_serving.apis import model_pb2

from transbeam.serving.server.protocol.rest_paths import ModelTarget


def model_spec(
    name: str, version: int, signature: str | None = None
) -> model_pb2.ModelSpec:
    """Who answered."""
    spec = model_pb2.ModelSpec(name=name, signature_name=signature)
    spec.version.value = version
    return spec


def asked_spec(target: ModelTarget, signature: str) -> model_pb2.ModelSpec:
    """Who was asked, as a client would write it.

    Example:
    >>> target_of(asked_spec(ModelTarget("demo", label="stable"), "")).label
    'stable'
    """
    spec = model_pb2.ModelSpec(name=target.name, signature_name=signature)
    if target.version is not None:
        spec.version.value = target.version
    elif target.label is not None:
        spec.version_label = target.label
    return spec


def target_of(spec: model_pb2.ModelSpec) -> ModelTarget:
    """Which model a message means."""
    choice = spec.WhichOneof("version_choice")
    return ModelTarget(
        spec.name,
        spec.version.value if choice == "version" else None,
        spec.version_label if choice == "version_label" else None,
    )
