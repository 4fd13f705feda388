"""TF Serving's own files, as their users have them, and what is said of bad ones."""

from pathlib import Path

import pytest

from transbeam.configs.base.errors import ConfigError
from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.configuration.tf_serving_files import (
    parse_batching,
    read_batching,
    read_models,
)
from transbeam.serving.server.models.batching.batch_queue import BatchingParameters
from transbeam.serving.server.models.catalog import LogSettings
from transbeam.serving.server.models.versions import Policy

MODELS = """
# Two of them.
model_config_list {
  config {
    name: "a"
    base_path: "/models/a"
    model_platform: "tensorflow"
    %s
  }
  config { name: "b" base_path: "/models/b" }
}
"""


@pytest.fixture
def write(tmp_path):
    def write(text):
        file = tmp_path / "file.config"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    return write


@pytest.mark.parametrize(
    ("text", "policy", "labels"),
    [
        ("", Policy(), {}),
        ("model_version_policy { latest { num_versions: 2 } }", Policy(latest=2), {}),
        ("model_version_policy { latest {} }", Policy(), {}),
        ("model_version_policy { all {} }", Policy(latest=None), {}),
        (
            "model_version_policy { specific { versions: 3 versions: 5 } }"
            "version_labels { key: 'stable' value: 3 }"
            "version_labels { key: 'canary' value: 5 }",
            Policy(specific=frozenset([3, 5])),
            {"stable": 3, "canary": 5},
        ),
    ],
)
def test_models(write, text, policy, labels):
    # tensorflow/serving: g3doc/serving_config.md:88 Configuring
    # tensorflow/serving: g3doc/serving_config.md:114 Multiple
    first, second = read_models(write(MODELS % text))
    assert (first.name, first.folder) == ("a", Path("/models/a"))
    assert (first.policy, first.labels) == (policy, labels)
    assert (second.name, second.folder) == ("b", Path("/models/b"))
    assert (second.policy, second.labels) == (Policy(), {})


def log_config(collector="filename_prefix: '/logs/a'", sampling="sampling_rate: 0.5"):
    return (
        f"logging_config {{ log_collector_config {{ {collector} }} "
        f"sampling_config {{ {sampling} }} }}"
    )


@pytest.mark.parametrize(
    ("text", "log"),
    [
        ("", None),
        (log_config(), LogSettings("/logs/a", 0.5)),
        (log_config(sampling="sampling_rate: 1"), LogSettings("/logs/a", 1.0)),
        (log_config(sampling=""), LogSettings("/logs/a", 0.0)),
        (
            log_config("type: 'tfrecord' filename_prefix: 'logs/'"),
            LogSettings("logs/", 0.5),
        ),
    ],
)
def test_what_is_written_down_of_a_model(write, text, log):
    # tensorflow/serving: config/model_server_config.proto:68 logging_config
    first, second = read_models(write(MODELS % text))
    assert (first.log, second.log) == (log, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (log_config("type: 'x'"), "has the type 'x'; expected 'tfrecord'"),
        (log_config("type: 'tfrecord'"), "has no filename_prefix"),
        (log_config(""), "has no filename_prefix"),
        ("logging_config {}", "has no filename_prefix"),
        (
            "logging_config { log_collector_config { filename_prefix: '/logs/a' } }",
            "expected a sampling_config with a sampling_rate from 0 to 1",
        ),
        (log_config(sampling="sampling_rate: 1.5"), "a sampling_rate from 0 to 1"),
        (log_config(sampling="sampling_rate: -1"), "a sampling_rate from 0 to 1"),
        (log_config(sampling="sampling_rate: nan"), "a sampling_rate from 0 to 1"),
        (
            log_config(sampling="sampling_rate: 1 per_task_sampling_configs {}"),
            "are known here",
        ),
        (
            "logging_config { custom_logging_config {} log_collector_config "
            "{ filename_prefix: '/logs/a' } sampling_config { sampling_rate: 1 } }",
            "are known here",
        ),
    ],
)
def test_logs_that_there_are_not(write, text, message):
    with pytest.raises(ConfigError, match=message) as error:
        read_models(write(MODELS % text))
    assert "file.config: a: logging_config: " in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "model_config_list {\n config { nam: 1 } }",
            r"file\.config:2:\d+ : .*nam",
        ),
        ("model_config_list {", r"file\.config:1:\d+ : "),
        ('{"name": "a"}', r"file\.config:1:\d+ : "),
        (b"\xff", r"file\.config: cannot be read"),
        ("", "there is no model_config_list"),
        ("custom_model_config {}", "there is no model_config_list"),
        ("model_config_list { config { base_path: '/a' } }", "needs a name"),
        ("model_config_list { config { name: 'a' } }", "needs a name and a base_path"),
        (
            "model_config_list { config { name: 'a' base_path: '/a' "
            "model_platform: 'other' } }",
            r"file\.config: a: model_platform is 'other'; expected 'tensorflow'",
        ),
        (
            MODELS % "model_version_policy { specific {} }",
            r"file\.config: a: specific has no versions",
        ),
    ],
)
def test_models_that_cannot_be_read(write, text, message):
    # tensorflow/serving: model_servers/server_core_test.cc:422 UnknownModelPlatform
    with pytest.raises(ConfigError, match=message):
        read_models(write(text))


@pytest.mark.parametrize("read", [read_models, read_batching])
def test_a_file_that_is_not_there(tmp_path, read):
    with pytest.raises(ConfigError, match=r"nowhere\.txt: cannot be read"):
        read(tmp_path / "nowhere.txt")


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("", {}),
        ("max_batch_size { value: 128 }", {"max_batch_size": 128}),
        ("max_batch_size: { value: 128 }", {"max_batch_size": 128}),
        ("max_batch_size: 128", {"max_batch_size": 128}),
        (
            "max_batch_size:128, num_batch_threads:4;",
            {"max_batch_size": 128, "num_batch_threads": 4},
        ),
        ("max_batch_size{value:128}", {"max_batch_size": 128}),
        (
            "# One batch at a time.\n"
            "max_batch_size { value: 8 }  # rows\n"
            "batch_timeout_micros {\n  value: 0\n}\n"
            "max_enqueued_batches { value: 100 }\r\n"
            "num_batch_threads: 1\n"
            'thread_pool_name { value: "pool" }\n'
            "pad_variable_length_inputs: false\n"
            "enable_large_batch_splitting { value: true }\n"
            "allowed_batch_sizes: 1\nallowed_batch_sizes : 4\nallowed_batch_sizes: 8",
            {
                "max_batch_size": 8,
                "batch_timeout_micros": 0,
                "max_enqueued_batches": 100,
                "num_batch_threads": 1,
                "allowed_batch_sizes": (1, 4, 8),
            },
        ),
    ],
)
def test_batching(write, text, parameters):
    # tensorflow/serving: batching/README.md:104 max_batch_size
    assert read_batching(write(text)) == BatchingParameters(**parameters)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_batch_sizes: 8", "max_batch_sizes: unknown; expected one of max_batch"),
        ("enabled: true", "enabled: unknown"),
        ("max_batch_size: 0", "max_batch_size: '0' makes no sense"),
        ("max_batch_size { value: -1 }", "max_batch_size: '-1' makes no sense"),
        ("max_batch_size: many", "max_batch_size: 'many' makes no sense"),
        ("max_batch_size: 1.5", "max_batch_size: '1.5' makes no sense"),
        ("num_batch_threads: 0", "num_batch_threads: '0' makes no sense"),
        ("max_enqueued_batches: 0", "max_enqueued_batches: '0' makes no sense"),
        ("batch_timeout_micros: -1", "batch_timeout_micros: '-1' makes no sense"),
        ("enable_large_batch_splitting: 3", "_splitting: '3' makes no sense"),
        ("pad_variable_length_inputs: true", "change what a Transformer answers"),
        ("pad_variable_length_inputs { value: true }", "Transformer"),
        ("max_batch_size 8", "cannot read 'max_batch_size'; expected lines such as"),
        ("max_batch_size { value: 8", "cannot read"),
        ("hello", "cannot read 'hello'"),
        (b"\xff", "cannot be read"),
        ("max_batch_size: 8 allowed_batch_sizes: 4", r"\[4\]; expected them to rise"),
        (
            "max_batch_size: 8\n"
            "allowed_batch_sizes: 4 allowed_batch_sizes: 2 allowed_batch_sizes: 8",
            r"allowed_batch_sizes: \[4, 2, 8\]; expected them to rise",
        ),
        ("max_batch_size: 2 " + "allowed_batch_sizes: 2 " * 2, "to rise"),
        ("allowed_batch_sizes: 8", "to end with max_batch_size, 32"),
    ],
)
def test_batching_that_makes_no_sense(write, text, message):
    with pytest.raises(ConfigError, match=message) as error:
        read_batching(write(text))
    assert "file.config: " in str(error.value)


COMMON = BatchingParameters(
    max_batch_size=8, num_batch_threads=3, allowed_batch_sizes=(8,)
)


def test_what_a_version_says_of_batching_counts_but_for_the_threads(tmp_path):
    file = tmp_path / "batching_params.pbtxt"
    file.write_text("max_batch_size { value: 4 } num_batch_threads { value: 9 }")
    found = parse_batching(tmp_path, COMMON)
    assert found == BatchingParameters(max_batch_size=4, num_batch_threads=3)


def test_a_version_that_says_nothing_of_batching_is_not_batched(tmp_path):
    found = parse_batching(tmp_path, COMMON)
    assert (found.enabled, found.num_batch_threads) == (False, 3)


def test_a_version_that_says_nonsense_of_batching_is_not_loaded(tmp_path):
    file = tmp_path / "batching_params.pbtxt"
    file.write_text("max_batch_size: many")
    with pytest.raises(StatusError) as error:
        parse_batching(tmp_path, COMMON)
    assert error.value.http == 400
    assert error.value.message == f"{file}: max_batch_size: 'many' makes no sense"
