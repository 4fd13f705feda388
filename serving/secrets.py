"""The token that a server asks for, from a file: arguments can be seen by everybody."""

from pathlib import Path

from configs.errors import ConfigError


def read_token(file: Path | None) -> str | None:
    """Reads a token.

    Args:
        file: Has the token in its one line.

    Raises:
        ConfigError: It cannot be read, or is empty.
    """
    if file is None:
        return None
    try:
        token = file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read: {error}") from None
    if not token:
        raise ConfigError(f"{file}: is empty; expected the token, in one line")
    return token
