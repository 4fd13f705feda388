"""The text of a YAML file."""

from pathlib import Path

from transbeam.configs.loader.yaml_nodes import complain


def read_text(path: str | Path) -> str:
    """The text of a YAML file.

    Raises:
        ConfigError: There is none, or it is not UTF-8.
    """
    try:
        # A byte order mark is no part of the text.
        return Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise complain(str(path), "", "there is no such file") from None
    except IsADirectoryError:
        raise complain(str(path), "", "is a folder; a YAML file is needed") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        byte = f"0x{error.object[error.start]:02x}"
        what = f"byte {byte} is not UTF-8; save the file as UTF-8"
        raise complain(f"{path}:{line}", "", what) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise complain(str(path), "", f"cannot be read: {reason}") from None
