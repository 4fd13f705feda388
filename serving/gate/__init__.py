"""Exported models are held against Keras: one file for each kind of answer."""

from pathlib import Path

from configs.language_modelling import MaskedConfig
from serving.gate.judge import Judge
from serving.gate.masked import MaskedJudge
from serving.gate.pooled import PooledJudge
from serving.trained import Trained


def judge_of(trained: Trained, run_folder: Path) -> Judge:
    """Who knows what Keras answers to a task's questions.

    Args:
        trained: The Keras model.
        run_folder: Its validation records are among the texts.
    """
    if isinstance(trained.config.objective, MaskedConfig):
        return MaskedJudge.of(trained, run_folder)
    return PooledJudge.of(trained, run_folder)
