"""Reads TF Serving's configuration files: `model.config` and batching parameters.

Both files are protocol buffers in text format. The protobuf message of the batching
parameters is in no Python package, so its fields are parsed one by one.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from tensorflow_serving.config import logging_config_pb2
from tensorflow_serving.config import model_server_config_pb2 as config_pb2

from transbeam.configs.base.errors import ConfigError
from transbeam.serving.server.base.status import invalid
from transbeam.serving.server.models.batching.batch_queue import BatchingParameters
from transbeam.serving.server.models.catalog import LogSettings, ModelSettings
from transbeam.serving.server.models.versions import Policy

_FIELD = re.compile(r"(\w+)\s*(?::?\s*\{\s*value\s*:\s*([^\s}]+)\s*\}|:\s*(\S+))")
_POSITIVE, _FLAG = r"0*[1-9][0-9]{0,18}", r"(?i:true|false)"
_PADDING = "pad_variable_length_inputs"
# Patterns of the values of all keys of the message. Those without a meaning in a server
# of one process are checked and ignored.
_VALUES = {
    "max_batch_size": _POSITIVE,
    "batch_timeout_micros": r"[0-9]{1,19}",
    "max_enqueued_batches": _POSITIVE,
    "num_batch_threads": _POSITIVE,
    "allowed_batch_sizes": _POSITIVE,
    _PADDING: _FLAG,
    "enable_large_batch_splitting": _FLAG,
    "max_execution_batch_size": _POSITIVE,
    "thread_pool_name": r".*",
}
_IN_VERSIONS = "batching_params.pbtxt"
# TF Serving selects log collectors by name, but its releases include none.
_COLLECTOR = "tfrecord"


def read_models(file: Path) -> list[ModelSettings]:
    """Reads a `model.config` file.

    Args:
        file: A `ModelServerConfig` in text format.

    Raises:
        ConfigError: The file cannot be read, or uses a feature that is not supported
            here.
    """
    config = config_pb2.ModelServerConfig()
    try:
        text_format.Parse(_text(file), config)
    except text_format.ParseError as error:
        raise ConfigError(
            f"{file}:{error}; expected a model_config_list of TF Serving: "
            'model_config_list { config { name: "demo" base_path: "/models/demo" '
            'model_platform: "tensorflow" } }'
        ) from None
    try:
        return parse_models(config)
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None


def parse_models(config: config_pb2.ModelServerConfig) -> list[ModelSettings]:
    """Converts a `ModelServerConfig` to model settings.

    Args:
        config: The configuration, read from a file or received in a reload request.

    Raises:
        ConfigError: The configuration has no models, or uses a feature that is not
            supported here.
    """
    if config.WhichOneof("config") != "model_config_list":
        raise ConfigError("there is no model_config_list, the only kind that is served")
    return [_settings(model) for model in config.model_config_list.config]


def _settings(model: config_pb2.ModelConfig) -> ModelSettings:
    if not model.name or not model.base_path:
        raise ConfigError(f"a model needs a name and a base_path: {model}")
    if model.model_platform not in ("", "tensorflow"):
        raise ConfigError(
            f"{model.name}: model_platform is {model.model_platform!r}; expected "
            "'tensorflow'"
        )
    try:
        log = _log(model.logging_config) if model.HasField("logging_config") else None
    except ConfigError as error:
        raise ConfigError(f"{model.name}: logging_config: {error}") from None
    return ModelSettings(
        model.name,
        Path(model.base_path),
        _policy(model),
        dict(model.version_labels),
        log,
    )


def _log(config: logging_config_pb2.LoggingConfig) -> LogSettings:
    collector, sampling = config.log_collector_config, config.sampling_config
    if collector.type not in ("", _COLLECTOR):
        raise ConfigError(
            f"log_collector_config has the type {collector.type!r}; expected "
            f"{_COLLECTOR!r}, which writes PredictionLogs into files"
        )
    if not collector.filename_prefix:
        raise ConfigError(
            "log_collector_config has no filename_prefix, such as '/logs/requests'"
        )
    if config.HasField("custom_logging_config") or sampling.per_task_sampling_configs:
        raise ConfigError(
            "only log_collector_config, and sampling_config with a sampling_rate, are "
            "known here"
        )
    # TF Serving's default rate is 0, which logs nothing and cannot be intended.
    if not config.HasField("sampling_config") or not 0 <= sampling.sampling_rate <= 1:
        raise ConfigError(
            "expected a sampling_config with a sampling_rate from 0 to 1, the share of "
            "requests to write"
        )
    return LogSettings(collector.filename_prefix, sampling.sampling_rate)


def _policy(model: config_pb2.ModelConfig) -> Policy:
    policy = model.model_version_policy
    match policy.WhichOneof("policy_choice"):
        case "all":
            return Policy(latest=None)
        case "specific":
            if not policy.specific.versions:
                raise ConfigError(f"{model.name}: specific has no versions")
            return Policy(specific=frozenset(policy.specific.versions))
        case _:
            return Policy(latest=policy.latest.num_versions or 1)


def read_batching(file: Path) -> BatchingParameters:
    """Reads a `batching_parameters.txt` file.

    Args:
        file: TF Serving's `BatchingParameters` in text format.

    Raises:
        ConfigError: The file cannot be read, a key is unknown, a value is invalid, or
            padding is enabled, which would change a Transformer's predictions.
    """
    text = re.sub(r"#.*", "", _text(file))
    if rest := _FIELD.sub("", text).strip(" \t\r\n,;"):
        raise ConfigError(
            f"{file}: cannot read {rest.split()[0]!r}; expected lines such as "
            "max_batch_size { value: 32 }"
        )
    found: dict[str, Any] = {}
    for name, wrapped, plain in _FIELD.findall(text):
        value = wrapped or plain.rstrip(",;")
        if name not in _VALUES:
            raise ConfigError(
                f"{file}: {name}: unknown; expected one of {', '.join(_VALUES)}"
            )
        if not re.fullmatch(_VALUES[name], value):
            raise ConfigError(f"{file}: {name}: {value!r} makes no sense")
        if name == "allowed_batch_sizes":
            found[name] = (*found.get(name, ()), int(value))
        elif name in BatchingParameters.__dataclass_fields__:
            found[name] = int(value)
        elif name == _PADDING and value.lower() == "true":
            raise ConfigError(
                f"{file}: {_PADDING}: true would fill short rows up with their own "
                "first element, masks included, and change what a Transformer answers. "
                "Leave it out: rows of one length are put together here"
            )
    parameters = BatchingParameters(**found)
    sizes = parameters.allowed_batch_sizes
    if sizes and (
        list(sizes) != sorted(set(sizes)) or sizes[-1] != parameters.max_batch_size
    ):
        raise ConfigError(
            f"{file}: allowed_batch_sizes: {list(sizes)}; expected them to rise and to "
            f"end with max_batch_size, {parameters.max_batch_size}"
        )
    return parameters


def parse_batching(folder: Path, common: BatchingParameters) -> BatchingParameters:
    """Reads a version folder's batching parameters; disables batching without a file.

    Args:
        folder: The version folder.
        common: Batching parameters of the server. As in TF Serving, only
            `num_batch_threads` is copied to the version's parameters.

    Raises:
        StatusError: The file is invalid; see `read_batching`.
    """
    file = folder / _IN_VERSIONS
    if not file.exists():
        return replace(common, enabled=False)
    try:
        read = read_batching(file)
    except ConfigError as error:
        raise invalid(str(error)) from None
    return replace(read, num_batch_threads=common.num_batch_threads)


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read: {error}") from None
