"""Dispatches to the module of each kind of objective, named as the kind.

Each module has two functions:

    features(run: RunConfig) -> tuple[Feature, ...]
        The features of a record; needs neither the corpus nor a tokenizer.
    make_records(batch: DocumentBatch, tokenizer: Tokenizer, run: RunConfig,
                 split: Split) -> Records
        The records of one part of one split, a function of its arguments alone.

No module imports TensorFlow.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transbeam.configs.schema.run import RunConfig
    from transbeam.pipeline.documents.document import Split
    from transbeam.pipeline.documents.document_batch import DocumentBatch
    from transbeam.pipeline.records.features import Feature
    from transbeam.pipeline.records.record_set import Records
    from transbeam.pipeline.tokenizers.base.interface import Tokenizer


def objective_module(run: "RunConfig") -> Any:
    """Returns the module of the run's objective."""
    return import_module(f"transbeam.pipeline.objectives.{run.objective.kind}")


def contract(run: "RunConfig") -> tuple["Feature", ...]:
    """Returns the features of a run's records."""
    return objective_module(run).features(run)


def make_records(
    batch: "DocumentBatch",
    tokenizer: "Tokenizer",
    run: "RunConfig",
    split: "Split",
    strangers: "DocumentBatch | None" = None,
) -> "Records":
    """Makes the records of documents for the run's objective.

    Args:
        batch: The documents.
        tokenizer: The run's tokenizer.
        run: The run's configuration.
        split: The split of the documents.
        strangers: Passages of other documents as negatives, if the objective needs them
            (`sample_sentences.strangers`).
    """
    more = {} if strangers is None else {"strangers": strangers}
    return objective_module(run).make_records(batch, tokenizer, run, split, **more)
