"""The README that an app's developer is handed with a model, and its labels.

What it says of signatures is read from the model's file, so it is true of that file. Its
programs are templates in `templates/uses`, one for each kind of answer and language.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from string import Template
from typing import Any, get_args

import numpy as np
from ai_edge_litert.interpreter import Interpreter

from configs.errors import ArtifactError, ConfigError
from configs.export import Variant, asked_texts, example_texts
from configs.files import write_atomically
from configs.held_back import output_held_back
from configs.objective import SentencePairsConfig, SpanQAConfig
from configs.templates import template_parts
from configs.version import VERSION
from serving.phone.report import PICTURE, REPORT
from serving.phone.tokenizer.data import FILE as DATA
from serving.phone.tokenizer.golden import FILE as GOLDEN
from serving.tasks import task_of
from serving.tasks.sentence_pairs import LABELS as LABELS_OF_PAIRS
from serving.tasks.tagging import Tagging
from serving.tflite import file_name
from serving.trained import Trained

README, LABELS = "README.md", "labels.txt"

_VARIANTS = {
    "dynamic_int8": "fastest on a phone's processor; weights of 8 bits",
    "float32": "exact, as trained; to compare with",
    "float16": "half the size, nearly exact; for GPUs",
    "weight_int8": "weights of 8 bits, computed in float32: exact, but not faster",
    "int8": "8 bits throughout, for processors that do nothing else; look at the loss",
    "dynamic_int4": "smallest and fast; look at the loss",
    "weight_int4": "smallest, computed in float32; look at the loss",
}
_FILES = {
    LABELS: "what the model's numbers stand for, in their order, one a line",
    DATA: "the vocabulary and its rules",
    GOLDEN: "texts and their ids, for a unit test of your app",
    "Tokenizer.kt": "the tokenizer for Android",
    "Tokenizer.swift": "the tokenizer for iOS",
    "tokenizer.py": "the tokenizer for Python",
    REPORT: "sizes, times and losses of all variants",
    PICTURE: "the same as a picture",
}
_SENTENCES = {
    "masked": "A language model of {n} pieces: it says what stands behind a [MASK], and "
    "gives a text a vector.",
    "sentence_pairs": "A classifier of pairs of texts: which of {n} labels do they have?",
    "classification": "A classifier of texts: which of {n} labels has a text?",
    "pair_classification": "A classifier of pairs of texts: which of {n} labels do "
    "they have?",
    "regression": "It gives a text a number.",
    "pair_regression": "It gives a pair of texts a number.",
    "token_classification": "A tagger: it gives each word of a text one of {n} tags.",
    "span_qa": "It finds the answer to a question in a text.",
    "image_classification": "A classifier of images: which of {n} labels has an image?",
    "causal": "A language model: it writes on from a text.",
    "prefix": "A language model: it writes on from a text.",
    "seq2seq": "It answers a text with a text.",
    "text_to_text": "It answers a text with a text.",
    "span_corruption": "It writes what stands in the gaps of a text.",
}
_EXAMPLES = {
    "masked": ("It returns a [MASK].",),
    "span_corruption": ("It returns a <extra_id_0>.",),
    "span_qa": ("Two dogs run in a park.", "Where do dogs run?"),
}
_EXAMPLE = ("Two dogs run in a park.", "An animal is outside.")

# The template of each signature that answers in one call.
_USES = {
    "classify_ids": "classify",
    "regress_ids": "regress",
    "fill_mask": "masked",
    "tag_ids": "tag",
    "read_ids": "read",
    "classify_pixels": "pixels",
    "decode": "write",
}
_LANGUAGES = ("python", "kotlin", "swift")
_MOST = 64  # pieces that are written, where the cache has room for more
_CLIENTS = {"classification": "TextClassifier", "masked": "TextEmbedder"}

_LONG = {
    "classify": "it loses its end, and `truncated` of the row says so.",
    "tag": "it is read in several rows, cut between words, so each word has a tag.",
    "read": "a text is read in windows that overlap, and the best has the answer. Of the "
    "question the first {question} pieces are read.",
    "write": "of a beginning the last pieces are read, as many as leave room to write.",
    "encode": "it loses its end, and `truncated` of the row says so.",
}
_EMPTY = {
    "classify": "it has an answer, too, of the pieces that frame a text.",
    "tag": "it has no words and no tags.",
    "read": "in an empty text the answer is empty, and its score -1e30.",
    "write": "the piece that begins or ends a document stands for it.",
    "encode": "it has an answer, too, of the piece that ends a text.",
}


@dataclass(frozen=True)
class _Tensor:
    """An input or an output.

    Attributes:
        name: Its name.
        dtype: Of its numbers.
        shape: As the file has it.
        signs: The same, -1 where it can be resized.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    signs: tuple[int, ...]

    @property
    def told(self) -> str:
        """Such as `int32 (1, T)`."""
        sizes = ["T" if sign < 0 else str(sign) for sign in self.signs]
        return f"{self.dtype} ({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


@dataclass(frozen=True)
class _Signature:
    """What a signature takes and gives, by name."""

    inputs: Mapping[str, _Tensor]
    outputs: Mapping[str, _Tensor]


def write_handover(trained: Trained, folder: Path) -> None:
    """Writes `README.md`, and of a task with labels `labels.txt`, for an app's developer.

    Args:
        trained: What was exported.
        folder: Has the files already that are described: a `model_….tflite` at least,
            and what else `transbeam export --target phone` makes.

    Raises:
        ConfigError: A label has a line break, so it cannot stand in a file of lines.
        ArtifactError: There is no model, it is damaged, or the disk refuses.
    """
    labels = _labels(trained)
    content = "".join(f"{label}\n" for label in labels or ())
    variants = [v for v in get_args(Variant) if (folder / file_name(v)).exists()]
    if not variants:
        raise ArtifactError(
            f"{folder}: there is no {file_name('float32')} nor another variant to write "
            "a README for. Export the model first: transbeam export CONFIG"
        )
    if labels is not None:
        write_atomically(folder / LABELS, content)
    best = next(variant for variant in _VARIANTS if variant in variants)
    signatures = _read(folder / file_name(best))
    values = {
        **_values(trained, signatures, file_name(best), labels),
        **_sections(trained, folder, variants),
    }
    uses = {
        language: _use(trained, language, signatures, values) for language in _LANGUAGES
    }
    values |= {name: text.rstrip("\n") for name, text in uses.items()}
    values |= _optional(trained, folder, values)
    write_atomically(folder / README, _filled("README.md", values))


def _labels(trained: Trained) -> Sequence[str] | None:
    """The task's labels in the order of its numbers; None if it has none.

    Raises:
        ConfigError: One has a line break.
    """
    objective = trained.config.objective
    if isinstance(objective, SentencePairsConfig):
        return LABELS_OF_PAIRS[objective.task]
    labels = getattr(objective, "labels", None)
    for label in labels or ():
        # The marks that some language or other takes for the end of a line.
        if len(f"{label}.".splitlines()) != 1:
            raise ConfigError(
                f"objective.labels: {label!r} has a line break, and {LABELS} has a "
                "label on each line. Give it another name, in the records, too"
            )
    return labels


def _read(file: Path) -> dict[str, _Signature]:
    """The signatures of a file.

    Raises:
        ArtifactError: It is no model.
    """
    try:
        with output_held_back():
            interpreter = Interpreter(str(file), num_threads=1)
            return {
                name: _signature(interpreter.get_signature_runner(name))
                for name in interpreter.get_signature_list()
            }
    except (ValueError, RuntimeError) as error:
        raise ArtifactError(
            f"{file}: the interpreter does not take it ({error}). Remove it and export "
            "anew: transbeam export CONFIG"
        ) from error


def _signature(runner: Any) -> _Signature:
    def tensors(details: Mapping[str, Any]) -> dict[str, _Tensor]:
        return {
            name: _Tensor(
                name,
                np.dtype(of["dtype"]).name,
                tuple(map(int, of["shape"])),
                tuple(map(int, of["shape_signature"])),
            )
            for name, of in details.items()
        }

    return _Signature(
        tensors(runner.get_input_details()), tensors(runner.get_output_details())
    )


def _values(
    trained: Trained,
    signatures: Mapping[str, _Signature],
    model: str,
    labels: Sequence[str] | None,
) -> dict[str, str]:
    """What stands in the place of words, in programs and around them."""
    objective = trained.config.objective
    signature = next(name for name in _USES if name in signatures)
    first = signatures[signature]
    number = len(labels) if labels else trained.tokenizer.vocabulary_size
    values: dict[str, Any] = {
        "name": trained.config.name,
        "objective": objective.kind,
        "sentence": _SENTENCES[objective.kind].format(n=number),
        "version": VERSION,
        "model": model,
        "signature": signature,
        "signatures": _signature_table(signatures),
        "prefix": trained.tokenizer.word_prefix if "decode" not in signatures else "",
    }
    values["prefix_text"] = _quoted(values["prefix"], "python")
    if "decode" in signatures:
        values |= _of_writers(trained, signatures)
    elif "classify_pixels" in signatures:
        shape = first.inputs["image"].shape[1:]
        values |= {"shape": str(shape), "pixels": int(np.prod(shape))}
    else:
        values |= _of_rows(first)
    if "fill_mask" in signatures:
        *_, masks, width = signatures["fill_mask"].outputs["logits"].shape
        vector = signatures["embed"].outputs["embedding"].shape[-1]
        values |= {"masks": masks, "width": width, "vector": vector}
    task = task_of(trained)
    if isinstance(task, Tagging):
        longest = task.longest_word
        values |= {"longest_word": longest, "step": task.room - longest + 1}
    if isinstance(objective, SpanQAConfig):
        values |= {
            "longest_question": objective.max_question_length,
            "longest_answer": trained.config.evaluation.max_answer_length,
            "stride": objective.stride,
        }
    if "classify_pixels" not in signatures:
        values |= _of_texts(trained)
    return {name: str(value) for name, value in values.items()}


def _of_rows(signature: _Signature) -> dict[str, Any]:
    """How a row of ids becomes inputs, by the inputs that the file has."""
    ids = [name for name in signature.inputs if name != "masked_positions"]
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
        "py_size": f"{'sum(row.padding_mask)' if resized else 'LENGTH'}  # {why}",
        "kt_inputs": "\n"
        + "".join(f"            {each},\n" for each in kotlin)
        + " " * 8,
        "kt_size": "row.paddingMask.sum()" if resized else str(length),
        "sw_inputs": "\n".join(swift),
        "sw_size": "row.paddingMask.reduce(0, +)" if resized else str(length),
        "size_comment": why,
    }


def _of_texts(trained: Trained) -> dict[str, str]:
    """What the programs are asked, and how texts become rows."""
    objective = trained.config.objective
    names = asked_texts(objective)
    examples = trained.config.export.examples
    texts = example_texts(objective, examples[0]) if examples else ()
    if not texts or not all(text.isprintable() for text in texts):
        texts = _EXAMPLES.get(objective.kind, _EXAMPLE)[: len(names)]
    if isinstance(objective, SpanQAConfig):
        names, texts = (
            names[::-1],
            texts[::-1],
        )  # the question first, as the model reads
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
        values["sw_row"] = f"tokenizer.frame({kotlin[0]}, length: $length)"
    else:
        rows = ("\n        {}, {}, {}\n    ", "\n            {}, {}, {},\n        ")
        swift = "\n            {}, {}, length: {}\n        "
        values["py_row"] = f"tokenizer.frame_pair({rows[0].format(*encoded, 'LENGTH')})"
        values["kt_row"] = f"tokenizer.framePair({rows[1].format(*kotlin, '$length')})"
        values["sw_row"] = f"tokenizer.framePair({swift.format(*kotlin, '$length')})"
    return values


def _of_writers(
    trained: Trained, signatures: Mapping[str, _Signature]
) -> dict[str, Any]:
    """Sizes of a file that writes, and what its encoder reads."""
    decode = signatures["decode"]
    cache = next(of for name, of in decode.inputs.items() if name.startswith("kv_"))
    slots = cache.shape[2]
    sizes = sorted(
        int(number)
        for kind, _, number in (name.partition("_") for name in signatures)
        if kind in ("prefill", "prefix")
    )
    has_encoder = "encode" in signatures
    kind = trained.config.objective.kind
    first = signatures["encode"].inputs["token_ids"] if has_encoder else None
    return {
        "length": first.shape[1] if first else slots,
        "slots": slots,
        "sizes": tuple(sizes),
        "size_list": ", ".join(map(str, sizes)),
        "smallest": sizes[0] if sizes else 0,
        "most": min(_MOST, slots // 2),
        "width": decode.outputs["logits"].shape[-1],
        "what": "The answer to a text" if has_encoder else "How a text goes on",
        "encode": "encode" if kind == "span_corruption" else "tokenizer.encode",
    }


def _use(
    trained: Trained,
    language: str,
    signatures: Mapping[str, _Signature],
    values: Mapping[str, str],
) -> str:
    """A program that asks the model, in a language."""
    short = {"python": "py", "kotlin": "kt", "swift": "sw"}[language]
    kind = _USES[values["signature"]]
    own = {
        name: Template(value).safe_substitute(values)
        if name.endswith("_row")
        else value
        for name, value in values.items()
    }

    def part(name: str) -> str:
        return _filled(f"uses/{name}.{language}", own).rstrip("\n")

    own[f"{short}_labels"] = ""
    parts = {"softmax": part("softmax")}
    if kind == "write":
        own["source"] = _source(trained, language)
        begins = "encode" if "encode" in signatures else "prefill"
        if any(name.startswith("prefix_") for name in signatures):
            begins = "prefix"
        gaps = values["encode"] == "encode"
        own[f"{short}_begin"] = part(begins)
        own[f"{short}_encode"] = part("gaps") + "\n" if gaps else ""
        own["py_regex"] = "import re\n" if gaps else ""
        return _filled(f"uses/write.{language}", own).lstrip("\n")
    if language == "kotlin":
        parts |= {"imports": part("imports"), "labels": part("labels")}
        if kind in ("regress", "read"):  # no probabilities
            unused = "import kotlin.math.exp\n"
            parts["imports"] = parts["imports"].replace(unused, "")
    if language == "swift" and kind in ("classify", "tag", "pixels"):
        own["sw_labels"] = (
            '\n        let lines = try String(contentsOf: file("labels.txt"), '
            "encoding: .utf8)\n        labels = lines.split("
            'separator: "\\n", omittingEmptySubsequences: false).dropLast()'
            ".map { String($0) }"
        )
    if kind != "pixels":
        parts["open"] = part("open")
    own |= parts
    return _filled(f"uses/{kind}.{language}", own)


def _sections(
    trained: Trained, folder: Path, variants: Sequence[str]
) -> dict[str, str]:
    """Tables of files, and of what happens to texts."""
    rows = [
        (f"`{file_name(v)}`", f"{_megabytes(folder / file_name(v))}", _VARIANTS[v])
        for v in _VARIANTS
        if v in variants
    ]
    there = {file.name for file in folder.iterdir()}
    told = [(f"`{name}`", what) for name, what in _FILES.items() if name in there]
    models = [(f"`{file_name(v)}`", "the model") for v in variants]
    has_report = REPORT in there
    return {
        "variants": _table(("file", "MB", "when"), rows),
        "files": _table(("file", ""), [*models, *told]),
        "report": f"[{REPORT}]({REPORT}) has times, and what each variant loses."
        if has_report
        else "",
        "tokenizer": _filled("sections/tokenizer.md", {}) if DATA in there else "",
    }


def _optional(
    trained: Trained, folder: Path, values: Mapping[str, str]
) -> dict[str, str]:
    """Sections that not every model has."""
    there = sorted(file.name for file in folder.iterdir())
    mediapipe = [f"`{n}`" for n in there if n.startswith("mediapipe_")]
    litert_lm = [f"`{n}`" for n in there if n.endswith(".litertlm")]
    of_texts = values["signature"] != "classify_pixels"
    resized = values.get("resized") == "True"
    kind = trained.config.objective.kind
    found = {
        "mediapipe": "",
        "mediapipe_privacy": "",
        "litert_lm": "",
        "shapes": f"`T` is the number of tokens: {values['length']} if nothing is said, "
        f"and any from 1 to {values['length']} if the inputs are resized."
        if resized
        else "All shapes are fixed.",
        "resizing": "`token_ids` and its companions have as many places as the text has "
        "pieces: less work for a short text. On Android `runSignature` resizes the "
        "inputs to the arrays that it is given (not to buffers); in Swift "
        "`resizeInput` does; in Python the call does."
        if resized
        else "Shapes are fixed: fill up with 0.",
        "notes": _notes(trained, values)
        if of_texts
        else _filled("sections/images.md", {}).rstrip("\n"),
        "android": "`Tokenizer.kt` goes to the sources; the model, "
        "`phone_tokenizer.json` and, if it is there, `labels.txt` go to "
        "`app/src/main/assets`."
        if of_texts
        else "The model and `labels.txt` go to `app/src/main/assets`.",
        "ios": "Add `Tokenizer.swift` to the target, and the model, "
        "`phone_tokenizer.json` and, if it is there, `labels.txt` to the bundle. "
        "Transbeam's tests compile and run the Kotlin and the Python below; the Swift "
        "has the same parts and is not compiled there."
        if of_texts
        else "Add the model and `labels.txt` to the bundle. Transbeam's tests compile "
        "and run the Kotlin and the Python below; the Swift has the same parts and is "
        "not compiled there.",
    }
    if mediapipe:
        names = {"mediapipe_files": ", ".join(mediapipe), "client": _CLIENTS[kind]}
        found["mediapipe"] = _filled("sections/mediapipe.md", names)
        privacy = _filled("sections/mediapipe_privacy.md", {})
        found["mediapipe_privacy"] = privacy.rstrip("\n")
    if litert_lm:
        names = {"litert_lm_files": ", ".join(litert_lm)}
        found["litert_lm"] = _filled("sections/litert_lm.md", names)
    return found


def _notes(trained: Trained, values: Mapping[str, str]) -> str:
    """What becomes of long, empty and odd texts."""
    kind = _USES[values["signature"]]
    if values.get("what", "").startswith("The answer"):
        kind = "encode"
    long = _LONG.get(kind, _LONG["classify"])
    if len(asked_texts(trained.config.objective)) == 2 and kind in _PAIRED:
        long = (
            "of a pair the longer text loses its end, until both are equally long, and "
            "`truncated` of the row says so."
        )
    unknown = trained.tokenizer.special.unknown
    piece = "" if unknown is None else trained.tokenizer.pieces[unknown]
    but = {
        "masked": ", but for `[MASK]` in `fill`",
        "encode": ", but for gaps such as `<extra_id_0>`"
        if trained.config.objective.kind == "span_corruption"
        else "",
    }
    return _filled(
        "sections/texts.md",
        {
            "long": long.format(question=values.get("longest_question")),
            "empty": _EMPTY.get(kind, _EMPTY["classify"]),
            "unknown": "there are none; every text is made of known bytes."
            if unknown is None
            else f"they become `{piece}`, or pieces of single bytes if the vocabulary "
            "has such. Nothing fails.",
            "but": but.get(kind, ""),
        },
    ).rstrip("\n")


_PAIRED = ("classify", "regress")


def _signature_table(signatures: Mapping[str, _Signature]) -> str:
    def listed(tensors: Mapping[str, _Tensor]) -> str:
        """Neighbours that differ in their number alone, such as caches, are one."""
        alike = groupby(
            sorted(tensors.values(), key=lambda of: _by_number(of.name)),
            key=lambda of: (of.name.rstrip("0123456789"), of.told),
        )
        told = []
        for (_, shape), group in alike:
            names = [f"`{of.name}`" for of in group]
            name = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
            told.append(f"{name} {shape}")
        return "<br>".join(told)

    rows = [
        (f"`{name}`", listed(of.inputs), listed(of.outputs))
        for name, of in signatures.items()
    ]
    return _table(("signature", "takes", "gives"), rows)


def _by_number(name: str) -> tuple[str, int]:
    """`x_2` before `x_10`.

    Example:
    >>> _by_number("kv_cache_k_10")
    ('kv_cache_k_', 10)
    """
    word = name.rstrip("0123456789")
    return word, int(name[len(word) :] or 0)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _megabytes(file: Path) -> str:
    size = file.stat().st_size / 1e6
    return f"{size:.1f}" if size >= 1 else f"{size:.2f}"


def _camel(name: str) -> str:
    """A name as Kotlin and Swift write it.

    Example:
    >>> _camel("padding_mask")
    'paddingMask'
    """
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


def _source(trained: Trained, language: str) -> str:
    """What an encoder reads, as a sum of literals and arguments."""
    template = getattr(trained.config.objective, "source", "{text}")
    terms: list[str] = []
    for plain, field in template_parts(template):
        terms += [_quoted(plain, language)] if plain else []
        terms += [field if language == "python" else _camel(field)] if field else []
    return " + ".join(terms)


def _quoted(text: str, language: str) -> str:
    r"""A text as a literal.

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


def _filled(name: str, values: Mapping[str, str]) -> str:
    template = files("serving.phone") / "templates" / name
    return Template(template.read_text("utf-8")).substitute(values)
