"""An exported model in the place of the run's own: asked about the same records.

A record holds several documents side by side, and an export reads one a row. So the
documents are taken out of the records and asked about alone, and the scores are put
where the records have asked. Nothing is lost on the way: no document of a record sees
another.

It is asked by ids, through the signature `fill_mask`: `token_ids`, `padding_mask`
(D, T) and `masked_positions` (D, M) to `logits` (D, M, V). Its signatures from text
answer with the best guesses alone, which say nothing of what another piece costs.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from configs.errors import ArtifactError
from configs.held_back import output_held_back
from configs.language_modelling import MaskedConfig
from configs.run import RunConfig
from configs.saved_models import find_version
from pipeline.scoring.saved_models import signatures_of
from trainer.evaluate import Forward
from trainer.run import loss_of
from trainer.scoring import Answers, Batch

SIGNATURE = "fill_mask"

# From documents to the scores of all pieces at their masks, float32 (D, M, V).
AskIds = Callable[["Documents"], np.ndarray]


def find_export(path: Path) -> Path:
    """The TFLite file, or the version folder of a SavedModel.

    Raises:
        ArtifactError: There is none.
    """
    if path.suffix != ".tflite":
        return find_version(path)
    if not path.is_file():
        raise ArtifactError(f"{path}: there is no such file. Mend --model")
    return path


def build_exported(path: Path, config: RunConfig, vocabulary_size: int) -> Forward:
    """A function from a batch to the `answers` of `Loss`, by an exported model.

    Args:
        path: Of `find_export`.
        config: The run that it is of.
        vocabulary_size: How many pieces the run's tokenizer has.

    Raises:
        ArtifactError: It cannot be loaded, or has no signature that tells what the
            objective is judged by.
    """
    is_tflite = path.suffix == ".tflite"
    ask = _asked_on_phones(path, config) if is_tflite else _asked(path, config)
    loss = loss_of(config)

    def forward(batch: Batch) -> Answers:
        documents = Documents.of(batch)
        logits = ask(documents)
        if logits.shape[-1] != vocabulary_size:
            raise ArtifactError(
                f"{path}: scores {logits.shape[-1]:,} pieces, and the run's tokenizer "
                f"has {vocabulary_size:,}: it was exported from another run"
            )
        return loss.answers({"logits": documents.put_back(logits)}, batch)

    return forward


@dataclass(frozen=True)
class Documents:
    """The documents of a batch of records that have a mask, one a row.

    Attributes:
        token_ids: int32 (D, T), padded with 0.
        padding_mask: int32 (D, T), 1 for a real token.
        masked_positions: int32 (D, M); 0 where a document has fewer masks.
        masks: int64 (D,). How many each has.
        slots: bool (B, P). Which places of the records' `masked_positions` ask.
        row: int64 (N,). The document that each of these is of.
        column: int64 (N,). Its place in `masked_positions` here.
    """

    token_ids: np.ndarray
    padding_mask: np.ndarray
    masked_positions: np.ndarray
    masks: np.ndarray
    slots: np.ndarray
    row: np.ndarray
    column: np.ndarray

    @classmethod
    def of(cls, batch: Batch) -> "Documents":
        """Takes the documents out of records of the objective `masked`."""
        # Each document of each record has a number; 0 of a record is its padding.
        ordinal = batch["document_ids"]
        several = int(ordinal.max(initial=0)) + 1
        number = np.arange(len(ordinal))[:, np.newaxis] * several + ordinal

        slots = batch["masked_weights"] > 0
        record, slot = np.nonzero(slots)
        position = batch["masked_positions"][record, slot]
        asked, row = np.unique(number[record, position], return_inverse=True)
        masks = np.bincount(row, minlength=len(asked))
        order = np.argsort(row, kind="stable")
        column = np.empty(len(row), np.int64)
        column[order] = np.arange(len(row)) - np.repeat(np.cumsum(masks) - masks, masks)

        cells = np.isin(number, asked)
        owner = np.searchsorted(asked, number[cells])
        place = batch["position_ids"][cells]
        shape = len(asked), int(place.max(initial=0)) + 1
        token_ids, padding_mask = np.zeros((2, *shape), np.int32)
        token_ids[owner, place] = batch["token_ids"][cells]
        padding_mask[owner, place] = 1
        masked = np.zeros((len(asked), int(masks.max(initial=0))), np.int32)
        masked[row, column] = batch["position_ids"][record, position]
        return cls(token_ids, padding_mask, masked, masks, slots, row, column)

    def put_back(self, logits: np.ndarray) -> np.ndarray:
        """Scores (D, M, V) where the records ask for them: (B, P, V), and 0 elsewhere.

        Example:
        >>> records = {
        ...     "token_ids": np.array([[7, 4, 8, 4, 0]]),
        ...     "document_ids": np.array([[1, 1, 2, 2, 0]]),
        ...     "position_ids": np.array([[0, 1, 0, 1, 0]]),
        ...     "masked_positions": np.array([[1, 3, 0]]),
        ...     "masked_weights": np.array([[1.0, 1.0, 0.0]]),
        ... }
        >>> documents = Documents.of(records)
        >>> documents.token_ids.tolist(), documents.masked_positions.tolist()
        ([[7, 4], [8, 4]], [[1], [1]])
        >>> documents.put_back(np.array([[[5.0]], [[6.0]]])).tolist()
        [[[5.0], [6.0], [0.0]]]
        """
        found = np.zeros((*self.slots.shape, logits.shape[-1]), np.float32)
        found[self.slots] = logits[self.row, self.column]
        return found


def _asked(folder: Path, config: RunConfig) -> AskIds:
    """A SavedModel in Python."""
    _require_signature(folder, signatures_of(folder), config)
    try:
        model = tf.saved_model.load(str(folder))
    except (OSError, ValueError, tf.errors.OpError) as error:
        raise ArtifactError(
            f"{folder}: cannot be loaded as a SavedModel: {error}. Export it anew"
        ) from error

    def ask(documents: Documents) -> np.ndarray:
        inputs = {
            name: tf.constant(getattr(documents, name))
            for name in ("token_ids", "padding_mask", "masked_positions")
        }
        try:
            # By way of the model, which keeps the weights.
            return model.signatures[SIGNATURE](**inputs)["logits"].numpy()
        except (KeyError, TypeError, tf.errors.OpError) as error:
            raise ArtifactError(
                f"{folder}: its signature {SIGNATURE} fails on records of this run: "
                f"{error}. Was it exported from another one?"
            ) from error

    return ask


def _asked_on_phones(file: Path, config: RunConfig) -> AskIds:
    """A TFLite file in the interpreter that phones have; of fixed shapes."""
    try:
        with output_held_back():
            interpreter = Interpreter(str(file))
    except (OSError, ValueError, RuntimeError) as error:
        raise ArtifactError(
            f"{file}: cannot be read as a TFLite model: {error}. Export it anew"
        ) from error
    _require_signature(file, interpreter.get_signature_list(), config)
    with output_held_back():
        run = interpreter.get_signature_runner(SIGNATURE)
        shapes = {k: of["shape"] for k, of in run.get_input_details().items()}
        # The delegate is made, and announced, by the first call.
        run(**{name: np.ones(shape, np.int32) for name, shape in shapes.items()})
    length, most = int(shapes["token_ids"][1]), int(shapes["masked_positions"][1])

    def ask(documents: Documents) -> np.ndarray:
        longest = documents.token_ids.shape[1]
        if longest > length:
            raise ArtifactError(
                f"{file}: reads {length} tokens at most, and these records have a text "
                f"of {longest}: it was exported from another run"
            )
        further = ((0, 0), (0, length - longest))
        token_ids = np.pad(documents.token_ids, further)
        padding_mask = np.pad(documents.padding_mask, further)
        found = []
        for row, count in enumerate(documents.masks.tolist()):
            scores = []
            for start in range(0, count, most):
                some = documents.masked_positions[row, start : min(start + most, count)]
                answer = run(
                    token_ids=token_ids[row : row + 1],
                    padding_mask=padding_mask[row : row + 1],
                    masked_positions=np.pad(some, (0, most - len(some)))[np.newaxis],
                )
                scores.append(answer["logits"][0, : len(some)])
            found.append(np.concatenate(scores))
        widest = documents.masked_positions.shape[1]
        return np.stack([np.pad(s, ((0, widest - len(s)), (0, 0))) for s in found])

    return ask


def _require_signature(
    path: Path, signatures: Collection[str], config: RunConfig
) -> None:
    has = ", ".join(sorted(signatures)) or "none"
    kind = config.objective.kind
    if not isinstance(config.objective, MaskedConfig):
        raise ArtifactError(
            f"{path}: only exports of objective.kind=masked can be scored so far, and "
            f"this run's is {kind}; it has the signatures {has}"
        )
    if SIGNATURE not in signatures:
        raise ArtifactError(
            f"{path}: has the signatures {has}; scores of objective.kind={kind} take "
            f"{SIGNATURE}, from ids to the scores of all pieces. An export made before "
            "there was one is made anew with another version: `transbeam export "
            "CONFIG --set export.version=2`"
        )
