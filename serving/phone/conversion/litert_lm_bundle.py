"""Packs a decoder's TFLite file and its tokenizer for LiteRT-LM, as one `.litertlm`.

The file is written by the package `litert-lm-builder` (half a megabyte, from
LiteRT-LM's authors); all dependencies of the package except `tomli` come with
TensorFlow. The builder's generated protobuf messages need exactly TensorFlow's version
of protobuf, so the builder's version is pinned.
"""

import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transbeam.configs.base.atomic_files import writing
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.templates import edge_texts
from transbeam.configs.schema.objectives.objective import Objective
from transbeam.configs.schema.objectives.supervised import CompletionConfig
from transbeam.pipeline.tokenizers.files.special_tokens import special_tokens
from transbeam.pipeline.tokenizers.files.tokenizer_folder import (
    read_tokenizer,
)
from transbeam.pipeline.tokenizers.files.tokenizer_json_writer import tokenizer_json
from transbeam.pipeline.tokenizers.files.tokenizer_model import TokenizerModel
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_model import (
    SentencePieceModel,
)

# The chat template of models without one: messages are concatenated, and the model
# continues the text. The content of a message is a string, or a list of parts.
_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for part in message['content'] %}{{ part['text'] }}{% endfor %}"
    "{% endif %}{% endfor %}"
)


def bundle_name(variant: str) -> str:
    """Returns the file name of a variant's bundle.

    Example:
    >>> bundle_name("dynamic_int8")
    'model_dynamic_int8.litertlm'
    """
    return f"model_{variant}.litertlm"


def message_template(objective: Objective) -> str | None:
    r"""Returns the chat template in Jinja of a model whose messages are prompts' texts.

    Example:
    >>> from transbeam.configs.schema.objectives.supervised import CompletionConfig
    >>> print(message_template(CompletionConfig(prompt="{text}\nIn short: ")))
    {{ "" }}{% for message in messages %}...{% endfor %}{{ "\nIn short:" }}
    """
    if not isinstance(objective, CompletionConfig):
        return None
    before, after = map(json.dumps, edge_texts(objective.prompt_template))
    return f"{{{{ {before} }}}}{_TEMPLATE}{{{{ {after} }}}}"


# LiteRT-LM gives a message's content as a list of parts.
_TEXT_OF_PARTS = (
    "{% macro text_of(content) %}"
    "{% if content is string %}{{ content }}"
    "{% else %}{% for part in content %}{{ part['text'] }}{% endfor %}"
    "{% endif %}{% endmacro %}"
)
_CONTENT = re.compile(r"""\bmessage(\.content\b|\[['"]content['"]\])""")


def for_litert_lm(source: str, special_tokens: Mapping[str, str]) -> str:
    """Returns a chat template for LiteRT-LM, which knows plain Jinja alone.

    The tag `generation`, which marks what the assistant wrote, becomes a condition that
    is always true, the special tokens become variables of the template, and the content
    of a `message` may be a list of parts.

    Args:
        source: The chat template.
        special_tokens: Special tokens by name, such as `eos_token`.

    Example:
    >>> names = {"eos_token": "</s>", "bos_token": "<s>"}
    >>> for_litert_lm("{% generation %}{{ eos_token }}{% endgeneration %}", names)
    '{% set eos_token = "</s>" -%}{% if true %}{{ eos_token }}{% endif %}'
    >>> for_litert_lm("{{ message.content }}", names).partition("{% endmacro %}")[2]
    '{{ text_of(message.content) }}'
    """
    plain = re.sub(r"({%-?\s*)generation(\s*-?%})", r"\1if true\2", source)
    plain = re.sub(r"({%-?\s*)endgeneration(\s*-?%})", r"\1endif\2", plain)
    plain, contents = _CONTENT.subn(r"text_of(\g<0>)", plain)
    used = {name: piece for name, piece in special_tokens.items() if name in source}
    names = (f"{{% set {n} = {json.dumps(p)} -%}}" for n, p in used.items())
    return (_TEXT_OF_PARTS if contents else "") + "".join(names) + plain


def check_bundle_tokenizer(model: TokenizerModel) -> None:
    """Checks that LiteRT-LM tokenizes texts as in training.

    Raises:
        ConfigError: The tokenizer is of SentencePiece, and matches special tokens in
            texts: LiteRT-LM would read them letter by letter.
    """
    whole = model.framing.found_whole
    if isinstance(model, SentencePieceModel) and whole:
        raise ConfigError(
            f"export.litert_lm=True: the chat template writes {whole[0]!r}, which "
            "LiteRT-LM does not match in texts for a SentencePiece tokenizer. Take the "
            "key away; the tokenizer in Kotlin, Swift and Python beside the plain file "
            "matches it"
        )


def write_bundle(
    model: Path,
    tokenizer: Path,
    bundle: Path,
    slots: int,
    template: str | None = None,
) -> None:
    """Writes a file for LiteRT-LM.

    A SentencePiece model is stored as it is, a byte-level BPE or a WordPiece as a
    `tokenizer.json`. The start token begins a prompt, unless it is also the end token;
    the end token and the tokenizer's further stop tokens end generation. The
    tokenizer's chat template is stored, unless another is given. Bundles of
    the same model differ, because the builder stores the current time.

    Args:
        model: The TFLite file of a causal model, with the signatures `prefill_N` and
            `decode`.
        tokenizer: The run's tokenizer folder.
        bundle: The file to write, such as `model.litertlm`.
        slots: The number of tokens that the model's cache holds.
        template: A chat template in Jinja, or None for the tokenizer's.

    Raises:
        ArtifactError: The tokenizer is damaged, or the file cannot be written.
    """
    # Imported late, because it registers messages with protobuf.
    from litert_lm_builder import litertlm_builder as lm

    pieces = read_tokenizer(tokenizer).model
    builder = lm.LitertLmFileBuilder()
    with writing(bundle), tempfile.TemporaryDirectory(dir=bundle.parent) as folder:
        metadata = Path(folder, "metadata.pb")
        metadata.write_bytes(_metadata(pieces, slots, template).SerializeToString())
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
        built = Path(folder, bundle.name)
        with built.open("wb") as stream:
            builder.build(stream, validate_metadata=True)
        built.replace(bundle)


def _metadata(pieces: TokenizerModel, slots: int, template: str | None) -> Any:
    """Returns the metadata for LiteRT-LM: an `LlmMetadata`."""
    from litert_lm_builder.runtime.proto.llm_metadata_pb2 import LlmMetadata
    from litert_lm_builder.runtime.proto.llm_model_type_pb2 import GenericModel

    special, metadata = pieces.special, LlmMetadata()
    if special.begin not in (None, special.end):
        metadata.start_token.token_ids.ids.append(special.begin)
    for end in special.ends:
        metadata.stop_tokens.add().token_ids.ids.append(end)
    metadata.max_num_tokens = slots
    metadata.llm_model_type.generic_model.CopyFrom(GenericModel())
    if template is None and (own := pieces.framing.chat_template) is not None:
        template = for_litert_lm(own, special_tokens(pieces))
    metadata.jinja_prompt_template = template or _TEMPLATE
    metadata.supports_thinking = metadata.supports_function_calling = False
    return metadata
