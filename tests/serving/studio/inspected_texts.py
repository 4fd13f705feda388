"""A text that an untrained model reads."""

from pathlib import Path

from tests.serving.studio.test_inspected_model import facts
from tests.serving.untrained import untrained
from transbeam.serving.studio.inspected_model import InspectedModel, Inspection

TEXT = "returns a list of the names"


def inspect_text(kind: str, folder: Path) -> tuple[InspectedModel, Inspection]:
    """Inspects `TEXT` with the model of a tiny configuration.

    Args:
        kind: Name of the file in `configs/tiny`.
        folder: Folder of tokenizers.
    """
    trained = untrained(kind, folder)
    model = InspectedModel(facts(trained), trained)
    return model, model.inspect(dict.fromkeys(facts(trained).inputs, TEXT))
