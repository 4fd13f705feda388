"""Reads a checkpoint's `config.json`, and raises errors for unsupported settings.

Ignoring a setting would produce a slightly wrong model.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from transbeam.configs.base.atomic_files import refuse_lfs_pointer
from transbeam.configs.base.errors import ArtifactError

T = TypeVar("T")

# Upper bound of any size of a tensor.
_LARGEST = 2**31 - 1


class HFConfig:
    """The keys of a `config.json`, with typed access.

    A null counts as a missing key, as in Hugging Face's classes.

    Args:
        values: The keys.
        where: Path of the file, for error messages.

    Example:
    >>> settings = HFConfig({"hidden_act": "gelu"}, "config.json")
    >>> settings.choice("hidden_act", {"gelu": "gelu", "gelu_new": "gelu_tanh"})
    'gelu'
    >>> settings.integer("hidden_size")
    Traceback (most recent call last):
    ArtifactError: config.json: hidden_size is missing, ...
    """

    def __init__(self, values: Mapping[str, Any], where: str):
        self.values = {k: v for k, v in values.items() if v is not None}
        self.where = where

    @classmethod
    def of_file(cls, path: Path) -> "HFConfig":
        """Reads a file.

        Raises:
            ArtifactError: The file does not exist, or is not a JSON object.
        """
        refuse_lfs_pointer(path)
        try:
            values = json.loads(path.read_bytes())
        except FileNotFoundError:
            raise ArtifactError(
                f"{path}: no such file. Fetch the checkpoint again, with all its files"
            ) from None
        except OSError as error:
            raise ArtifactError(f"{path}: cannot be read ({error.strerror})") from error
        except (ValueError, RecursionError) as error:
            raise ArtifactError(f"{path}: is not JSON ({error})") from error
        if not isinstance(values, dict):
            raise ArtifactError(f"{path}: is no JSON object")
        return cls(values, str(path))

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def integer(self, key: str, default: int | None = None, minimum: int = 1) -> int:
        """Reads an integer; the default if the key is missing."""
        expected = f"a whole number of at least {minimum}"
        value = self._value(key, default, expected)
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise self.refusal(key, expected)
        if value > _LARGEST:
            raise self.refusal(key, f"at most {_LARGEST:,}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """Reads a number; the default if the key is missing."""
        value = self._value(key, default, "a number")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.refusal(key, "a number")
        # JSON has no infinity, but Python parses one, and parses 1e999 as one.
        if not abs(value) <= sys.float_info.max:
            raise self.refusal(key, "a finite number")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """Reads a bool; the default if the key is missing."""
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise self.refusal(key, "true or false")
        return value

    def choice(self, key: str, known: Mapping[str, T], default: str | None = None) -> T:
        """Maps a value in a Hugging Face config to the value in our config."""
        value = self._value(key, default, f"one of {', '.join(known)}")
        if not isinstance(value, str) or value not in known:
            raise self.refusal(key, f"one of {', '.join(known)}")
        return known[value]

    def only(self, key: str, value: Any, default: Any = None) -> None:
        """Checks a setting for which our models support only one value.

        Args:
            key: The setting.
            value: The supported value.
            default: The default that applies if a config lacks the setting; None for
                `value`.
        """
        default = value if default is None else default
        if self.values.get(key, default) != value:
            raise self.refusal(key, f"{value!r}, the only one that our models do")

    def section(self, key: str) -> "HFConfig":
        """The settings below a key; empty if it is missing."""
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self.refusal(key, "a JSON object")
        return HFConfig(value, f"{self.where}: {key}")

    def refusal(self, key: str, expected: str) -> ArtifactError:
        """Makes the exception for an unsupported setting."""
        found = _shortened(shown(self.values.get(key, "nothing")))
        return ArtifactError(f"{self.where}: {key} is {found}, expected {expected}")

    def _value(self, key: str, default: Any, expected: str) -> Any:
        value = self.values.get(key, default)
        if value is None:
            raise ArtifactError(f"{self.where}: {key} is missing, expected {expected}")
        return value


def shown(value: Any) -> str:
    """Formats a value for a message: as JSON if it contains an object, else as Python.

    Example:
    >>> shown({"rope_type": "llama3", "low": None}), shown("a"), shown(True)
    ('{"rope_type": "llama3", "low": null}', "'a'", 'True')
    """
    parts = value if isinstance(value, list) else [value]
    if any(isinstance(part, dict) for part in parts):
        return json.dumps(value, ensure_ascii=False)
    return repr(value)


def _shortened(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:117]}..."


Activation = Literal["gelu", "gelu_tanh", "relu", "silu"]

# Hugging Face's names of activations, and ours.
ACTIVATIONS: dict[str, Activation] = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
# The inverse.
THEIR_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_tanh": "gelu_new",
    "relu": "relu",
    "silu": "silu",
}
