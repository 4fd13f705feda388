"""How texts are begun, ended and put into a conversation, beyond a vocabulary.

A checkpoint says it beside its tokenizer: `config.json`, `generation_config.json` and
`tokenizer_config.json`. It is kept with the pieces, for ids mean nothing without them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from configs.errors import ArtifactError
from pipeline.tokenizers.interface import SpecialIds

CHAT_TEMPLATE_FILE = "chat_template.jinja"


@dataclass(frozen=True, kw_only=True)
class Framing:
    """What is said of a tokenizer beside its pieces.

    Attributes:
        add_begin: Whether the piece that begins documents stands before each of them.
        stop_ids: Further ids that end a written text, beside the one that ends
            documents; a text has none of them inside.
        chat_template: The Jinja template that makes one text of a conversation, as
            Hugging Face has it; None if there is none.
    """

    add_begin: bool = True
    stop_ids: tuple[int, ...] = ()
    chat_template: str | None = None

    def apply(self, special: SpecialIds) -> SpecialIds:
        """The special ids of a vocabulary, as they are used.

        Example:
        >>> llama = SpecialIds(pad=2, unknown=0, begin=1, end=2)
        >>> used = Framing(add_begin=False, stop_ids=(13, 2)).apply(llama)
        >>> used.begin, used.ends
        (None, (2, 13))
        """
        begin = special.begin if self.add_begin else None
        stop = tuple(i for i in self.stop_ids if i != special.end)
        return replace(special, begin=begin, stop=stop)

    def check(self, num_pieces: int, where: str) -> None:
        """Raises an ArtifactError if a stop id is of no piece."""
        if wrong := [i for i in self.stop_ids if not 0 <= i < num_pieces]:
            raise ArtifactError(
                f"{where}: {wrong[0]} is to end a text, expected ids of the "
                f"{num_pieces:,} pieces. Make the tokenizer again"
            )

    def with_new_ids(self, old_ids: tuple[int, ...]) -> "Framing":
        """The same for fewer pieces.

        Args:
            old_ids: Of each of the new pieces, the id that it had.

        Example:
        >>> Framing(stop_ids=(13, 7)).with_new_ids((0, 7, 13)).stop_ids
        (2, 1)
        """
        new = {old: i for i, old in enumerate(old_ids)}
        return replace(self, stop_ids=tuple(new[i] for i in self.stop_ids if i in new))

    def options(self) -> dict[str, Any]:
        """What stands in `tokenizer.yaml`: nothing where all is as usual."""
        told: dict[str, Any] = {}
        if not self.add_begin:
            told["add_begin"] = False
        if self.stop_ids:
            told["stop_ids"] = list(self.stop_ids)
        return told

    def files(self) -> dict[str, bytes]:
        """The template, in a file of its own, if there is one."""
        if self.chat_template is None:
            return {}
        return {CHAT_TEMPLATE_FILE: self.chat_template.encode()}

    @classmethod
    def read(cls, options: Any, files: Mapping[str, bytes], where: str) -> "Framing":
        """Reads what `options` and `files` gave.

        Raises:
            ArtifactError: It is none of it.
        """
        options = {} if options is None else options
        known = {"add_begin": bool, "stop_ids": list}
        fine = isinstance(options, dict) and all(
            type(value) is known.get(key) for key, value in options.items()
        )
        stop_ids: list[Any] = options.get("stop_ids", []) if fine else []
        if not fine or any(type(i) is not int for i in stop_ids):
            raise ArtifactError(
                f"{where}: framing is {options!r}, expected add_begin and stop_ids. "
                "Make the tokenizer again"
            )
        template = files.get(CHAT_TEMPLATE_FILE)
        return cls(
            add_begin=options.get("add_begin", True),
            stop_ids=tuple(stop_ids),
            chat_template=None if template is None else template.decode(),
        )


PLAIN = Framing()
