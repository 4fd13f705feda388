"""Models to ask, untrained: their functions, their files, and judges of them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from tests.serving.conftest import make_run
from tests.serving.native.c_client import require_same
from tests.serving.session import asking, session_on
from tests.serving.untrained import write_signatures
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.serving.base.trained_run import TrainedRun, load_trained
from transbeam.serving.parity.base.parity_checker import ParityChecker
from transbeam.serving.parity.base.parity_checks import ParityCheck
from transbeam.serving.parity.checker_factory import make_parity_checker
from transbeam.serving.phone.conversion.tflite_converter import write_tflite
from transbeam.serving.runtimes.saved_model import AskTexts, Texts


@dataclass(frozen=True)
class Scene:
    """A run that is not exported. What costs anything is made when it is asked for."""

    folder: Path

    @classmethod
    def of(cls, folder: Path, config: RunConfig) -> "Scene":
        return cls(make_run(folder, config))

    @cached_property
    def trained(self) -> TrainedRun:
        return load_trained(self.folder)

    @cached_property
    def ask(self) -> AskTexts:
        """Asks the functions that signatures are made of."""
        return asking(self.trained)

    @cached_property
    def judge(self) -> ParityChecker:
        return make_parity_checker(self.trained, self.folder)

    @cached_property
    def files(self) -> dict[str, Path]:
        """TFLite files, by their variants."""
        return write_tflite(self.trained, self.folder, self.folder / "tflite")

    def phone(self, variant: str = "float32") -> TFLiteRunner:
        return TFLiteRunner(self.files[variant])

    @contextmanager
    def exported(self, *signatures: str) -> Iterator[AskTexts]:
        """A SavedModel of some of the signatures, in a session."""
        written = self.folder / "written/1"
        write_signatures(self.trained, written, *signatures)
        with session_on(written) as ask:
            yield ask

    def require_exported_alike(self, texts: Texts, *signatures: str) -> None:
        """Fails where a SavedModel in a session does not answer as its functions do."""
        with self.exported(*signatures) as ask:
            for signature in signatures:
                require_same(ask(signature, texts), self.ask(signature, texts))


def altered(
    ask: AskTexts, signature: str, output: str, change: Callable[..., np.ndarray]
) -> AskTexts:
    """Answers as before, but for one output of a signature."""

    def asked(name: str, texts: Texts) -> dict[str, np.ndarray]:
        answers = {key: np.array(value) for key, value in ask(name, texts).items()}
        if name == signature:
            answers[output] = change(answers[output])
        return answers

    return asked


def remembered(ask: AskTexts) -> AskTexts:
    """Asks the same but once, for a judge who is shown it in many ways."""
    known = {}

    def asked(name: str, texts: Texts) -> dict[str, np.ndarray]:
        if name not in known:
            known[name] = texts, ask(name, texts)
        assert known[name][0] == texts
        return dict(known[name][1])

    return asked


def failed(rows: Sequence[ParityCheck]) -> list[str]:
    """The checks that did not pass, without how they were measured."""
    return [row.check.partition(",")[0] for row in rows if not row.passed]


def judged_by_another(
    scene: Scene, judged: Callable[[ParityChecker], Sequence[ParityCheck]]
):
    """The checks that fail where Keras has other weights than what was exported."""
    weights = scene.trained.model.weights
    before = [weight.numpy() for weight in weights]
    for weight, value in zip(weights, before, strict=True):
        weight.assign(1.5 * value)
    try:
        return failed(judged(make_parity_checker(scene.trained, scene.folder)))
    finally:
        for weight, value in zip(weights, before, strict=True):
            weight.assign(value)


def rows_of(
    variant: str, phone: TFLiteRunner, judge: ParityChecker
) -> list[ParityCheck]:
    """The rows of a parity checker for a file."""
    return judge.phone_rows("file", variant, phone)
