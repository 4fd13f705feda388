"""`transbeam deploy`: what it writes, what it leaves alone, what it refuses."""

import json
import re
import subprocess

import pytest
import yaml

from tests.docs import ROOT
from tests.serving.deploy.conftest import CONFIG, MODEL, SIGNATURES, make_export
from transbeam.configs.loader.yaml_config import load_run
from transbeam.serving.__main__ import main
from transbeam.serving.deploy.exported_model import DEFAULT_IMAGE, first_request

WRITTEN = [
    "README.md",
    "batching_parameters.txt",
    "docker-compose.yml",
    "kserve.yaml",
    "model.config",
    "monitoring.config",
    "prometheus.yml",
    "request.json",
    "vertex/upload.json",
    "kubernetes/autoscaler.yaml",
    "kubernetes/configmap.yaml",
    "kubernetes/copy-model.yaml",
    "kubernetes/deployment.yaml",
    "kubernetes/disruption-budget.yaml",
    "kubernetes/kustomization.yaml",
    "kubernetes/model-volume.yaml",
    "kubernetes/service.yaml",
    "chart/Chart.yaml",
    "chart/values.yaml",
    "chart/templates/autoscaler.yaml",
    "chart/templates/configmap.yaml",
    "chart/templates/deployment.yaml",
    "chart/templates/disruption-budget.yaml",
    "chart/templates/model-volume.yaml",
    "chart/templates/service.yaml",
]


def texts(folder):
    return {
        str(file.relative_to(folder)): file.read_text()
        for file in folder.rglob("*")
        if file.is_file()
    }


def test_what_it_writes(deploy, run):
    code, told = deploy("--json")
    assert code == 0
    assert told["path"] == str(run / "deploy")
    assert sorted(told["files"]) == sorted(told["written"]) == sorted(WRITTEN)
    written = texts(run / "deploy")
    assert sorted(written) == sorted(WRITTEN)
    for text in written.values():
        assert text.endswith("\n")
        assert not re.search(r"\$\{(?!MODEL_DIR)", text)  # no word was left as it is


def test_the_readme_tells_of_this_model(deployed):
    text = (deployed / "README.md").read_text()
    for signature, (inputs, outputs) in SIGNATURES.items():
        row = re.search(rf"^\| `{signature}` \|.*$", text, re.MULTILINE)
        assert (row is None) == signature.startswith(("__", "stream_"))
        assert row is None or all(f"`{name}`" in row[0] for name in inputs | outputs)
    assert "`text` string" in text
    request = re.search(r"```json\n(.*?)```", text, re.DOTALL)[1]
    assert request == (deployed / "request.json").read_text()
    example = "Returns a [MASK] of the same length."
    assert json.loads(request) == {"instances": [example]}


def test_the_commands_of_the_readme_are_commands(deployed):
    blocks = re.findall(r"```sh\n(.*?)```", (deployed / "README.md").read_text(), re.S)
    assert len(blocks) == 6
    for block in blocks:
        subprocess.run(["bash", "-n"], input=block, text=True, check=True)
        named = re.findall(r"(?:kubernetes|vertex)/[\w./-]+|request\.json", block)
        assert all((deployed / name).exists() for name in named)


def test_compose_finds_the_model_from_another_folder(deploy, run, tmp_path):
    to = tmp_path / "else where"
    assert deploy("--to", str(to))[0] == 0
    compose = yaml.safe_load((to / "docker-compose.yml").read_text())
    source = compose["services"]["model"]["volumes"][0]["source"]
    default = re.fullmatch(r"\$\{MODEL_DIR:-(.*)\}", source)[1]
    assert (to / default).resolve() == (run / "export/saved_model").resolve()


def test_a_second_time_it_has_nothing_to_write(deploy):
    assert deploy()[0] == 0
    code, told = deploy("--json")
    assert (code, told["written"]) == (0, [])


def test_what_was_edited_is_not_written_over(deploy, run):
    assert deploy()[0] == 0
    folder = run / "deploy"
    edited = folder / "model.config"
    edited.write_text("mine")
    (folder / "kserve.yaml").unlink()
    before = texts(folder)
    code, told = deploy()
    assert code == 2
    assert "model.config: there with other contents" in told
    assert "--overwrite" in told
    assert texts(folder) == before
    code, told = deploy("--overwrite", "--json")
    assert (code, told["written"]) == (0, ["kserve.yaml", "model.config"])
    assert MODEL in edited.read_text()


def test_another_version_and_another_size_say_so(tmp_path, capsys):
    folder = make_export(tmp_path / "run", version=7)
    weights = folder / "export/saved_model/7/variables/more"
    with weights.open("wb") as stream:
        stream.truncate(2 * 2**30)
    assert main(["deploy", CONFIG, "--run", str(folder), "--quiet"]) == 0
    values = yaml.safe_load((folder / "deploy/chart/values.yaml").read_text())
    assert values["memoryMi"] >= 2 * 2048
    assert values["storageGi"] > 20
    config = (folder / "deploy/model.config").read_text()
    assert "value: 7" in config
    assert "value: 8" in config


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--name", "a b"], "--name 'a b': begin with a letter or a digit"),
        (["--name", "2bert"], "'2bert' makes '2bert', which cannot name a Service"),
        (["--name", "No"], "'No' makes 'no', which cannot name a Service"),
        (["--name", "b" * 41], "expected at most 40"),
        (["--image", "no image"], "--image 'no image': not the name of an image"),
        (["--to", "{folder}/lock"], "a part of the path is a file"),
    ],
)
def test_what_cannot_be_deployed(deploy, run, arguments, message):
    (run / "lock").touch()
    code, told = deploy(*(a.format(folder=run) for a in arguments))
    assert code == 2
    assert message in told
    assert "Traceback" not in told


def test_a_path_that_compose_would_misread(tmp_path, capsys):
    folder = make_export(tmp_path / "a$b")
    command = ["deploy", CONFIG, "--run", str(folder), "--to", str(tmp_path / "to")]
    assert main(command) == 2
    assert "cannot be written in docker-compose.yml" in capsys.readouterr().err
    assert not (tmp_path / "to").exists()


def test_a_run_that_was_not_exported(tmp_path, capsys):
    command = ["deploy", CONFIG, "--run", str(tmp_path)]
    assert main(command) == 2
    told = capsys.readouterr().err
    assert f"{tmp_path}/export: there is no such folder. Make it: transbeam" in told
    assert "Traceback" not in told
    assert not (tmp_path / "deploy").exists()


def test_an_export_that_is_damaged(deploy, run):
    file = run / "export/saved_model/1/saved_model.pb"
    file.write_bytes(b"no SavedModel")
    code, told = deploy()
    assert code == 2
    assert f"{file}: cannot be read as a SavedModel" in told
    file.unlink()
    assert "holds no SavedModel" in deploy()[1]


@pytest.mark.parametrize(
    ("config", "settings", "row"),
    [
        ("demo", (), "Returns a [MASK] of the same shape as the input."),
        ("demo", ["export.examples=[]"], "It returns a [MASK]."),
        ("tiny/causal", ["export.examples=[]"], "Two dogs run in a park."),
        ("tiny/vit_base", ["export.examples=[cat.jpg]"], {"b64": DEFAULT_IMAGE}),
        (
            "tiny/text_to_text",
            ["export.examples=[]", 'objective.source="{second_text}: {text}"'],
            {"text": "Two dogs run in a park.", "second_text": "An animal is outside."},
        ),
    ],
)
def test_the_first_request(config, settings, row):
    run = load_run(ROOT / f"configs/{config}.yaml", settings)
    assert first_request(run) == {"instances": [row]}
