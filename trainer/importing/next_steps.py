"""Advice on the next commands for an imported run."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.loader.export_support import check_export
from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.configs.schema.objectives.objective import ImageObjective
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.tokenizers.files.tokenizer_folder import TokenizerModel


def can_export(config: RunConfig, tokenizer: TokenizerModel | None) -> bool:
    """Tells if this version of Transbeam can export a trained model of the run."""
    try:
        check_export(config)
    except ConfigError:
        return False
    return tokenizer is not None or reads_images(config)


def is_ready(
    config: RunConfig,
    tokenizer: TokenizerModel | None,
    new: Sequence[str],
    *,
    has_vectors: bool = True,
) -> bool:
    """Tells if a run can be exported without training.

    A body below a newly initialized head can be exported too, for text embeddings.

    Args:
        config: The run.
        tokenizer: Its tokenizer; None if there was none.
        new: Paths of newly initialized weights, all of them in the head.
        has_vectors: True if our embeddings would equal those of the checkpoint.
    """
    if not can_export(config, tokenizer):
        return False
    return not new or (isinstance(config.objective, MaskedConfig) and has_vectors)


def reads_images(config: RunConfig) -> bool:
    """Tells a run whose model needs no tokenizer."""
    return isinstance(config.objective, ImageObjective)


def next_step(
    config: RunConfig,
    tokenizer: TokenizerModel | None,
    file: Path,
    run_folder: Path,
    new: Sequence[str] = (),
    *,
    is_ready: bool = True,
) -> str:
    """Describes the next commands, and what is not possible with the run.

    Args:
        config: The run.
        tokenizer: Its tokenizer; None if there was none.
        file: The run's configuration.
        run_folder: Its folder.
        new: Paths of newly initialized weights, all of them in the head.
        is_ready: True if the run can be exported without training.
    """
    if tokenizer is None and not reads_images(config):
        return (
            "without a tokenizer only Python can use it: put the tokenizer's files "
            "beside the weights and import again"
        )
    words = [str(file)]
    if run_folder != Path("runs", config.name):  # the default folder
        words += ["--run", str(run_folder)]
    rest = shlex.join(words)
    corpus = f"name your corpus in data.source of {file}"
    if not can_export(config, tokenizer):
        return (
            f"{corpus}, then `transbeam data {rest}` and `transbeam train {rest}`; "
            "this version of Transbeam does not export it (`transbeam check "
            f"{shlex.quote(str(file))}` says why)"
        )
    if not is_ready:
        return (
            f"its head is new and has learned nothing: {corpus}, then `transbeam run "
            f"{rest}`"
        )
    what = "its vectors of texts ready" if new else "it ready as it is"
    return (
        f"`transbeam export {rest}` makes {what}, for `transbeam serve` or, "
        f"with `--target phone`, for phones; to train it on, first {corpus}"
    )
