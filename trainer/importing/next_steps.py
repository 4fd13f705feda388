"""The next steps with a run that was made of a checkpoint."""

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
    """Whether this version of Transbeam exports a trained model of the run."""
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
    """Tells a run that can be exported as it is, without training.

    Below a head that is new a body still gives vectors.

    Args:
        config: The run.
        tokenizer: Its tokenizer; None if there was none.
        new: Weights that nothing has been learned for, all of its head.
        has_vectors: Whether they are the model's own.
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
    """The commands to type next, and what is not to be had.

    Args:
        config: The run.
        tokenizer: Its tokenizer; None if there was none.
        file: The run's configuration.
        run_folder: Its folder.
        new: Weights that nothing has been learned for, all of its head.
        is_ready: Whether it can be exported without training.
    """
    if tokenizer is None and not reads_images(config):
        return (
            "without a tokenizer only Python can use it: put the tokenizer's files "
            "beside the weights and import again"
        )
    words = [str(file)]
    if run_folder != Path("runs", config.name):  # where it is looked for unasked
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
