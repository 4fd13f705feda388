"""A server of a tiny writer, of one that chats, and of models that write nothing."""

import json
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.serving.conftest import TINY, exported_run
from tests.serving.server.conftest import running, settings_for
from tests.serving.session import unoptimized
from transbeam.configs.loader.yaml_config import load_run
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.pipeline.tokenizers.files.tokenizer_folder import load_tokenizer
from transbeam.serving.server.models.catalog import ModelSettings

PREFIX = "/openai/v1"
WRITER, CHATTER, OLD, TRANSLATOR, MASKED = (
    "writer",
    "chatter",
    "old",
    "translator",
    "masked",
)
TEMPLATE = """\
{{- bos_token -}}
{%- for message in messages %}
    {%- if message.role == 'system' and not loop.first %}
        {{- raise_exception('the system speaks first') }}
    {%- endif %}
    {{- message.role + ': ' + message.content + '\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ 'assistant:' }}{% endif %}
"""


@dataclass
class OpenAIDoor:
    """A server, and the same requests sent by hand."""

    client: Any
    runs: dict[str, Any]

    def post(self, path, body, **headers):
        """Status and JSON of an answer."""
        text = body if isinstance(body, bytes) else json.dumps(body)
        status, _, answer = self.client.send("POST", f"{PREFIX}/{path}", text, headers)
        return status, json.loads(answer)

    def complete(self, prompt, model=WRITER, path="completions", **fields):
        """A whole answer."""
        body = {"model": model, "prompt": prompt, "temperature": 0, **fields}
        status, answer = self.post(path, body)
        assert status == 200, answer
        return answer

    def events(self, path, body):
        """The data of all server-sent events."""
        text = json.dumps({"stream": True, **body})
        status, headers, answer = self.client.send("POST", f"{PREFIX}/{path}", text)
        assert status == 200, answer
        assert headers["content-type"] == "text/event-stream; charset=utf-8"
        blocks = answer.decode().removesuffix("\n\n").split("\n\n")
        return [block.removeprefix("data: ") for block in blocks]

    def chunks(self, path, body):
        """The JSON of all events but the last, which says that it was the last."""
        *data, end = self.events(path, body)
        assert end == "[DONE]"
        return [json.loads(each) for each in data]

    def predict(self, model, signature, **inputs):
        """The outputs of a signature, asked as clients of TF Serving do."""
        body = {"signature_name": signature, "inputs": inputs}
        status, answer = self.client.post(f"{model}:predict", body)
        assert status == 200, answer
        return answer["outputs"]

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """That of the writer."""
        return load_tokenizer(self.runs[WRITER].run_folder / "data/tokenizer")


def small_run(kind: str, **keys: Any) -> SimpleNamespace:
    """An export of a tiny configuration, which the tests of the page Try have, too."""
    few = ["tokenizer.vocabulary_size=300"]
    config = load_run(f"configs/tiny/{kind}.yaml", few)
    export = replace(config.export, tflite=())
    config = replace(config, training=TINY.training, export=export, **keys)
    return exported_run(config, optimized=False)


@contextmanager
def opened(models, runs, **changes):
    """A server; to optimize graphs would take longer than all that is asked of it."""
    settings = settings_for(models=models, port=None, **changes)
    with unoptimized(), running(settings) as client:
        yield OpenAIDoor(client, runs)


def copied(run: SimpleNamespace, folder: Path) -> Path:
    """A model's folder with a version that is loaded without being warmed up."""
    ignored = shutil.ignore_patterns("tf_serving_warmup_requests", "golden_requests")
    shutil.copytree(run.saved_model, folder / "1", ignore=ignored)
    return folder


@pytest.fixture(scope="session")
def runs():
    return {
        WRITER: small_run("causal"),
        TRANSLATOR: small_run("seq2seq"),
        MASKED: exported_run(TINY),
    }


@pytest.fixture(scope="session")
def models(runs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    of_runs = {**runs, CHATTER: runs[WRITER], OLD: runs[WRITER]}
    copies = {name: copied(run, folder / name) for name, run in of_runs.items()}
    extra = "1/assets.extra"
    (copies[CHATTER] / extra / "chat_template.jinja").write_text(TEMPLATE)
    shutil.rmtree(copies[OLD] / extra / "tokenizer")
    return tuple(ModelSettings(name, path) for name, path in copies.items())


@pytest.fixture(scope="package")  # tests of other packages look at threads
def door(models, runs):
    with opened(models, runs) as found:
        yield found


@pytest.fixture(scope="package")
def readable(door):
    """A bias that leaves an untrained writer only readable tokens."""
    pieces = enumerate(door.tokenizer.pieces)
    return {str(i): -100 for i, piece in pieces if not piece.isascii()}
