"""Views of inspected texts for which their model runs once more."""

from collections.abc import Callable
from typing import Any

from transbeam.configs.base.errors import UserError
from transbeam.serving.studio.contributions import explain_prediction
from transbeam.serving.studio.inspected_model import InspectedModel, Inspection
from transbeam.serving.studio.inspections import Inspections
from transbeam.serving.studio.layer_predictions import predict_by_layer
from transbeam.serving.studio.query_key import multiply_query_and_key
from transbeam.serving.studio.stages import describe_stages
from transbeam.serving.studio.studio_error import StudioError


class ModelViews:
    """Computes what is shown of an inspected text beside its attention.

    Each method takes the key of an inspection and raises a `StudioError` if it is not
    kept any more, or the function that it calls raises an error.

    Args:
        inspections: The inspections.
    """

    def __init__(self, inspections: Inspections):
        self._inspections = inspections

    def stages(self, key: str) -> Any:
        """Returns the stages of a text's way; see `describe_stages`."""
        return self._compute(key, describe_stages)

    def predictions(self, key: str) -> Any:
        """Returns the predictions of every layer; see `predict_by_layer`."""
        return self._compute(key, predict_by_layer)

    def contributions(
        self, key: str, position: int, token: int | None, against: int | None
    ) -> Any:
        """Returns the contributions to a logit; see `explain_prediction`."""
        return self._compute(
            key,
            lambda inspected, inspection: explain_prediction(
                inspected, inspection, position, token, against
            ),
        )

    def query_key(
        self, key: str, layer: str, head: int, query: int, attended: int
    ) -> Any:
        """Returns the products of a query and a key; see `multiply_query_and_key`."""
        return self._compute(
            key,
            lambda inspected, inspection: multiply_query_and_key(
                inspected, inspection, layer, head, query, attended
            ),
        )

    def _compute(
        self, key: str, work: Callable[[InspectedModel, Inspection], Any]
    ) -> Any:
        form, inspection = self._inspections.kept(key)
        models = self._inspections.models
        with models.computing:
            inspected = models.keras(form).inspected
            try:
                return work(inspected, inspection)
            except UserError as error:
                raise StudioError(str(error)) from None
