"""Writes the README and the labels file of a phone export, for app developers.

The description of signatures is read from the model's file, so it matches that file.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

from transbeam.configs.base.atomic_files import write_atomically
from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.base.version import VERSION
from transbeam.configs.loader.calibration_file import CALIBRATION
from transbeam.configs.loader.export_support import MEDIAPIPE_CLIENTS
from transbeam.configs.schema.export import Variant
from transbeam.configs.schema.objectives.language_modeling import SentencePairsConfig
from transbeam.configs.schema.objectives.objective import WordsObjective
from transbeam.configs.schema.objectives.traits import input_names, traits
from transbeam.pipeline.tokenizers.base.framing import CHAT_TEMPLATE_FILE
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.phone.conversion.tflite_converter import file_name
from transbeam.serving.phone.readme.code_samples import program, program_values
from transbeam.serving.phone.readme.sample_templates import LANGUAGES, USES, filled
from transbeam.serving.phone.report.variant_report import PICTURE, REPORT
from transbeam.serving.phone.tflite_format.signature_table import (
    read_signatures,
    signature_table,
    table,
)
from transbeam.serving.phone.tokenizer.golden_ids import FILE as GOLDEN
from transbeam.serving.phone.tokenizer.sources.tokenizer import LONGEST
from transbeam.serving.phone.tokenizer.tokenizer_data import FILE as DATA

README, LABELS = "README.md", "labels.txt"

_VARIANTS = {
    "dynamic_int8": "fastest on a phone's processor; weights of 8 bits",
    "float32": "exact, as trained; to compare with",
    "float16": "half the size, nearly exact; for GPUs",
    "weight_int8": "weights of 8 bits, computed with in float32: small, not faster",
    "int8": "8 bits in fixed ranges, for accelerators; slower on a processor",
    "dynamic_int4": "smallest and fast; look at the loss",
    "weight_int4": "smallest, computed with in float32; look at the loss",
}
_FILES = {
    LABELS: "the labels of the model's outputs in their order, one a line",
    DATA: "the vocabulary and its rules",
    GOLDEN: "texts and their ids, for a unit test of your app",
    "Tokenizer.kt": "the tokenizer for Android",
    "Tokenizer.swift": "the tokenizer for iOS",
    "tokenizer.py": "the tokenizer for Python",
    "vocab.txt": "the vocabulary as BERT writes it, for other programs",
    "vocab.json": "the vocabulary as GPT-2 writes it, for other programs",
    "merges.txt": "its merges",
    CALIBRATION: "the temperature and thresholds, fitted on held-out examples",
    CHAT_TEMPLATE_FILE: "how a conversation becomes one text, as a Jinja template",
    "spiece.model": "the vocabulary as SentencePiece writes it, for other programs",
    REPORT: "sizes, times and losses of all variants",
    PICTURE: "the same as a picture",
}
_EMBEDS = "It gives a text a vector: near texts have near ones."
_LONG = {
    "classify": "it loses its end, and `truncated` of the row says so.",
    "words": "it is read in several rows, cut between words, so each word has an "
    "answer.",
    "read": "a text is read in windows that overlap, and the best has the answer. Of "
    "the question the first {question} pieces are read.",
    "write": "of a beginning the last pieces are read, as many as leave room to write.",
    "encode": "it loses its end, and `truncated` of the row says so.",
}
_EMPTY = {
    "classify": "it has an answer, too, of the pieces that frame a text.",
    "words": "it has no words and no answers.",
    "read": "in an empty text the answer is empty, and its score -1e30.",
    "write": "it is read as the piece that begins or ends a document.",
    "encode": "it has an answer, too, of the piece that ends a text.",
}


_PAIRED = ("classify", "regress")


def write_handover(trained: TrainedRun, folder: Path) -> None:
    """Writes `README.md` for an app's developer, and `labels.txt` if there are labels.

    Args:
        trained: The exported model.
        folder: The export folder, which already contains the files to describe: at
            least one `model_….tflite`, and the other files of `transbeam export
            --target phone`.

    Raises:
        ConfigError: A label contains a line break, so it cannot be written on one line.
        ArtifactError: There is no model file, a model file is damaged, or a file cannot
            be written.
    """
    labels = _labels(trained)
    content = "".join(f"{label}\n" for label in labels or ())
    variants = [v for v in get_args(Variant) if (folder / file_name(v)).exists()]
    if not variants:
        raise ArtifactError(
            f"{folder}: there is no {file_name('float32')} nor another variant that a "
            "README could be of. Export the model first: transbeam export CONFIG"
        )
    if labels is not None:
        write_atomically(folder / LABELS, content)
    best = next(variant for variant in _VARIANTS if variant in variants)
    signatures = read_signatures(folder / file_name(best))
    values = {
        **program_values(trained, signatures, file_name(best)),
        "signatures": signature_table(signatures),
        **_facts(trained, labels),
        **_sections(trained, folder, variants),
    }
    uses = {
        language: program(trained, language, signatures, values)
        for language in LANGUAGES
    }
    values |= {name: text.rstrip("\n") for name, text in uses.items()}
    values |= _optional(trained, folder, values)
    lines = filled("README.md", values).split("\n")
    write_atomically(folder / README, "\n".join(line.rstrip() for line in lines))


def _facts(trained: TrainedRun, labels: Sequence[str] | None) -> dict[str, str]:
    """Returns the placeholders that describe the model."""
    kind = trained.config.objective.kind
    sentence = (
        traits(trained.config.objective).sentence if trained.has_head else _EMBEDS
    )
    number = trained.tokenizer.vocabulary_size if labels is None else len(labels)
    return {
        "name": trained.config.name,
        "objective": kind,
        "sentence": sentence.format(n=number),
        "version": VERSION,
    }


def _labels(trained: TrainedRun) -> Sequence[str] | None:
    """Returns the labels in the order of class indices; None for tasks without labels.

    Raises:
        ConfigError: A label contains a line break.
    """
    objective = trained.config.objective
    if isinstance(objective, SentencePairsConfig):
        return objective.pair_labels
    labels = getattr(objective, "labels", None)
    for label in labels or ():
        # All characters that some language treats as a line break.
        if len(f"{label}.".splitlines()) != 1:
            raise ConfigError(
                f"objective.labels: {label!r} has a line break, and {LABELS} has a "
                "label on each line. Give it another name, in the records, too"
            )
    return labels


def _sections(
    trained: TrainedRun, folder: Path, variants: Sequence[str]
) -> dict[str, str]:
    """Returns the tables of files, and the sections on reports and the tokenizer."""
    rows = [
        (f"`{file_name(v)}`", f"{_megabytes(folder / file_name(v))}", _VARIANTS[v])
        for v in _VARIANTS
        if v in variants
    ]
    there = {file.name for file in folder.iterdir()}
    described = [(f"`{name}`", what) for name, what in _FILES.items() if name in there]
    models = [(f"`{file_name(v)}`", "the model") for v in variants]
    has_report = REPORT in there
    return {
        "variants": table(("file", "MB", "when"), rows),
        "files": table(("file", ""), [*models, *described]),
        "report": f"[{REPORT}]({REPORT}) has times, and what each variant loses."
        if has_report
        else "",
        "tokenizer": filled("sections/tokenizer.md", {}) if DATA in there else "",
    }


def _optional(
    trained: TrainedRun, folder: Path, values: Mapping[str, str]
) -> dict[str, str]:
    """Returns the README sections that only some models have."""
    there = sorted(file.name for file in folder.iterdir())
    mediapipe = [f"`{n}`" for n in there if n.startswith("mediapipe_")]
    of_text = [f"`{n}`" for n in there if n.startswith("text_")]
    litert_lm = [f"`{n}`" for n in there if n.endswith(".litertlm")]
    kind = trained.config.objective.kind
    of_texts = DATA in there
    assets = [values["model"], *(name for name in (DATA, LABELS) if name in there)]
    resized = "resized" if values.get("resized") == "True" else "fixed"
    shapes = filled(f"sections/{resized}.md", values).split("\n\n")
    found = {
        "assets": ", ".join(f"`{name}`" for name in assets),
        "kotlin_tokenizer": "`Tokenizer.kt` with the sources, and " if of_texts else "",
        "swift_tokenizer": "`Tokenizer.swift`, " if of_texts else "",
        "shapes": shapes[0],
        "resizing": shapes[1].rstrip("\n"),
        "notes": _notes(trained, values) if of_texts else _filled_section("images"),
        "mediapipe": "",
        "mediapipe_privacy": "",
        "litert_lm": "",
        "text_files": "",
    }
    found["fitted"] = _fitted(trained)
    if mediapipe:
        names = {
            "mediapipe_files": ", ".join(mediapipe),
            "client": MEDIAPIPE_CLIENTS[kind],
        }
        found["mediapipe"] = filled("sections/mediapipe.md", names)
        found["mediapipe_privacy"] = _filled_section("mediapipe_privacy")
    if of_text:
        names = {"files": ", ".join(of_text)}
        found["text_files"] = filled("sections/text_files.md", names)
    if litert_lm:
        names = {"litert_lm_files": ", ".join(litert_lm)}
        found["litert_lm"] = filled("sections/litert_lm.md", names)
    return found


def _fitted(trained: TrainedRun) -> str:
    """Returns the section on the temperature and the thresholds of the export."""
    found, calibration = "", trained.calibration
    if calibration.temperature != 1:
        shown = {"temperature": f"{calibration.temperature:.4g}"}
        found += filled("sections/temperature.md", shown)
    if calibration.thresholds is not None:
        each = (f"{label} {x:.3g}" for label, x in calibration.thresholds.items())
        shown = {"thresholds": ", ".join(each)}
        found += filled("sections/thresholds.md", shown)
    if calibration.no_answer_threshold is not None:
        shown = {"threshold": f"{calibration.no_answer_threshold:.4g}"}
        found += filled("sections/no_answer_threshold.md", shown)
    return found


def _filled_section(name: str) -> str:
    return filled(f"sections/{name}.md", {}).rstrip("\n")


def _notes(trained: TrainedRun, values: Mapping[str, str]) -> str:
    """Returns the section on long, empty and unusual texts."""
    kind = USES[values["signature"]]
    if values.get("what", "").startswith("The answer"):
        kind = "encode"
    if isinstance(trained.config.objective, WordsObjective):
        kind = "words"
    long = _LONG.get(kind, _LONG["classify"])
    if len(input_names(trained.config.objective)) == 2 and kind in _PAIRED:
        long = (
            "of a pair the longer text loses its end, until both are equally long, and "
            "`truncated` of the row says so."
        )
    unknown = trained.tokenizer.special.unknown
    piece = "" if unknown is None else trained.tokenizer.pieces[unknown]
    but = {
        "masked": ", but for `[MASK]` in `fill`, of which the first "
        f"{values.get('masks')} are answered",
        "encode": ", but for gaps such as `<extra_id_0>`"
        if trained.config.objective.kind == "span_corruption"
        else "",
    }
    return filled(
        "sections/texts.md",
        {
            "long": long.format(question=values.get("longest_question")),
            "longest_text": f"{LONGEST:,}",
            "empty": _EMPTY.get(kind, _EMPTY["classify"]),
            "unknown": "there are none; every text is made of known bytes."
            if unknown is None
            else f"they become `{piece}`, or pieces of single bytes if the vocabulary "
            "has such. Nothing fails.",
            "but": but.get(kind, ""),
        },
    ).rstrip("\n")


def _megabytes(file: Path) -> str:
    size = file.stat().st_size / 1e6
    return f"{size:.1f}" if size >= 1 else f"{size:.2f}"
