"""Tokenizer rules: begin and end tokens, added tokens, chat template.

Hugging Face checkpoints contain such rules in `config.json`, `generation_config.json`
and `tokenizer_config.json`. Transbeam stores the rules with the tokenizer, as they
affect the token ids of texts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from transbeam.configs.base.errors import ArtifactError
from transbeam.pipeline.tokenizers.base.interface import SpecialIds

CHAT_TEMPLATE_FILE = "chat_template.jinja"


@dataclass(frozen=True, kw_only=True)
class Framing:
    """Rules of a tokenizer that its vocabulary does not contain.

    Attributes:
        add_begin: Whether a begin token is prepended to documents.
        stop_ids: Ids of further tokens that end generation, like the end token; the
            generated text does not contain them.
        whole_pieces: Added tokens, which are matched in a text before it is tokenized.
        folded_pieces: Added tokens that are matched case-insensitively.
        chat_template: The Jinja template that formats a conversation as one text, as in
            Hugging Face; None if there is none.
    """

    add_begin: bool = True
    stop_ids: tuple[int, ...] = ()
    whole_pieces: tuple[str, ...] = ()
    folded_pieces: tuple[str, ...] = ()
    chat_template: str | None = None

    def apply(self, special: SpecialIds) -> SpecialIds:
        """Applies `add_begin` and `stop_ids` to the special ids of a vocabulary.

        Example:
        >>> llama = SpecialIds(pad=2, unknown=0, begin=1, end=2)
        >>> used = Framing(add_begin=False, stop_ids=(13, 2)).apply(llama)
        >>> used.begin, used.ends
        (None, (2, 13))
        """
        begin = special.begin if self.add_begin else None
        stop = tuple(i for i in self.stop_ids if i != special.end)
        return replace(special, begin=begin, stop=stop)

    @property
    def found_whole(self) -> tuple[str, ...]:
        """All added tokens."""
        return (*self.whole_pieces, *self.folded_pieces)

    def check(self, pieces: Sequence[str], where: str) -> None:
        """Raises an ArtifactError if a rule refers to an unknown piece or id."""
        num_pieces = len(pieces)
        if strange := sorted({*self.found_whole} - {*pieces}):
            raise ArtifactError(
                f"{where}: {strange[0]!r} is to be found whole in a text, and is none "
                f"of the {num_pieces:,} pieces. Make the tokenizer again"
            )
        if wrong := [i for i in self.stop_ids if not 0 <= i < num_pieces]:
            raise ArtifactError(
                f"{where}: {wrong[0]} is to end a text, expected ids of the "
                f"{num_pieces:,} pieces. Make the tokenizer again"
            )

    def with_new_ids(self, old_ids: tuple[int, ...]) -> "Framing":
        """Converts the ids in the rules to the ids of a reduced vocabulary.

        Args:
            old_ids: The original id of each piece of the reduced vocabulary.

        Example:
        >>> Framing(stop_ids=(13, 7)).with_new_ids((0, 7, 13)).stop_ids
        (2, 1)
        """
        new = {old: i for i, old in enumerate(old_ids)}
        return replace(self, stop_ids=tuple(new[i] for i in self.stop_ids if i in new))

    def options(self) -> dict[str, Any]:
        """Returns the options for `tokenizer.yaml` that differ from their defaults."""
        options: dict[str, Any] = {} if self.add_begin else {"add_begin": False}
        names = ("stop_ids", "whole_pieces", "folded_pieces")
        lists = {name: list(getattr(self, name)) for name in names}
        return options | {name: values for name, values in lists.items() if values}

    def files(self) -> dict[str, bytes]:
        """Returns the file of the chat template, if there is one."""
        if self.chat_template is None:
            return {}
        return {CHAT_TEMPLATE_FILE: self.chat_template.encode()}

    @classmethod
    def read(cls, options: Any, files: Mapping[str, bytes], where: str) -> "Framing":
        """Builds the rules from results of `options` and `files`.

        Raises:
            ArtifactError: The options are invalid.
        """
        options = {} if options is None else options
        lists = {"stop_ids": int, "whole_pieces": str, "folded_pieces": str}
        fine = isinstance(options, dict) and all(
            type(value) is bool
            if key == "add_begin"
            else isinstance(value, list)
            and all(type(each) is lists.get(key) for each in value)
            for key, value in options.items()
        )
        if not fine:
            raise ArtifactError(
                f"{where}: framing is {str(options)[:60]!r}, expected add_begin, "
                f"{', '.join(lists)}. Make the tokenizer again"
            )
        template = files.get(CHAT_TEMPLATE_FILE)
        return cls(
            add_begin=options.get("add_begin", True),
            **{name: tuple(options.get(name, ())) for name in lists},
            chat_template=None if template is None else template.decode(),
        )


PLAIN = Framing()
