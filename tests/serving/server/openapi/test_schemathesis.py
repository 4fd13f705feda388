"""The OpenAPI description holds for generated requests.

Schemathesis reads `/openapi.json`, asks what fits it and what does not, and looks
whether the answers are those that were promised: no 5xx, nothing that is not described,
and no 200 for what does not fit. It is run as users run it, `schemathesis run URL`.
"""

import json
import re
import subprocess
import sys

import pytest

from tests.serving.conftest import TINY, make_run
from tests.serving.server.conftest import NAME, SECRET, running, settings_for
from tests.serving.server.sample_models.counting_model import save_counting
from tests.serving.server.sample_models.half_plus_two_model import save_half_plus
from transbeam.serving.server.models.catalog import ModelSettings

TOKEN = {"Authorization": "Bearer secret"}
# TF Serving says 400, and not 405, to verbs that a path does not have; and not all
# that is refused can be told by a schema, such as lists of unequal lengths. Values of
# another shape than a signature's are not described, and answered if the graph can.
NOT_PROMISED = {
    "positive": "unsupported_method,positive_data_acceptance",
    "negative": (
        "unsupported_method,negative_data_rejection,response_schema_conformance,"
        "positive_data_acceptance"  # what it makes up may fit by chance
    ),
}
# The same questions, but of one version or label: some are enough.
QUICK = [
    "--phases",
    "coverage,fuzzing",
    "--exclude-path-regex",
    "metadata|/(version|label)s/.*:",
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    save_half_plus(folder / NAME / "1", held=False)
    save_half_plus(folder / NAME / "2", 3.0, held=False)
    save_counting(folder / "counting" / "1")
    return [folder / NAME, folder / "counting"]


def fuzz(settings, folder, *arguments):
    """Runs Schemathesis on a server of models, which must have no objection."""
    with running(settings) as client:
        document = json.loads(client.send("GET", "/openapi.json", headers=TOKEN)[2])
        numbers = [
            fuzz_once(
                client, folder, "--mode", mode, "--exclude-checks", left, *arguments
            )
            for mode, left in NOT_PROMISED.items()
        ]
        # Whatever was asked, good questions are answered as before.
        answer = client.post(f"{NAME}:predict", {"instances": [2.0]}, **TOKEN)
        assert answer == (200, {"predictions": [4.0]})
    return min(numbers), document["paths"]


def fuzz_once(client, folder, *arguments):
    command = [sys.executable, "-m", "schemathesis.cli", "run"]
    command += [f"{client.addresses.rest}/openapi.json", "--seed", "20"]
    command += ["--header", f"Authorization: {TOKEN['Authorization']}"]
    command += ["--continue-on-failure"]
    command += ["--suppress-health-check", "all", "--request-timeout", "60"]
    found = subprocess.run(
        [*command, *arguments],
        cwd=folder,  # it looks for its settings there, and leaves its notes
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    tested = re.search(r"Tested: (\d+)", found.stdout)
    assert tested, found.stdout
    return int(tested[1])


def test_nothing_unexpected_comes_of_what_is_asked(folders, tmp_path):
    settings = settings_for(*folders, tokens=SECRET)
    tested, _ = fuzz(settings, tmp_path, *QUICK, "--max-examples", "20")
    # Each method of each model, the states, OpenAI's API, and the doors for those who
    # watch.
    assert tested == 2 + 3 + 4 + 5 + 3


def test_nothing_unexpected_comes_of_what_the_studio_is_asked(tmp_path):
    run = make_run(tmp_path / "run", TINY)
    settings = settings_for(
        tokens=SECRET, port=None, has_studio=True, studio_runs=(run,)
    )
    only = ["--include-path-regex", "^/studio/"]
    with running(settings) as client:
        for mode, left in NOT_PROMISED.items():
            tested = fuzz_once(
                client,
                tmp_path,
                *("--mode", mode, "--exclude-checks", left),
                *("--max-examples", "20", "--phases", "coverage,fuzzing", *only),
            )
            assert tested >= 3
        body = json.dumps({"run": "run", "texts": {"text": "a list"}})
        assert client.send("POST", "/studio/api/inspect", body, TOKEN)[0] == 200


@pytest.mark.thorough(instead="test_nothing_unexpected_comes_of_what_is_asked")
def test_nothing_unexpected_comes_of_much_that_is_asked(folders, exported, tmp_path):
    models = [ModelSettings(folder.name, folder) for folder in folders]
    models.append(ModelSettings("text", exported.saved_model.parent))
    models[0] = ModelSettings(NAME, folders[0], labels={"stable": 2})
    settings = settings_for(tokens=SECRET, models=tuple(models))
    tested, paths = fuzz(settings, tmp_path, "--max-examples", "50")
    assert tested == len(paths)
