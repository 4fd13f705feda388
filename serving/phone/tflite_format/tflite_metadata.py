"""TFLite Metadata, which MediaPipe Tasks reads.

The metadata describes the inputs, the output and the tokenizer, and contains the
vocabulary and the labels. The metadata is a flatbuffer inside the file's flatbuffer;
the vocabulary and the labels are in an uncompressed ZIP archive after the model's
flatbuffer, which the plain interpreter ignores.

MediaPipe's own metadata writer cannot be used, because the writer in the wheel of
version 1.2.2 cannot be imported.
"""

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from ai_edge_litert import schema_py_generated as model_schema

from transbeam.serving.phone.tflite_format.flatbuffer_io import Schema, write_table
from transbeam.serving.phone.tflite_format.tflite_flatbuffer import packed, unpacked

LABELS_FILE = "labels.txt"

# The name of the buffer, and the file identifier of its contents.
BUFFER, _MARK = "TFLITE_METADATA", "M001"
# The first version of the schema with tokenizers.
_OLDEST_READER = "1.1.0"
_AXIS_LABELS, _VOCABULARY = 2, 5  # kinds of files

# The used part of the published schema, `metadata_schema.fbs`. A field's id is its
# position, so unused fields before a used one are listed, too.
SCHEMA: Schema = {
    "ModelMetadata": {
        "name": "string",
        "description": "string",
        "version": "string",
        "subgraph_metadata": ["SubGraphMetadata"],
        "author": None,
        "license": None,
        "associated_files": None,
        "min_parser_version": "string",
    },
    "SubGraphMetadata": {
        "name": "string",
        "description": "string",
        "input_tensor_metadata": ["TensorMetadata"],
        "output_tensor_metadata": ["TensorMetadata"],
        "associated_files": None,
        "input_process_units": ["ProcessUnit"],
    },
    "TensorMetadata": {
        "name": "string",
        "description": "string",
        "dimension_names": None,
        "content": "Content",
        "process_units": None,
        "stats": None,
        "associated_files": ["AssociatedFile"],
    },
    "Content": {"content_properties": ("FeatureProperties",)},
    "FeatureProperties": {},
    "AssociatedFile": {"name": "string", "description": "string", "type": "byte"},
    "ProcessUnit": {
        "options": (
            "NormalizationOptions",
            "ScoreCalibrationOptions",
            "ScoreThresholdingOptions",
            "BertTokenizerOptions",
            "SentencePieceTokenizerOptions",
        )
    },
    "BertTokenizerOptions": {"vocab_file": ["AssociatedFile"]},
    "SentencePieceTokenizerOptions": {"sentencePiece_model": ["AssociatedFile"]},
}
_TOKENIZERS = {
    "wordpiece": ("BertTokenizerOptions", "vocab_file"),
    "sentencepiece": ("SentencePieceTokenizerOptions", "sentencePiece_model"),
}


@dataclass(frozen=True, kw_only=True)
class TextModelMetadata:
    """Metadata of a model with one text input.

    Attributes:
        name: Name of the model.
        description: A readable description.
        version: Version of the model.
        inputs: A description of each input of the signature, by name. Programs that
            read the metadata find the inputs by these names.
        output: Name and description of the only output.
        tokenizer: The kind of tokenizer that MediaPipe uses for the model.
        tokenizer_file: Name and content of the tokenizer's vocabulary file or model
            file.
        labels: Names of a classifier's labels, in the order of its scores.
    """

    name: str
    description: str
    version: str
    inputs: Mapping[str, str]
    output: tuple[str, str]
    tokenizer: Literal["wordpiece", "sentencepiece"]
    tokenizer_file: tuple[str, bytes]
    labels: Sequence[str] | None = None


def with_metadata(content: bytes, metadata: TextModelMetadata) -> bytes:
    """Adds metadata to a TFLite file with one signature.

    Args:
        content: The file.
        metadata: The metadata, which must describe all inputs of the signature.

    Returns:
        The file.
    """
    model = unpacked(content)
    (subgraph,), (signature,) = model.subgraphs, model.signatureDefs
    names = {of.tensorIndex: of.name.decode() for of in signature.inputs}
    inputs = [names[index] for index in subgraph.inputs]  # the converter's order
    fields = _metadata_fields(metadata, inputs)
    written = write_table(SCHEMA, "ModelMetadata", fields, _MARK)

    buffer = model_schema.BufferT(data=np.frombuffer(written, np.uint8))
    model.buffers.append(buffer)
    entry = model_schema.MetadataT(name=BUFFER, buffer=len(model.buffers) - 1)
    model.metadata = [*(model.metadata or ()), entry]

    files = dict([metadata.tokenizer_file])
    if metadata.labels is not None:
        files[LABELS_FILE] = "".join(f"{label}\n" for label in metadata.labels).encode()
    # Readers do not support compression.
    stream = io.BytesIO(packed(model))
    with zipfile.ZipFile(stream, "a", zipfile.ZIP_STORED) as archive:
        for name, of in files.items():
            archive.writestr(zipfile.ZipInfo(name), of)  # dated 1980: bytes repeat
    return stream.getvalue()


def _metadata_fields(
    metadata: TextModelMetadata, inputs: Sequence[str]
) -> dict[str, Any]:
    """Returns the metadata as a dict for `SCHEMA`, with inputs in the file's order."""
    numbers = {"content_properties": ("FeatureProperties", {})}
    output: dict[str, Any] = {
        "name": metadata.output[0],
        "description": metadata.output[1],
        "content": numbers,
    }
    if metadata.labels is not None:
        output["associated_files"] = [{"name": LABELS_FILE, "type": _AXIS_LABELS}]
    options, field = _TOKENIZERS[metadata.tokenizer]
    file = {"name": metadata.tokenizer_file[0], "type": _VOCABULARY}
    subgraph = {
        "input_tensor_metadata": [
            {"name": name, "description": metadata.inputs[name], "content": numbers}
            for name in inputs
        ],
        "output_tensor_metadata": [output],
        "input_process_units": [{"options": (options, {field: [file]})}],
    }
    return {
        "name": metadata.name,
        "description": metadata.description,
        "version": metadata.version,
        "subgraph_metadata": [subgraph],
        "min_parser_version": _OLDEST_READER,
    }
