"""MultiInference: Classify and Regress signatures of one model in one graph run."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from grpc import StatusCode
from tensorflow_serving.apis import inference_pb2

from transbeam.serving.server.base.status import StatusError, invalid
from transbeam.serving.server.inference import classify_regress
from transbeam.serving.server.inference.signature import DEFAULT, ServableSignature
from transbeam.serving.server.protocol.tf_examples import serialized_examples

# Runs a graph: names of the fed tensors, their values, names of the fetched tensors.
RunTensors = Callable[
    [tuple[str, ...], Sequence[np.ndarray], Sequence[str]], list[np.ndarray]
]


def chosen_signatures(
    tasks: Sequence[inference_pb2.InferenceTask],
    signatures: Mapping[str, ServableSignature],
) -> list[ServableSignature]:
    """Returns the signature of each task.

    Args:
        tasks: Tasks of the request.
        signatures: Signatures of the version that the first task addresses.

    Raises:
        StatusError: The tasks address different models, or a signature is unknown,
            repeated, or does not support the method of its task.
    """
    model, found = "", {}
    for task in tasks:
        spec = task.model_spec
        if not spec.name:
            raise invalid("Found ModelSpec with an empty model name.")
        if spec.name != (model := model or spec.name):
            raise invalid(
                "All ModelSpecs in a MultiInferenceRequest must access the same model "
                "name."
            )
        name = spec.signature_name or DEFAULT
        if name in found:
            raise invalid(f"Duplicate evaluation of signature: {name}")
        if name not in signatures:
            raise invalid(f"Requested signature not found in model graph: {name}")
        if task.method_name not in classify_regress.METHODS.values():
            raise StatusError(
                StatusCode.UNIMPLEMENTED,
                f"Unsupported signature method_name: {task.method_name}",
            )
        found[name] = signatures[name]
        classify_regress.check_method(found[name], task.method_name)
    return list(found.values())


def multi_inference(
    request: inference_pb2.MultiInferenceRequest,
    signatures: Mapping[str, ServableSignature],
    run: RunTensors,
) -> inference_pb2.MultiInferenceResponse:
    """Runs several signatures on the same examples.

    Args:
        request: A request for one model.
        signatures: Signatures of the version.
        run: Runs the version's graph.

    Returns:
        A result for each task, without the version number.

    Raises:
        StatusError: The request has no examples, or `chosen_signatures` or `run` fails.
    """
    tasks = request.tasks
    chosen = chosen_signatures(tasks, signatures)
    examples = serialized_examples(request.input)
    # SavedModels of TensorFlow 1 may share one input tensor; those of TensorFlow 2 have
    # one for each signature.
    fed = sorted({s.definition.inputs[classify_regress.INPUTS].name for s in chosen})
    tensor_names = [
        {
            name: signature.definition.outputs[name].name
            for name in classify_regress.method_output_names(
                signature, task.method_name
            )
        }
        for task, signature in zip(tasks, chosen, strict=True)
    ]
    fetched = sorted({tensor for of in tensor_names for tensor in of.values()})
    values = dict(
        zip(fetched, run(tuple(fed), [examples] * len(fed), fetched), strict=True)
    )
    response = inference_pb2.MultiInferenceResponse()
    for task, signature, tensors in zip(tasks, chosen, tensor_names, strict=True):
        outputs = {name: values[tensor] for name, tensor in tensors.items()}
        result = response.results.add()
        result.model_spec.name = task.model_spec.name
        result.model_spec.signature_name = signature.name
        if task.method_name == classify_regress.CLASSIFY:
            result.classification_result.CopyFrom(
                classify_regress.classification(outputs, len(examples))
            )
        else:
            result.regression_result.CopyFrom(
                classify_regress.regression(outputs, len(examples))
            )
    return response
