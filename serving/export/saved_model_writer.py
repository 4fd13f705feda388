"""Writes a SavedModel with tokenizer, weights and signatures, for TF Serving."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from transbeam.configs.base.atomic_files import writing
from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.system.native_output import output_on_error
from transbeam.model.kernels.dispatch import plain
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.signatures.base.id_checks import check_ids
from transbeam.serving.signatures.generation.generate_signatures import GenerationTask
from transbeam.serving.signatures.generation.sampling_params import DEFAULTS
from transbeam.serving.signatures.task_factory import make_signature_task

# Besides TensorFlow's own ops, the stock model server has those of tensorflow_text.
TEXT_OPS = frozenset(
    {
        "FastWordpieceTokenizeWithOffsets",
        "NormalizeUTF8",
        "RegexSplitWithOffsets",
        "SentencepieceDetokenizeOp",
        "SentencepieceOp",
        "SentencepieceTokenizeOp",
    }
)

MethodNameUpdater: Any = tf.compat.v1.saved_model.signature_def_utils.MethodNameUpdater

# These call back into the Python process that wrote the file.
PYTHON_OPS = frozenset({"EagerPyFunc", "PyFunc", "PyFuncStateless"})


def write_saved_model(trained: TrainedRun, folder: Path) -> None:
    """Writes a SavedModel that needs `tensorflow` and `tensorflow_text`, not Transbeam.

    The SavedModel has the signatures of the model's objective; see
    `transbeam.serving.signatures.task_factory`.

    Args:
        trained: The model to export.
        folder: The version folder, such as `saved_model/1`; must not exist.

    Raises:
        ArtifactError: The folder cannot be written, or an op is missing in TF Serving.
    """
    task = make_signature_task(trained)
    model, tokens = trained.config.model, trained.tokenizer.vocabulary_size
    endpoints = check_ids(task.endpoints(), model, tokens)
    resources = [trained.tokenizer] if "tokenize" in endpoints else []
    write_endpoints(folder, endpoints, resources)
    _name_methods(folder, task.methods)
    if isinstance(task, GenerationTask):
        write_defaults(folder, dict.fromkeys(endpoints, DEFAULTS))
    check_ops(folder)


def write_endpoints(
    folder: Path,
    endpoints: Mapping[str, tuple[Callable[..., Any], Sequence[tf.TensorSpec]]],
    resources: Sequence[Any] = (),
    tracing: Callable[[], AbstractContextManager[None]] = plain,
) -> None:
    """Writes functions as the signatures of a SavedModel.

    Args:
        folder: The folder to write, which must not exist; its parents are created.
        endpoints: Function and input specs of each signature.
        resources: Objects with the lookup tables that the functions use, if any.
        tracing: Returns the context manager under which the functions are traced.

    Raises:
        ArtifactError: The folder cannot be written.
    """
    # Not `tf.saved_model.save`: its files of Keras models load in Python, but have no
    # weights in C++ (tensorflow#72963). The archive finds the variables of the
    # functions by itself; a model given to its `track` would be saved a second time.
    archive: Any = keras.export.ExportArchive()
    for resource in resources:
        archive.track(resource)
    with tracing():
        for name, (function, inputs) in endpoints.items():
            traced = archive.add_endpoint(name, function, inputs)
            # The archive would trace it for its variables, and TensorFlow once more
            # while it is saved. Both reuse a concrete function.
            setattr(archive._tf_trackable, name, traced.get_concrete_function())
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with tracing():
            archive.write_out(str(folder), verbose=False)
    except tf.errors.OpError as error:  # TensorFlow's form of an OSError
        raise ArtifactError(
            f"{folder}: cannot be written: {error.message}. Free some space or choose "
            "another folder with --run"
        ) from error


def _name_methods(folder: Path, methods: Mapping[str, str]) -> None:
    """Marks signatures as being for TF Serving's Classify or Regress API.

    Keras writes all signatures for TF Serving's Predict API.
    """
    if not methods:
        return
    with output_on_error():  # it logs that a file was replaced
        updater = MethodNameUpdater(str(folder))
        for signature, method in methods.items():
            name = f"tensorflow/serving/{method}"
            updater.replace_method_name(signature, name, tags="serve")
        updater.save()


def write_defaults(folder: Path, defaults: Mapping[str, Mapping[str, Any]]) -> None:
    """Writes default values of signature inputs: one value for all rows.

    Servers that support defaults do not require inputs with default values; Keras
    itself writes no defaults.

    Args:
        folder: The version folder.
        defaults: For each signature, values by input name; unknown names are ignored.

    Raises:
        ArtifactError: The file cannot be written.
    """
    file = folder / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    for meta_graph in saved.meta_graphs:
        for signature, values in defaults.items():
            definition = meta_graph.signature_def[signature]
            for name in values.keys() & definition.inputs.keys():
                dtype = tf.as_dtype(definition.inputs[name].dtype)
                value = tf.make_tensor_proto([values[name]], dtype)
                definition.defaults[name].CopyFrom(value)
    with writing(file):
        file.write_bytes(saved.SerializeToString(deterministic=True))


def list_ops(folder: Path) -> set[str]:
    """Returns the names of all ops in a SavedModel's graphs and functions."""
    content = (folder / "saved_model.pb").read_bytes()
    ops: set[str] = set()
    for meta_graph in saved_model_pb2.SavedModel.FromString(content).meta_graphs:
        graph = meta_graph.graph_def
        ops.update(node.op for node in graph.node)
        for function in graph.library.function:
            ops.update(node.op for node in function.node_def)
    return ops


def check_ops(folder: Path) -> None:
    """Checks that the stock model server can run a SavedModel.

    Raises:
        ArtifactError: An op is neither part of TensorFlow nor in `TEXT_OPS`, or an op
            calls Python.
    """
    ops = list_ops(folder)
    # `tf.raw_ops` has exactly the ops that are compiled into TensorFlow.
    strange = {op for op in ops if not hasattr(tf.raw_ops, op)} - TEXT_OPS
    if refused := sorted(strange | (ops & PYTHON_OPS)):
        raise ArtifactError(
            f"{folder}: uses {', '.join(refused)}, which TF Serving cannot run; "
            "expected TensorFlow's own graph ops and those of tensorflow_text's "
            "tokenizers. Write the layer or the tokenizer with these"
        )
