"""Comparisons of two models on one text: their predictions and their attention."""

import time
from collections.abc import Mapping
from typing import Any

from transbeam.configs.base.errors import UserError
from transbeam.serving.studio.answers import Answer
from transbeam.serving.studio.comparison.answer_differences import compare_answers
from transbeam.serving.studio.head_differences import (
    head_differences,
    why_no_differences,
)
from transbeam.serving.studio.inspections import Inspections, read_texts
from transbeam.serving.studio.model_form import ModelForm
from transbeam.serving.studio.studio_error import StudioError

Json = dict[str, Any]
Sides = Mapping[str, ModelForm]


class Comparisons:
    """Compares models of the studio's runs.

    Args:
        inspections: The inspections of the runs, with their models.
    """

    def __init__(self, inspections: Inspections):
        self._inspections = inspections
        self._models = inspections.models

    def compare(self, a: ModelForm, b: ModelForm, texts: Mapping[str, str]) -> Json:
        """Compares two models on a text.

        Args:
            a: The first model.
            b: The second model.
            texts: A text for each input of both.

        Returns:
            A JSON object; see `comparison_schemas.COMPARISON`.

        Raises:
            StudioError: A model does not exist or cannot be loaded, or the two read
                other inputs.
        """
        began = time.perf_counter()
        facts = [self._models.facts(form.run) for form in (a, b)]
        inputs = [each.inputs for each in facts]
        if set(inputs[0]) != set(inputs[1]):
            raise StudioError(
                f"{a.run} reads {' and '.join(inputs[0])}, and {b.run} reads "
                f"{' and '.join(inputs[1])}: only models of the same inputs can be "
                "compared"
            )
        texts = read_texts(facts[0], texts)
        sides = {"a": a, "b": b}
        answers = self._answers(sides, texts)
        inspections, maps = self._maps(sides, texts)
        return {
            "a": {**a.as_json(), "inspection": inspections.get("a")},
            "b": {**b.as_json(), "inspection": inspections.get("b")},
            "seconds": round(time.perf_counter() - began, 4),
            "answers": answers,
            "maps": maps,
        }

    def _answers(self, sides: Sides, texts: Mapping[str, str]) -> Json:
        """Returns the predictions with their differences, or why there are none."""
        a, b = sides.values()
        try:
            one, other = self._answer(a, texts), self._answer(b, texts)
        except _NoAnswerError as error:
            return {"why_not": str(error)}
        if one.kind != other.kind:
            return {"why_not": f"{a} predicts {one.kind}, and {b} {other.kind}"}
        if not (one.predictions and other.predictions):
            what = "[MASK]" if one.kind == "fills" else "word"
            return {"why_not": f"the text has no {what}"}
        return {"why_not": None, **compare_answers(one, other)}

    def _answer(self, form: ModelForm, texts: Mapping[str, str]) -> Answer:
        with self._models.computing:
            model = self._models.keras(form).answering
            tflite = None if form.tflite is None else self._models.tflite(form)
            try:
                return model.answer(texts, tflite)
            except (StudioError, UserError) as error:
                raise _NoAnswerError(f"{form}: {error}") from None

    def _maps(
        self, sides: Sides, texts: Mapping[str, str]
    ) -> tuple[dict[str, Json], Json]:
        """Returns the inspections of the sides that have maps, and the differences."""
        found: dict[str, Json] = {}
        reasons: list[str] = []
        for name, form in sides.items():
            reason = self._models.facts(form.run).why_no_maps
            if form.tflite is not None:
                reason = "a TFLite file has no attention maps"
            if reason is None:
                found[name] = self._inspections.inspect(form, texts)
            elif f"{form}: {reason}" not in reasons:
                reasons.append(f"{form}: {reason}")
        if reasons:
            return found, {"why_not": "; ".join(reasons), "groups": []}
        one, other = (
            self._inspections.kept(found[name]["key"]).inspection for name in sides
        )
        reason = why_no_differences(one, other)
        groups = []
        if reason is None:
            pairs = zip(one.groups, other.groups, strict=True)
            groups = [head_differences(*pair) for pair in pairs]
        return found, {"why_not": reason, "groups": groups}


class _NoAnswerError(Exception):
    """A model has no predictions for a text, with the reason."""
