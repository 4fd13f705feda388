"""MultiInference: Classify and Regress signatures of one model, in one run."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from grpc import StatusCode
from tensorflow_serving.apis import inference_pb2

from serving.server import inference
from serving.server.contract.examples import serialized_examples
from serving.server.failures import Failure, invalid
from serving.server.models.signature import DEFAULT, Signature

# Runs a graph: names of tensors, values for them, and names of those that are wanted.
RunTensors = Callable[
    [tuple[str, ...], Sequence[np.ndarray], Sequence[str]], list[np.ndarray]
]


def check_tasks(tasks: Sequence[inference_pb2.InferenceTask]) -> None:
    """Makes sure that there are tasks, of one model and of different signatures.

    Raises:
        Failure: They are not.
    """
    if not tasks:
        raise invalid("Inference request must have at least one task.")
    if not all(task.model_spec.name for task in tasks):
        raise invalid("Found ModelSpec with an empty model name.")
    if len({task.model_spec.name for task in tasks}) > 1:
        raise invalid(
            "All ModelSpecs in a MultiInferenceRequest must access the same model name."
        )
    seen = set()
    for task in tasks:
        name = task.model_spec.signature_name or DEFAULT
        if name in seen:
            raise invalid(f"Duplicate evaluation of signature: {name}")
        seen.add(name)


def multi_inference(
    request: inference_pb2.MultiInferenceRequest,
    signatures: Mapping[str, Signature],
    run: RunTensors,
) -> inference_pb2.MultiInferenceResponse:
    """Asks several signatures about the same examples.

    Args:
        request: Went through `check_tasks`.
        signatures: Of the version that is asked.
        run: Runs its graph.

    Returns:
        A result for each task; which version it is of is not said.

    Raises:
        Failure: There are no examples, a signature is not for its task, or they do not
            read one input; or as `run`.
    """
    tasks = request.tasks
    examples = serialized_examples(request.input)
    chosen = [_chosen(signatures, task) for task in tasks]
    fed = {s.definition.inputs[inference.INPUTS].name for s in chosen}
    if len(fed) > 1:
        raise invalid("Input tensor must be the same for all Signatures.")
    asked = [
        {
            name: signature.definition.outputs[name].name
            for name in inference.outputs_of(signature, task.method_name)
        }
        for task, signature in zip(tasks, chosen, strict=True)
    ]
    fetched = sorted({tensor for of in asked for tensor in of.values()})
    found = run(tuple(fed), [examples], fetched)
    values = dict(zip(fetched, found, strict=True))
    response = inference_pb2.MultiInferenceResponse()
    for task, signature, tensors in zip(tasks, chosen, asked, strict=True):
        outputs = {name: values[tensor] for name, tensor in tensors.items()}
        result = response.results.add()
        result.model_spec.name = task.model_spec.name
        result.model_spec.signature_name = signature.name
        if task.method_name == inference.CLASSIFY:
            classes = inference.classification(outputs, len(examples))
            result.classification_result.CopyFrom(classes)
        else:
            numbers = inference.regression(outputs, len(examples))
            result.regression_result.CopyFrom(numbers)
    return response


def _chosen(
    signatures: Mapping[str, Signature], task: inference_pb2.InferenceTask
) -> Signature:
    name = task.model_spec.signature_name or DEFAULT
    signature = signatures.get(name)
    if signature is None:
        raise invalid(f"Requested signature not found in model graph: {name}")
    if task.method_name not in (inference.CLASSIFY, inference.REGRESS):
        raise Failure(
            StatusCode.UNIMPLEMENTED,
            f"Unsupported signature method_name: {task.method_name}",
        )
    inference.check_method(signature, task.method_name)
    return signature
