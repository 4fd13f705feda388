"""`--certificate` and `--key`: both doors over TLS, as users start and ask them.

The certificate is signed by itself, as one is that somebody makes for a small service.
"""

import json
from types import SimpleNamespace

import pytest
import tensorflow as tf

from tests.serving.server.certificates import make_pair
from tests.serving.server.conftest import NAME
from tests.serving.server.sample_models.counting_model import save_counting
from tests.serving.server.server_process import commanded
from transbeam.serving.__main__ import main
from transbeam.serving.client.connect import connect
from transbeam.serving.client.interface import ServerError

DOORS = ["rest", "grpc"]
WRITER = "writer"
SCORER = "scorer"


def save_scorer(folder):
    """A model that `transbeam predict` knows what to do with: how long a text is."""
    model = tf.Module()
    spec = tf.TensorSpec([None], tf.string, name="text")

    @tf.function(input_signature=[spec])
    def score(text):
        length = tf.cast(tf.strings.length(text), tf.float32)
        return {"score": length, "truncated": tf.less(length, 0.0)}

    tf.saved_model.save(model, str(folder), signatures={"serving_default": score})


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    return make_pair(folder, "good"), make_pair(folder, "other")


@pytest.fixture(scope="module")
def served(pairs, half_plus_two, tmp_path_factory):
    """Some models, with TLS and a token."""
    folder = tmp_path_factory.mktemp("served")
    save_counting(folder / WRITER / "1")
    save_scorer(folder / SCORER / "1")
    models = {name: folder / name for name in (WRITER, SCORER)} | {NAME: half_plus_two}
    configs = "".join(
        f'config {{ name: "{name}" base_path: "{at}" }}\n'
        for name, at in models.items()
    )
    (folder / "model.config").write_text(f"model_config_list {{\n{configs}}}\n")
    (folder / "token").write_text("secret\n")
    arguments = ["--model-config-file", str(folder / "model.config")]
    arguments += ["--token-file", str(folder / "token"), *pairs[0].flags(), "--quiet"]
    with commanded(*arguments) as addresses:
        yield SimpleNamespace(
            rest=addresses.rest,
            grpc=f"grpcs://{addresses.grpc}",
            token=folder / "token",
        )


def answers(served, door, certificate):
    with connect(
        getattr(served, door), NAME, token="secret", certificate=certificate
    ) as client:
        return client.ask("serving_default", {"x": [1.0]})["y"].tolist()


@pytest.mark.parametrize("door", DOORS)
def test_who_trusts_the_certificate_is_answered(served, pairs, door):
    assert answers(served, door, pairs[0].certificate) == [2.5]


@pytest.mark.parametrize("door", DOORS)
def test_the_token_is_asked_for_over_tls_too(served, pairs, door):
    certificate = pairs[0].certificate
    with (
        connect(getattr(served, door), NAME, certificate=certificate) as client,
        pytest.raises(ServerError, match="Authorization: Bearer") as error,
    ):
        client.signatures()
    assert error.value.code == "UNAUTHENTICATED"


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("which", [None, "other"])
def test_who_does_not_trust_it_asks_once(served, pairs, door, which):
    certificate = pairs[1].certificate if which else None
    with pytest.raises(ServerError, match="is not trusted") as error:
        answers(served, door, certificate)
    assert "--certificate FILE" in str(error.value)
    assert not error.value.again
    # It hurts nobody else.
    assert answers(served, door, pairs[0].certificate) == [2.5]


@pytest.mark.parametrize("door", DOORS)
def test_texts_are_streamed_over_tls(served, pairs, door):
    address, wishes = getattr(served, door), {"text": "3", "max_new_tokens": 2}
    trusted = {"token": "secret", "certificate": pairs[0].certificate}
    with connect(address, WRITER, **trusted) as client:
        assert [*client.stream(wishes)][-1].generated_text == " 4 5"
    with (
        connect(address, WRITER, token="secret") as client,
        pytest.raises(ServerError, match="is not trusted"),
    ):
        next(client.stream(wishes))


@pytest.mark.parametrize("door", DOORS)
def test_predict_as_a_user_types_it(served, pairs, door, capsys):
    command = ["predict", "--server", getattr(served, door), "--name", SCORER]
    command += ["--text", "three", "--token-file", str(served.token), "--json"]
    assert main([*command, "--certificate", str(pairs[0].certificate)]) == 0
    [prediction] = json.loads(capsys.readouterr().out)["predictions"]
    assert prediction["score"] == 5.0
    assert main(command) == 2
    told = capsys.readouterr().err
    assert "is not trusted" in told
    assert "Traceback" not in told


def test_a_load_test_over_tls_reads_the_server_s_own_numbers(served, pairs, capsys):
    command = ["loadtest", served.rest, "--name", SCORER, "--text", "three", "--json"]
    command += ["--clients", "1", "--seconds", "0.2", "--warm-up", "0.1"]
    command += ["--token-file", str(served.token)]
    assert main([*command, "--certificate", str(pairs[0].certificate)]) == 0
    [stage] = json.loads(capsys.readouterr().out)["stages"]
    assert stage["asked"] > 0
    assert not stage["errors"]
    assert min(stage["memory_mb"]) > 0
    assert main(command) == 2
    assert "is not trusted" in capsys.readouterr().err


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("content", [None, "no PEM at all"])
def test_a_certificate_to_trust_that_is_none(served, door, content, tmp_path, capsys):
    file = tmp_path / "authority.pem"
    if content:
        file.write_text(content)
    command = ["predict", "--server", getattr(served, door), "--name", SCORER]
    assert main([*command, "--text", "3", "--certificate", str(file)]) == 2
    assert capsys.readouterr().err.startswith(f"error: {file}: ")


@pytest.mark.parametrize("door", DOORS)
def test_who_does_not_speak_tls_is_not_answered_and_hurts_nobody(served, pairs, door):
    plain = getattr(served, door).replace("https:", "http:").replace("grpcs:", "grpc:")
    with (
        connect(plain, NAME, token="secret", timeout=1.0) as client,
        pytest.raises(ServerError) as error,
    ):
        client.signatures()
    assert error.value.code == "UNAVAILABLE"
    assert answers(served, door, pairs[0].certificate) == [2.5]


@pytest.mark.parametrize(
    ("certificate", "key", "message"),
    [
        ("good.pem", "other.key", "other.key is not the key of "),
        ("nonsense", "good.key", "nonsense: there is no CERTIFICATE in it"),
        ("good.pem", "nonsense", "nonsense: there is no PRIVATE KEY in it"),
        ("good.key", "good.pem", "good.key: there is no CERTIFICATE in it"),
        ("damaged.pem", "good.key", "cannot be used for TLS: "),
        ("missing", "good.key", "missing: cannot be read: No such file"),
        ("good.pem", "missing", "missing: cannot be read: No such file"),
        ("good.pem", "", "TLS needs both --certificate FILE and --key FILE"),
    ],
)
def test_what_cannot_be_shown_is_refused(pairs, certificate, key, message, capsys):
    folder = pairs[0].key.parent
    (folder / "nonsense").write_text("no PEM at all")
    whole = pairs[0].certificate.read_text()
    (folder / "damaged.pem").write_text(whole[:100] + whole[140:])
    # It is looked at before the model, which is not there.
    command = [
        "serve",
        "--model",
        "nowhere",
        "--certificate",
        str(folder / certificate),
    ]
    command += ["--key", str(folder / key)] if key else []
    assert main(command) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1


def test_a_key_with_a_passphrase_is_not_asked_for_it(pairs, tmp_path, capsys):
    from cryptography.hazmat.primitives import serialization

    certificate, key = pairs[0]
    locked = tmp_path / "locked.key"
    locked.write_bytes(
        serialization.load_pem_private_key(key.read_bytes(), None).private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"word"),
        )
    )
    command = ["serve", "--model", "nowhere", "--certificate", str(certificate)]
    assert main([*command, "--key", str(locked)]) == 2
    assert "the key without a passphrase" in capsys.readouterr().err
