"""A `.litertlm` holds what it should, and LiteRT-LM writes what our loop writes.

The client is large and stays out of our requirements: name an interpreter that has it,
`pip install litert-lm-api==0.18.1`, in the environment variable
`TRANSBEAM_PHONE_PYTHON`.
"""

import io
import json
import os
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

import jinja2
import pytest
from google.protobuf import text_format
from litert_lm_builder.litertlm_peek import peek_litertlm_file
from litert_lm_builder.runtime.proto.llm_metadata_pb2 import LlmMetadata

from tests.data.hostile_strings import HOSTILE_TEXTS
from tests.pipeline.tokenizers.sentencepiece_models import train
from tests.serving.phone.generative_models import (
    converted,
    small,
    trained_of,
    writer_of,
)
from tests.serving.untrained import learned
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.objectives.supervised import (
    CompletionConfig,
    DialogueConfig,
)
from transbeam.configs.schema.tokenizer import (
    ByteBPEConfig,
    UnigramConfig,
    WordPieceConfig,
)
from transbeam.pipeline.tokenizers.base.builtin_chat_templates import (
    find_chat_template,
)
from transbeam.pipeline.tokenizers.base.framing import Framing
from transbeam.pipeline.tokenizers.files.chat_format import with_chat_template
from transbeam.pipeline.tokenizers.files.tokenizer_folder import (
    load_tokenizer,
    read_tokenizer,
    save_tokenizer,
)
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_model import (
    SentencePieceModel,
)
from transbeam.serving.base.trained_run import TOKENIZER
from transbeam.serving.phone.conversion.litert_lm_bundle import (
    bundle_name,
    check_bundle_tokenizer,
    message_template,
    write_bundle,
)
from transbeam.serving.phone.conversion.tflite_converter import write_tflite

PYTHON = os.environ.get("TRANSBEAM_PHONE_PYTHON")
CLIENT = Path(__file__).parents[1] / "litert_lm_client.py"
TOKENIZERS = {
    "gpt2": ByteBPEConfig(vocabulary_size=400),
    "roberta": ByteBPEConfig(vocabulary_size=400, specials="roberta"),
    "unigram": UnigramConfig(vocabulary_size=500, byte_fallback=True),
    "albert": UnigramConfig(vocabulary_size=100, specials="albert"),
    "wordpiece": WordPieceConfig(vocabulary_size=400),
}
PROMPTS = ("The", "Return a list", "name <s> [CLS] </s>", "é, 漢字 and", "of the " * 8)
NEW, CACHE = 4, 64


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """By tokenizer: what is trained, its TFLite file and its bundle."""

    @cache
    def make(name):
        run = replace(small("llama_7b", num_layers=1), tokenizer=TOKENIZERS[name])
        # Pieces are shorter than most prompts; the longest ends near the cache's end.
        export = replace(run.export, litert_lm=True, tflite_cache=CACHE)
        run = replace(run, export=export)
        folder = tmp_path_factory.mktemp("bundle") / name
        trained, files = converted(run, folder)
        return trained, files["float32"], folder / bundle_name("float32")

    return make


@pytest.fixture(params=TOKENIZERS)
def bundle(request, made):
    return made(request.param)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_what_is_in_a_bundle(made, name, tmp_path):
    trained, file, packed = made("gpt2")
    assert sorted(packed.parent.glob("*.litertlm")) == [packed]
    if name != "gpt2":  # the same model, packed with another tokenizer
        tokenizer = learned(tmp_path, TOKENIZERS[name])
        trained = replace(trained, tokenizer=load_tokenizer(tokenizer))
        packed = tmp_path / "other.litertlm"
        write_bundle(file, tokenizer, packed, CACHE)
    (tmp_path / "parts").mkdir()
    peek_litertlm_file(str(packed), str(tmp_path / "parts"), io.StringIO())
    parts = {path.name: path for path in (tmp_path / "parts").iterdir()}
    (model,) = (path for name, path in parts.items() if name.endswith(".tflite"))
    assert model.read_bytes() == file.read_bytes()
    text = parts["LlmMetadataProto.pbtext"].read_text("utf-8")
    metadata = text_format.Parse(text, LlmMetadata())
    special = trained.tokenizer.special
    begins = [] if special.begin in (None, special.end) else [special.begin]
    assert list(metadata.start_token.token_ids.ids) == begins
    ends = [list(token.token_ids.ids) for token in metadata.stop_tokens]
    assert ends == [[special.end]]
    assert metadata.max_num_tokens == CACHE
    assert metadata.llm_model_type.HasField("generic_model")


def test_what_a_checkpoint_says_of_texts_is_in_its_bundle(made, tmp_path):
    _, file, _ = made("gpt2")
    model = read_tokenizer(learned(tmp_path / "plain", TOKENIZERS["gpt2"])).model
    framing = Framing(stop_ids=(7, 9), chat_template="{{ messages[0].content }}")
    save_tokenizer(tmp_path / "framed", replace(model, framing=framing))
    packed = tmp_path / "framed.litertlm"
    write_bundle(file, tmp_path / "framed", packed, CACHE)
    (tmp_path / "parts").mkdir()
    peek_litertlm_file(str(packed), str(tmp_path / "parts"), io.StringIO())
    text = (tmp_path / "parts/LlmMetadataProto.pbtext").read_text("utf-8")
    metadata = text_format.Parse(text, LlmMetadata())
    ends = [list(token.token_ids.ids) for token in metadata.stop_tokens]
    assert ends == [[model.special.end], [7], [9]]
    assert metadata.jinja_prompt_template == framing.chat_template


def test_litert_lm_matches_no_special_tokens_for_sentencepiece() -> None:
    model = SentencePieceModel(proto=train())
    check_bundle_tokenizer(model)
    source = find_chat_template("plain")
    with pytest.raises(ConfigError, match=r"writes '</s>', which LiteRT-LM does not"):
        check_bundle_tokenizer(with_chat_template(model, source))


def test_the_template_of_a_prompt_is_the_chat_template() -> None:
    template = message_template(CompletionConfig(prompt='Say "{text}"\nIn short: '))
    messages = [{"role": "user", "content": "{{ 1 }} é\n"}]
    rendered = jinja2.Template(template).render(messages=messages)
    assert rendered == 'Say "{{ 1 }} é\n"\nIn short:'


@cache
def has_client() -> bool:
    if PYTHON is None:
        return False
    found = subprocess.run([PYTHON, "-c", "import litert_lm"], capture_output=True)
    return found.returncode == 0


@pytest.fixture
def client():
    """Skips the test without one; comes first, as what it is asked takes seconds."""
    if not has_client():
        pytest.skip(
            "TRANSBEAM_PHONE_PYTHON names no interpreter that has litert-lm-api"
        )


@pytest.fixture
def ask(client):
    """Asks the client questions about a bundle."""

    def answers(packed, questions):
        command = [PYTHON, str(CLIENT), str(packed)]
        text = json.dumps(questions)
        done = subprocess.run(command, input=text, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return answers


def test_litert_lm_writes_what_our_loop_writes(ask, bundle):
    trained, file, packed = bundle
    writer, special = writer_of(file), trained.tokenizer.special
    begins = [] if special.begin in (None, special.end) else [special.begin]
    questions, expected = [], []
    for prompt in PROMPTS:
        ids = trained.tokenizer.tokenize([prompt]).to_list()[0]
        assert len(ids) + NEW < CACHE
        new = writer.write([*begins, *ids], NEW, stop_token_ids=[special.end])
        written = [token for token in new.token_ids.tolist() if token != special.end]
        questions.append({"prompt": prompt, "written": written, "max_new_tokens": NEW})
        expected.append(ids)
    answers = ask(packed, questions)
    for answer, ids in zip(answers, expected, strict=True):
        assert answer["token_ids"] == ids
        assert answer["text"] == answer["written"]
        (part,) = answer["message"]["content"]
        assert part["text"] == answer["written"]
    assert len({answer["text"] for answer in answers}) > 1


def test_litert_lm_reads_hostile_texts_as_we_do(ask, bundle):
    trained, _, packed = bundle
    # The client hands a text to C, where it ends with its first NUL.
    texts = [t for t in HOSTILE_TEXTS if isinstance(t, str) and "\0" not in t]
    assert len(texts) > 40
    questions = [{"prompt": text} for text in texts]
    found = [answer["token_ids"] for answer in ask(packed, questions)]
    expected = trained.tokenizer.tokenize(texts).to_list()
    assert found == expected


def test_litert_lm_replies_by_the_chat_template(ask, tmp_path):
    run = small("completion", num_layers=1)
    source = find_chat_template("plain")
    export = replace(run.export, litert_lm=True, tflite_cache=CACHE)
    objective = DialogueConfig(chat_template="plain")
    run = replace(run, export=export, objective=objective)
    folder = tmp_path / "replying"
    tokenizer = learned(tmp_path, run.tokenizer, source)
    shutil.copytree(tokenizer, tmp_path / "replying-run" / TOKENIZER)
    trained = trained_of(run, tmp_path / "replying-run")
    files = write_tflite(trained, tmp_path / "replying-run", folder)
    chat, special = trained.tokenizer.chat_format, trained.tokenizer.special
    prompt = chat.render_prompt([{"role": "user", "content": "a list"}])
    assert prompt == "User: a list\nAssistant:"
    (ids,) = trained.tokenizer.tokenize([prompt]).to_list()
    new = writer_of(files["float32"]).write(ids, NEW, stop_token_ids=[special.end])
    written = [token for token in new.token_ids.tolist() if token != special.end]
    question = {"prompt": "a list", "written": written, "max_new_tokens": NEW}
    (answer,) = ask(folder / bundle_name("float32"), [question])
    (part,) = answer["message"]["content"]
    assert part["text"] == answer["written"]


def test_litert_lm_answers_prompts_made_by_the_template(ask, tmp_path):
    """A message is the text; the whole prompt has the tokens of the records."""
    run = small("completion", num_layers=1)
    export = replace(run.export, litert_lm=True, tflite_cache=CACHE)
    trained, files = converted(replace(run, export=export), tmp_path / "answering")
    writer, special = writer_of(files["float32"]), trained.tokenizer.special
    prompt = "a list\nIn short:"
    (ids,) = trained.tokenizer.tokenize([prompt]).to_list()
    new = writer.write(ids, NEW, stop_token_ids=[special.end])
    written = [token for token in new.token_ids.tolist() if token != special.end]
    question = {"prompt": "a list", "written": written, "max_new_tokens": NEW}
    packed = tmp_path / "answering" / bundle_name("float32")
    (answer,) = ask(packed, [question])
    (part,) = answer["message"]["content"]
    assert part["text"] == answer["written"]
