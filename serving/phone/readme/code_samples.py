"""Code samples in Python, Kotlin and Swift that run a TFLite file, for a README.

Each kind of model has a template in each language, in `templates/uses`; the values of
its placeholders are read from the file or from the run.
"""

from collections.abc import Mapping, Sequence
from string import Template
from typing import Any

import numpy as np

from transbeam.configs.base.templates import template_parts
from transbeam.configs.schema.export import example_texts
from transbeam.configs.schema.objectives.objective import (
    ImageObjective,
    LabelSetObjective,
    SpanObjective,
    TextPairObjective,
)
from transbeam.configs.schema.objectives.traits import (
    input_names,
    text_templates,
    traits,
)
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.phone.readme.sample_templates import (
    LABEL_SET,
    LANGUAGES,
    USES,
    filled,
    template,
)
from transbeam.serving.phone.tflite_format.signature_table import (
    ROW,
    TFLiteSignatureEntry,
)
from transbeam.serving.signatures.answer import AnswerTask
from transbeam.serving.signatures.base.interface import SignatureTask
from transbeam.serving.signatures.embedding import Embedder
from transbeam.serving.signatures.task_factory import make_signature_task
from transbeam.serving.signatures.words import WordsTask

_MOST = 64  # pieces that are written, where the cache has room for more
_EMBEDDED = ("Two dogs run in a park.",)


def program_values(
    trained: TrainedRun, signatures: Mapping[str, TFLiteSignatureEntry], model: str
) -> dict[str, str]:
    """Returns the values of the placeholders in code samples and in the README.

    Args:
        trained: The exported model.
        signatures: Of its file.
        model: The file's name.
    """
    objective = trained.config.objective
    signature = next(name for name in USES if name in signatures)
    first = signatures[signature]
    values: dict[str, Any] = {
        "model": model,
        "signature": signature,
        "activation": traits(objective).activation,
        "prefix": trained.tokenizer.word_prefix if "decode" not in signatures else "",
    }
    values["prefix_text"] = _quoted(values["prefix"], "python")
    if "decode" in signatures:
        values |= _of_writers(trained, signatures)
    elif isinstance(objective, ImageObjective):
        values |= _of_images(first)
    else:
        values |= _of_rows(first)
    if "fill_mask" in signatures:
        *_, masks, width = signatures["fill_mask"].outputs["logits"].shape
        values |= {"masks": masks, "width": width}
    if "embed" in signatures:
        values["vector"] = signatures["embed"].outputs["embedding"].shape[-1]
        values["longest_vector"] = Embedder(trained).max_length
    task = make_signature_task(trained)
    if isinstance(task, WordsTask):
        longest = task.longest_word
        values |= {"longest_word": longest, "step": task.room - longest + 1}
        values |= {
            "room": values["length"] - task.frame.size(),
            "first_place": task.frame.starts,
        }
    if isinstance(objective, SpanObjective):
        values |= {
            "longest_question": objective.max_question_length,
            "longest_answer": trained.config.evaluation.max_answer_length,
            "stride": objective.stride,
            **_of_no_answer(trained.calibration.no_answer_threshold),
        }
    if isinstance(objective, LabelSetObjective):
        values |= _of_label_set(trained.calibration.label_thresholds(objective))
    if not isinstance(objective, ImageObjective):
        values |= _of_texts(trained)
    return {name: str(value) for name, value in values.items()}


def program(
    trained: TrainedRun,
    language: str,
    signatures: Mapping[str, TFLiteSignatureEntry],
    values: Mapping[str, str],
) -> str:
    """Returns a code sample that runs the model.

    Args:
        trained: The exported model.
        language: One of `sample_templates.LANGUAGES`.
        signatures: Of its file.
        values: The result of `program_values`.
    """
    short = {"python": "py", "kotlin": "kt", "swift": "sw"}[language]
    kind = _sample(trained, values["signature"])
    own = {
        name: Template(value).safe_substitute(values)
        if name.endswith("_row")
        else value
        for name, value in values.items()
    }

    def part(name: str) -> str:
        return filled(f"uses/{name}.{language}", own).rstrip("\n")

    if kind == "write":
        own["source"] = _source(trained, language)
        begins = "encode" if "encode" in signatures else "prefill"
        if any(name.startswith("prefix_") for name in signatures):
            begins = "prefix"
        gaps = values["encode"] == "encode"
        own[f"{short}_begin"] = part(begins)
        own[f"{short}_encode"] = part("gaps") + "\n" if gaps else ""
        own["py_regex"] = "import re\n" if gaps else ""
        return filled(f"uses/write.{language}", own).lstrip("\n")
    sample = template(f"uses/{kind}.{language}")
    of_images = isinstance(trained.config.objective, ImageObjective)
    parts = {}
    if "$probabilities" in sample:
        parts["probabilities"] = part(values["activation"])
    if "$words" in sample:
        parts["words"] = part("words")
    if "$labels" in sample:
        parts["labels"] = part("labels")
    has_labels = language == "swift" and "labels" in parts
    own["sw_labels"] = "\n" + part("load_labels") if has_labels else ""
    if language == "kotlin":
        parts["imports"] = part("imports")
        if "probabilities" not in parts:
            unused = "import kotlin.math.exp\n"
            parts["imports"] = parts["imports"].replace(unused, "")
        if of_images:
            tokens = "\nimport transbeam.Row\nimport transbeam.Tokenizer"
            parts["imports"] = parts["imports"].replace(tokens, "")
    parts["open"] = part("open_image" if of_images else "open")
    return Template(sample).substitute(own | parts)


def _sample(trained: TrainedRun, signature: str) -> str:
    """Returns the name of the code sample for a signature."""
    is_set = isinstance(trained.config.objective, LabelSetObjective)
    return LABEL_SET if is_set else USES[signature]


def _of_no_answer(threshold: float | None) -> dict[str, str]:
    """Returns the conditions under which a question has no answer, if there are any."""
    if threshold is None:
        return {"py_or_none": "", "kt_or_none": "", "sw_and_some": ""}
    number = _number(threshold)
    return {
        "py_or_none": f" or none - best[1] > {number}",
        "kt_or_none": f" || none - score > {number}f",
        "sw_and_some": f", none - score <= {number}",
    }


def _of_label_set(thresholds: Sequence[float]) -> dict[str, str]:
    """Returns the thresholds of labels as literals."""
    numbers = [*map(_number, thresholds)]
    return {
        "thresholds": ", ".join(numbers),
        "kt_thresholds": ", ".join(f"{number}f" for number in numbers),
    }


def _number(value: float) -> str:
    """Returns a literal of a float32, in as few digits as possible.

    Example:
    >>> _number(1 / 3)
    '0.33333334'
    """
    return str(np.float32(value))


def _of_rows(signature: TFLiteSignatureEntry) -> dict[str, Any]:
    """Returns the code that converts a row of ids to the file's inputs."""
    ids = [name for name in ROW if name in signature.inputs]
    length = signature.inputs["token_ids"].shape[1]
    resized = all(signature.inputs[name].signs[1] < 0 for name in ids)
    why = "A short text is less work." if resized else "It takes no other length."
    kotlin = [f'"{name}" to input(row.{_camel(name)})' for name in ids]
    swift = [
        f'        inputs["{name}"] = Array(row.{_camel(name)}.prefix(size))'
        for name in ids
    ]
    return {
        "length": length,
        "resized": resized,
        "py_inputs": ", ".join(f'"{name}"' for name in ids),
        "py_size": "sum(row.padding_mask)" if resized else "LENGTH",
        "kt_inputs": "\n"
        + "".join(f"            {each},\n" for each in kotlin)
        + " " * 8,
        "kt_size": "row.paddingMask.sum()" if resized else str(length),
        "sw_inputs": "\n".join(swift),
        "sw_size": "row.paddingMask.reduce(0, +)" if resized else str(length),
        "size_comment": why,
    }


def _of_images(signature: TFLiteSignatureEntry) -> dict[str, Any]:
    """Returns the code that assigns an image to the file's input."""
    shape = signature.inputs["image"].shape[1:]
    pixels, yours = int(np.prod(shape)), "/* take a decoded image of yours */"
    return {
        "shape": str(shape),
        "pixels": pixels,
        "py_arguments": "image: np.ndarray",
        "py_row": "image",
        "py_example": "sample()",
        "kt_arguments": "pixels: ByteArray",
        "kt_row": "pixels",
        "kt_example": f"{yours} ByteArray({pixels}) {{ (it % 251).toByte() }}",
        "sw_arguments": "_ pixels: Data",
        "sw_row": "pixels",
        "sw_example": f"{yours} Data((0..<{pixels}).map {{ UInt8($0 % 251) }})",
    }


def _of_texts(trained: TrainedRun) -> dict[str, str]:
    """Returns example inputs, and the code that converts texts to rows."""
    objective = trained.config.objective
    names = input_names(objective)
    examples = trained.config.export.examples
    texts = example_texts(objective, examples[0]) if examples else ()
    if not texts or not all(text.isprintable() for text in texts):
        shown = traits(objective).example if trained.has_head else _EMBEDDED
        texts = shown[: len(names)]
    if isinstance(objective, SpanObjective):
        names, texts = (
            names[::-1],
            texts[::-1],
        )  # the question first, as in the model's rows
    camel = [_camel(name) for name in names]
    values = {
        "py_arguments": ", ".join(f"{name}: str" for name in names),
        "kt_arguments": ", ".join(f"{name}: String" for name in camel),
        "sw_arguments": ", ".join(f"_ {name}: String" for name in camel),
    }
    for short, language in (("py", "python"), ("kt", "kotlin"), ("sw", "swift")):
        quoted = [_quoted(text, language) for text in texts]
        values[f"{short}_example"] = ", ".join(quoted)
    encoded = [f"tokenizer.encode({name})" for name in names]
    kotlin = [f"tokenizer.encode({name})" for name in camel]
    if len(names) == 1:
        values["py_row"] = f"tokenizer.frame({encoded[0]}, LENGTH)"
        values["kt_row"] = f"tokenizer.frame({kotlin[0]}, $length)"
        values["sw_row"] = f"try tokenizer.frame({kotlin[0]}, length: $length)"
    else:
        rows = ("\n        {}, {}, {}\n    ", "\n            {}, {}, {},\n        ")
        swift = "\n            {}, {}, length: {}\n        "
        values["py_row"] = f"tokenizer.frame_pair({rows[0].format(*encoded, 'LENGTH')})"
        values["kt_row"] = f"tokenizer.framePair({rows[1].format(*kotlin, '$length')})"
        values["sw_row"] = (
            f"try tokenizer.framePair({swift.format(*kotlin, '$length')})"
        )
    return values


def _of_writers(
    trained: TrainedRun, signatures: Mapping[str, TFLiteSignatureEntry]
) -> dict[str, Any]:
    """Returns the cache and chunk sizes of a generative file, and its encoder input."""
    decode = signatures["decode"]
    cache = next(of for name, of in decode.inputs.items() if name.startswith("kv_"))
    slots = cache.shape[2]
    sizes = sorted(
        int(number)
        for kind, _, number in (name.partition("_") for name in signatures)
        if kind in ("prefill", "prefix")
    )
    has_encoder = "encode" in signatures
    objective, task = trained.config.objective, make_signature_task(trained)
    is_answer = has_encoder or isinstance(task, AnswerTask)
    first = signatures["encode"].inputs["token_ids"] if has_encoder else None
    return {
        "length": first.shape[1] if first else slots,
        "slots": slots,
        "sizes": tuple(sizes),
        "size_list": ", ".join(map(str, sizes)),
        "smallest": sizes[0] if sizes else 0,
        "most": min(_MOST, slots // 2),
        "width": decode.outputs["logits"].shape[-1],
        "what": "The answer to a text" if is_answer else "How a text goes on",
        "encode": "encode"
        if objective.kind == "span_corruption"
        else "tokenizer.encode",
        **_of_new_text(task),
    }


def _of_new_text(task: SignatureTask) -> dict[str, str]:
    """Returns the code that detokenizes new tokens, and trims the text.

    A text that continues another is detokenized after its last tokens; an answer is a
    text of its own, without what separates it from its prompt.
    """
    trims = ("py_trim", "kt_trim", "sw_trim")
    if not isinstance(task, AnswerTask):
        why = "a piece may read otherwise where a text begins"
        return {
            "py_before": f"ids[-4:]  # {why}",
            "kt_before": f"ids.takeLast(4) // {why}",
            "sw_before": f"Array(ids.suffix(4))  // {why}",
            **dict.fromkeys(trims, ""),
        }
    why, separator = "an answer is a text of its own", task.separator
    python, kotlin, swift = (_quoted(separator, language) for language in LANGUAGES)
    trim = {
        "py_trim": f".removeprefix({python})",
        "kt_trim": f".removePrefix({kotlin})",
        "sw_trim": "\n            .replacingOccurrences("
        f'of: {swift}, with: "", options: .anchored)',
    }
    return {
        "py_before": f"ids[:0]  # {why}",
        "kt_before": f"ids.take(0) // {why}",
        "sw_before": f"Array(ids.prefix(0))  // {why}",
        **(trim if separator else dict.fromkeys(trims, "")),
    }


def _camel(name: str) -> str:
    """Converts a name to camel case, for Kotlin and Swift.

    Example:
    >>> _camel("padding_mask")
    'paddingMask'
    """
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


def _source(trained: TrainedRun, language: str) -> str:
    """Returns code that concatenates literals and arguments to the model's text."""
    objective = trained.config.objective
    template = "{text}"
    if isinstance(objective, TextPairObjective):
        template, _ = text_templates(objective)
    terms: list[str] = []
    for plain, field in template_parts(template):
        terms += [_quoted(plain, language)] if plain else []
        terms += [field if language == "python" else _camel(field)] if field else []
    return " + ".join(terms)


def _quoted(text: str, language: str) -> str:
    r"""Returns a string literal.

    Example:
    >>> print(_quoted('5 $ "a"', "kotlin"))
    "5 \$ \"a\""
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    for mark, letter in (("\n", "n"), ("\t", "t"), ("\r", "r")):
        escaped = escaped.replace(mark, f"\\{letter}")
    if language == "kotlin":
        escaped = escaped.replace("$", "\\$")
    return f'"{escaped}"'
