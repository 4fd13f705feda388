"""Packs a decoder's TFLite file and its tokenizer for LiteRT-LM, as one `.litertlm`.

The format is written by `litert-lm-builder`, the package of those who define it: half
a megabyte, and what it needs is there with TensorFlow but for `tomli`. Its generated
messages want the very protobuf that TensorFlow brings, so its version is held.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from transbeam.configs.base.atomic_files import writing
from transbeam.pipeline.tokenizers.files.tokenizer_folder import (
    TokenizerModel,
    read_tokenizer,
)
from transbeam.pipeline.tokenizers.files.tokenizer_json_writer import tokenizer_json
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_model import (
    SentencePieceModel,
)

# Where a model has no template of its own a conversation is its messages one after the
# other: the model goes on with a text.
# What a message says is a text, or a list of parts.
_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for part in message['content'] %}{{ part['text'] }}{% endfor %}"
    "{% endif %}{% endfor %}"
)


def bundle_name(variant: str) -> str:
    """What the bundle of a variant is called.

    Example:
    >>> bundle_name("dynamic_int8")
    'model_dynamic_int8.litertlm'
    """
    return f"model_{variant}.litertlm"


def write_bundle(model: Path, tokenizer: Path, bundle: Path, slots: int) -> None:
    """Writes a file that LiteRT-LM runs.

    A model of SentencePiece goes in as it is, a byte-level BPE or a WordPiece as a
    `tokenizer.json`. The token that begins documents begins a prompt, unless it ends
    documents too, and what ends documents ends a text, as the tokenizer's further
    stops do. Its chat template goes in as it is. No two bundles are equal byte
    for byte: the builder writes down when it made them.

    Args:
        model: The TFLite file of a causal model, with `prefill_N` and `decode`.
        tokenizer: The run's tokenizer folder.
        bundle: The file to write, such as `model.litertlm`.
        slots: Tokens that the model's cache holds.

    Raises:
        ArtifactError: The tokenizer is damaged, or the disk refuses.
    """
    # Late, because it registers messages with protobuf.
    from litert_lm_builder import litertlm_builder as lm

    pieces = read_tokenizer(tokenizer).model
    builder = lm.LitertLmFileBuilder()
    with writing(bundle), tempfile.TemporaryDirectory(dir=bundle.parent) as folder:
        metadata = Path(folder, "metadata.pb")
        metadata.write_bytes(_metadata(pieces, slots).SerializeToString())
        authors = lm.Metadata(key="Authors", value="Transbeam", dtype=lm.DType.STRING)
        builder.add_system_metadata(authors)
        builder.add_llm_metadata(str(metadata))
        if isinstance(pieces, SentencePieceModel):
            file = Path(folder, "spiece.model")
            file.write_bytes(pieces.proto)
            builder.add_sentencepiece_tokenizer(str(file))
        else:
            file = Path(folder, "tokenizer.json")
            file.write_text(json.dumps(tokenizer_json(pieces)), "utf-8")
            builder.add_hf_tokenizer(str(file))
        builder.add_tflite_model(str(model), lm.TfLiteModelType.PREFILL_DECODE)
        made = Path(folder, bundle.name)
        with made.open("wb") as stream:
            builder.build(stream, validate_metadata=True)
        made.replace(bundle)


def _metadata(pieces: TokenizerModel, slots: int) -> Any:
    """What LiteRT-LM has to know of a model: an `LlmMetadata`."""
    from litert_lm_builder.runtime.proto.llm_metadata_pb2 import LlmMetadata
    from litert_lm_builder.runtime.proto.llm_model_type_pb2 import GenericModel

    special, metadata = pieces.special, LlmMetadata()
    if special.begin not in (None, special.end):
        metadata.start_token.token_ids.ids.append(special.begin)
    for end in special.ends:
        metadata.stop_tokens.add().token_ids.ids.append(end)
    metadata.max_num_tokens = slots
    metadata.llm_model_type.generic_model.CopyFrom(GenericModel())
    metadata.jinja_prompt_template = pieces.framing.chat_template or _TEMPLATE
    metadata.supports_thinking = metadata.supports_function_calling = False
    return metadata
