"""What Kubernetes calls a model, which has stricter rules than a folder has."""

import re

from transbeam.configs.base.errors import ConfigError

# Kubernetes ends names at 63, and to this one it, Helm and KServe append: `-models`, or
# `-predictor-` and the namespace.
LONGEST = 40
# What YAML takes for something else than text.
NO_TEXT = {"y", "yes", "n", "no", "on", "off", "true", "false", "null"}


def object_name(model: str) -> str:
    """The name of a model's objects: a DNS label (RFC 1035), as a Service must have.

    Capitals become small, and whatever is no letter or digit becomes one `-`; none
    stays at the end.

    Args:
        model: The model's name, such as `Tiny_BERT.v2`.

    Example:
    >>> object_name("Tiny_BERT.v2")
    'tiny-bert-v2'

    Raises:
        ConfigError: It would begin with a digit, be too long, or mean something in
            YAML.
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
