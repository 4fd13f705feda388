"""The questions of a task and the shots before them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.task_file import PromptedTask
from transbeam.trainer.tasks.questions import Question, Questions, read_questions
from transbeam.trainer.tasks.shots import ShotPool


@dataclass(frozen=True)
class AskedQuestions:
    """The questions of a task, and the pool of their shots.

    Attributes:
        questions: The questions.
        pool: The pool.
        left_out: Number of documents that are no question, by reason.
    """

    questions: tuple[Question, ...]
    pool: ShotPool
    left_out: Counter[str]

    @classmethod
    def from_task(
        cls,
        task: PromptedTask,
        config: RunConfig,
        seed: int,
        limit: int | None,
        most_shots: int,
    ) -> "AskedQuestions":
        """Reads the sources of a task.

        Args:
            task: The task.
            config: The run, as whose texts the questions are normalized.
            seed: Seed of the shots.
            limit: Maximum number of questions.
            most_shots: The largest number of shots; without shots no pool is read.

        Raises:
            DataError: A source cannot be read or has no question.
        """
        asked = read_questions(task, task.source, "source", config, limit)
        others = Questions((), Counter())
        if most_shots and task.shots_source is not None:
            others = read_questions(task, task.shots_source, "shots_source", config)
        elif most_shots:
            others = read_questions(task, task.source, "source", config)
        pool = ShotPool.from_seed(others.questions, seed, task.name)
        return cls(asked.questions, pool, asked.left_out)


def list_origins(shots: Sequence[Question]) -> list[str]:
    """Lists the origin of each shot.

    Example:
    >>> list_origins([Question("a.csv", 12, "1+1=", ("2",))])
    ['a.csv:12']
    """
    return [f"{shot.source}:{shot.offset}" for shot in shots]
