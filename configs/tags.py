"""What tags mean: O, and such as B-PER, which say where entities are."""

from dataclasses import dataclass
from functools import cached_property

OUTSIDE = "O"


def marks_entities(labels: tuple[str, ...]) -> bool:
    """Whether tags are O and such as B-PER, and not parts of speech for example.

    Example:
    >>> marks_entities(("O", "B-PER", "I-PER")), marks_entities(("NOUN", "X"))
    (True, False)
    """
    prefixes = {label.partition("-")[0] for label in labels if label != OUTSIDE}
    return bool(prefixes) and prefixes <= set("BIES")


@dataclass(frozen=True)
class EntityTags:
    """What each tag of IOB1, IOB2 or IOBES says, in the order of the labels.

    Args:
        labels: The tags; `marks_entities` of them.

    Example:
    >>> tags = EntityTags(("O", "B-PER", "I-PER", "S-LOC"))
    >>> tags.types
    ('LOC', 'PER')
    >>> tags.type_of, tags.opens, tags.closes
    ([-1, 1, 1, 0], [False, True, False, True], [False, False, False, True])
    """

    labels: tuple[str, ...]

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The types of entities, in order."""
        return tuple(sorted({_type(tag) for tag in self.labels if tag != OUTSIDE}))

    @cached_property
    def type_of(self) -> list[int]:
        """The place of each tag's type, -1 of O."""
        return [
            -1 if tag == OUTSIDE else self.types.index(_type(tag))
            for tag in self.labels
        ]

    @cached_property
    def opens(self) -> list[bool]:
        """Whether each tag opens an entity, whatever stands before."""
        return [tag[0] in "BS" for tag in self.labels]

    @cached_property
    def closes(self) -> list[bool]:
        """Whether each tag closes one."""
        return [tag[0] in "ES" for tag in self.labels]


def _type(tag: str) -> str:
    return tag.partition("-")[2]
