"""Names of Kubernetes objects, which are stricter than folder names."""

import re

from transbeam.configs.base.errors import ConfigError

# Kubernetes allows 63 characters, and it, Helm and KServe append to this name:
# `-models`, or `-predictor-` and the namespace.
LONGEST = 40
# Words that YAML does not parse as strings.
NO_TEXT = {"y", "yes", "n", "no", "on", "off", "true", "false", "null"}


def object_name(model: str) -> str:
    """Returns the name of a model's objects: a DNS label (RFC 1035) fit for a Service.

    Letters become lowercase, and each run of other characters than letters and digits
    becomes one `-`; leading and trailing ones are dropped.

    Args:
        model: The model's name, such as `Tiny_BERT.v2`.

    Example:
    >>> object_name("Tiny_BERT.v2")
    'tiny-bert-v2'

    Raises:
        ConfigError: The name would begin with a digit, be too long, or not be a string
            in YAML.
    """
    name = re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")
    if not re.match("[a-z]", name) or name in NO_TEXT:
        raise ConfigError(
            f"{model!r} makes {name!r}, which cannot name a Service of Kubernetes: "
            "expected a letter first, and no word of YAML's such as `no`. Give another "
            "name with --name"
        )
    if len(name) > LONGEST:
        raise ConfigError(
            f"{model!r} makes a name of {len(name)} characters for Kubernetes; "
            f"expected at most {LONGEST}, as more is appended. Give a shorter one with "
            "--name"
        )
    return name
