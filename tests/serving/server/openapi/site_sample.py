"""The OpenAPI description that the site shows: a masked model, a writer, the studio.

`python -m tests.serving.server.openapi.site_sample` writes it anew.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from tests.docs import ROOT
from tests.serving.conftest import TINY, exported_run
from tests.serving.server.conftest import running
from tests.serving.server.sample_models.counting_model import save_counting
from transbeam.configs.base.version import VERSION
from transbeam.serving.server.configuration.settings import ServerSettings
from transbeam.serving.server.models.catalog import ModelSettings

FILE = ROOT / "docs/reference/openapi.json"


def sample(folder: Path) -> dict[str, Any]:
    """The description by a server of both models.

    Args:
        folder: Where the writer is saved.
    """
    save_counting(folder / "writer/1")
    exported = exported_run(TINY)
    models = (
        ModelSettings("masked", exported.saved_model.parent),
        ModelSettings("writer", folder / "writer"),
    )
    settings = ServerSettings(
        models=models,
        port=0,
        rest_port=0,
        has_studio=True,
        studio_runs=(exported.run_folder,),
    )
    with running(settings) as client:
        status, document = client.get("/openapi.json")
    assert status == 200
    # A release changes nothing that the page shows.
    assert document["info"].pop("version") == VERSION
    return document


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        text = json.dumps(sample(Path(name)), indent=1, ensure_ascii=False)
        FILE.write_text(f"{text}\n", "utf-8")
