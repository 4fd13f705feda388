"""Reads all files of a checkpoint that determine the imported run."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transbeam.configs.cli.console import Console
from transbeam.configs.schema.evaluation import EvaluationConfig
from transbeam.configs.schema.export import ExportConfig
from transbeam.configs.schema.model import (
    DecoderConfig,
    EncoderConfig,
    PoolerConfig,
    Seq2SeqModelConfig,
)
from transbeam.configs.schema.objectives.objective import PooledObjective
from transbeam.configs.schema.objectives.supervised import PairRegressionConfig
from transbeam.model.weights.checkpoint_import import read_checkpoint
from transbeam.model.weights.checkpoints.checkpoint import Checkpoint
from transbeam.model.weights.checkpoints.hf_config import HFConfig, shown
from transbeam.model.weights.checkpoints.tensor_sources import PICKLES
from transbeam.pipeline.records.manifest import sha256
from transbeam.pipeline.tokenizers.files.tokenizer_model import TokenizerModel
from transbeam.trainer.importing.framing import adds_end_token, with_framing
from transbeam.trainer.importing.generation_config import Generation, read_generation
from transbeam.trainer.importing.sentence_transformer import (
    SentenceTransformer,
    read_sentence_transformer,
    score_activation,
)
from transbeam.trainer.importing.tokenizer import read_checkpoint_tokenizer


@dataclass(frozen=True)
class ImportedFiles:
    """Contents of a checkpoint's files.

    Attributes:
        checkpoint: The weights and the model's configuration.
        tokenizer: The tokenizer; None if there is none.
        evaluation: Generation settings.
        export: Embedding settings.
        has_vectors: True if our export would compute the same text embeddings as the
            checkpoint.
        embeds: True if a decoder is imported to embed texts, not to write them.
    """

    checkpoint: Checkpoint
    tokenizer: TokenizerModel | None
    evaluation: EvaluationConfig
    export: ExportConfig
    has_vectors: bool
    embeds: bool = False


def read_files(folder: Path, console: Console) -> ImportedFiles:
    """Reads a checkpoint's folder.

    Args:
        folder: A checkpoint folder that `read_checkpoint` accepts, or a
            sentence-transformers folder.
        console: Prints warnings on settings that are not imported.

    Raises:
        UserError: A file cannot be read, or has a setting that our models do not
            support.
    """
    sentence = read_sentence_transformer(folder)
    if sentence:
        checkpoint = read_checkpoint(sentence.body, body_alone=sentence.is_body)
    else:
        checkpoint = read_checkpoint(folder)
    is_encoder = isinstance(checkpoint.config, EncoderConfig)
    is_decoder = isinstance(checkpoint.config, DecoderConfig)
    if sentence and (is_encoder or is_decoder):
        _check_pooling(sentence, checkpoint.config.kind)
        for problem in sentence.problems:
            console.warn(problem)
    elif sentence:
        console.warn(
            f"{folder}: only encoders and decoders can embed texts here; the model is "
            f"imported as a {checkpoint.config.kind}"
        )
        sentence = None
    body = Path(checkpoint.where)
    tokenizer = read_checkpoint_tokenizer(body, checkpoint, console)
    patches = getattr(checkpoint.config, "patches", None)
    if patches and (others := image_differences(body, patches.image_size)):
        console.warn(
            f"{body / PREPROCESSOR_FILE}: not imported: {', '.join(others)}. Images "
            f"are resized to {patches.image_size} pixels by a bilinear filter and "
            "scaled to -1 to 1, so predictions differ. Fine-tune it on your images"
        )
    is_scorer = isinstance(checkpoint.objective, PairRegressionConfig)
    if is_scorer and (activation := score_activation(body)):
        console.warn(
            f"{body}: scores are returned without the {activation} that "
            "sentence-transformers applies to them"
        )
    evaluation = EvaluationConfig()
    if not is_encoder:
        generation = read_generation(body, checkpoint.description.token_ids)
        evaluation = generation.evaluation
        _warn_about(generation, checkpoint, tokenizer, console)
        if tokenizer is not None:
            reads = isinstance(checkpoint.objective, PooledObjective)
            if reads and adds_end_token(body, tokenizer):
                checkpoint = _pooling_end_token(checkpoint)
            tokenizer = with_framing(
                tokenizer,
                body,
                checkpoint.family,
                generation.ends,
                console,
                writes=not reads,
            )
    return ImportedFiles(
        checkpoint,
        tokenizer,
        evaluation,
        sentence.export if sentence else ExportConfig(),
        has_vectors=not (sentence and sentence.changes_vectors),
        embeds=bool(sentence and is_decoder and not sentence.changes_vectors),
    )


def _pooling_end_token(checkpoint: Checkpoint) -> Checkpoint:
    """Returns the checkpoint of a head that reads the end token of a text."""
    description = checkpoint.description
    assert isinstance(description.config, DecoderConfig)
    pooler = PoolerConfig(kind="end_token")
    config = replace(description.config, pooler=pooler)
    return replace(checkpoint, description=replace(description, config=config))


def _check_pooling(sentence: SentenceTransformer, kind: str) -> None:
    """Refuses to pool a token that our models of this kind do not pool."""
    unsuited = "first" if kind == "decoder" else "last"
    if sentence.export.embedding_pooling == unsuited:
        sentence.refuse_vectors(
            f"{sentence.body}: pooling of the {unsuited} token is not supported for a "
            f"{kind}"
        )
        sentence.export = replace(sentence.export, embedding_pooling="mean")


def _warn_about(
    generation: Generation,
    checkpoint: Checkpoint,
    tokenizer: TokenizerModel | None,
    console: Console,
) -> None:
    """Warns of generation settings that are not imported."""
    if generation.left_out:
        listed = ", ".join(f"{k}={shown(v)}" for k, v in generation.left_out.items())
        console.warn(f"{generation.where}: not imported: {listed}")
    if tokenizer is None or not isinstance(checkpoint.config, Seq2SeqModelConfig):
        return
    start = tokenizer.special.decoder_begin
    if generation.start not in (None, start):
        console.warn(
            f"{checkpoint.where}: decoder_start_token_id={generation.start} is not "
            f"imported: answers begin with {tokenizer.pieces[start]!r} ({start}) "
            "and may differ from the original model's"
        )


def checksums(folder: Path) -> dict[str, str]:
    """Computes the sha256 of files in a folder and its subfolders, except pickles."""
    sums = {}
    for path in sorted([*folder.iterdir(), *folder.glob("*/*")]):
        if path.is_file() and path.suffix not in PICKLES:
            sums[path.relative_to(folder).as_posix()] = sha256(path)
    return sums


PREPROCESSOR_FILE = "preprocessor_config.json"

# The settings of our preprocessing, which are also the defaults of missing keys. Images
# are resized to the model's size with a bilinear filter, and values scaled to -1 to 1,
# as transformers does by default for ViT.
_OURS: dict[str, Any] = {
    "do_resize": True,
    "do_rescale": True,
    "do_normalize": True,
    "do_center_crop": False,
    "resample": 2,  # bilinear, in Pillow's numbering
}
_HALF = 0.5
_CLOSE = 1e-6


def image_differences(folder: Path, image_size: int) -> list[str]:
    """Lists settings of `preprocessor_config.json` that differ from Transbeam's.

    Args:
        folder: The checkpoint's folder.
        image_size: Height and width of the model's input.

    Returns:
        Keys with their values; empty if there is no such file.

    Raises:
        ArtifactError: The file is damaged.
    """
    file = folder / PREPROCESSOR_FILE
    if not file.is_file():
        return []
    settings = HFConfig.of_file(file).values
    others = {
        key: settings[key]
        for key, ours in _OURS.items()
        if key in settings and settings[key] != ours
    }
    if settings.get("do_normalize", True) is not False:
        for key in ("image_mean", "image_std"):
            if key in settings and not _is_all(settings[key], _HALF):
                others[key] = settings[key]
    if settings.get("do_rescale", True) is not False:
        factor = settings.get("rescale_factor", 1 / 255)
        if not _is_all(factor, 1 / 255):
            others["rescale_factor"] = factor
    if settings.get("do_resize", True) is not False and "size" in settings:
        size = settings["size"]
        sides = list(size.values()) if isinstance(size, dict) else size
        if not _is_all(sides, image_size) or "shortest_edge" in str(size):
            others["size"] = size
    return [f"{key}={shown(value)}" for key, value in others.items()]


def _is_all(value: Any, wanted: float) -> bool:
    """Returns whether a number, or every number of a list, has a given value.

    Example:
    >>> _is_all([0.5, 0.5], 0.5), _is_all(0.5, 0.5), _is_all([0.5, 0.4], 0.5)
    (True, True, False)
    """
    values = value if isinstance(value, list) else [value]
    return all(
        isinstance(each, int | float) and abs(each - wanted) < _CLOSE for each in values
    )
