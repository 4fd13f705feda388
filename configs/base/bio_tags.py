"""Entity tags such as O and B-PER, in the common tagging schemes.

| scheme | one word | first | between | last |
|---|---|---|---|---|
| IOB1, IOB2 (BIO) | B, I | B, I | I | I |
| IOBES (BIOES) | S | B | I | E |
| BILOU (spaCy) | U | B | I | L |
| BMES (Chinese) | S | B | M | E |
| BMEWO | W | B | M | E |

A type may follow after a hyphen or an underscore (`B-PER`, `B_PER`), or precede it
(`PER-B`).
"""

import re
from dataclasses import dataclass
from functools import cached_property

OUTSIDE = "O"
_PLACES = "BIESMLUW"
_PREFIX = re.compile(rf"(?P<place>[{_PLACES}])(?:[-_](?P<type>.*))?", re.DOTALL)
_SUFFIX = re.compile(rf"(?P<type>.+)[-_](?P<place>[{_PLACES}])", re.DOTALL)
_LIKE_A_PREFIX = re.compile(rf"(?P<place>[{_PLACES}])[-_:./ |].+", re.IGNORECASE)
# Prefixes that count as entity tags even if no type follows and no B occurs. Other
# single letters are then more likely labels of another kind.
_ALONE = set("BIES")


def marks_entities(labels: tuple[str, ...]) -> bool:
    """Checks that labels are entity tags (O and tags such as B-PER).

    Example:
    >>> marks_entities(("O", "B-PER", "I-PER")), marks_entities(("NOUN", "X"))
    (True, False)
    >>> marks_entities(("O", "U_PER", "B_PER", "L_PER")), marks_entities(("M", "L"))
    (True, False)
    """
    return bool(_parts(labels))


def invalid_entity_tags(labels: tuple[str, ...]) -> tuple[str, ...]:
    """Labels that prevent a set of labels from being read as entity tags.

    Example:
    >>> invalid_entity_tags(("O", "B-PER", "I-PER", "X"))
    ('X',)
    >>> invalid_entity_tags(("o", "b-per", "i-per"))
    ('o', 'b-per', 'i-per')
    >>> invalid_entity_tags(("O", "B-PER")), invalid_entity_tags(("NOUN", "X"))
    ((), ())
    """
    looking = [m for label in labels if (m := _LIKE_A_PREFIX.fullmatch(label))]
    places = {found["place"].upper() for found in looking}
    if marks_entities(labels) or "B" not in places or len(places) < 2:
        return ()
    return tuple(
        label for label in labels if label != OUTSIDE and not _PREFIX.fullmatch(label)
    )


def _parts(labels: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    """Prefix and type of each tag except O; empty if some tag has no valid prefix."""
    marked = [label for label in labels if label != OUTSIDE]
    for form in (_PREFIX, _SUFFIX):
        found = [form.fullmatch(label) for label in marked]
        parts = [(m["place"], m["type"]) for m in found if m is not None]
        alone = {place for place, kind in parts if kind is None}
        if len(parts) == len(marked) and (alone <= _ALONE or "B" in alone):
            parts = [(place, kind or "") for place, kind in parts]
            return dict(zip(marked, parts, strict=True))
    return {}


@dataclass(frozen=True)
class EntityTags:
    """Entity type and boundary flags of each tag, in the order of the labels.

    Args:
        labels: The tags, for which `marks_entities` is true.

    Example:
    >>> tags = EntityTags(("O", "B-PER", "I-PER", "S-LOC"))
    >>> tags.types
    ('LOC', 'PER')
    >>> tags.type_of, tags.opens, tags.closes
    ([-1, 1, 1, 0], [False, True, False, True], [False, False, False, True])
    """

    labels: tuple[str, ...]

    @cached_property
    def _parts(self) -> dict[str, tuple[str, str]]:
        return _parts(self.labels)

    @cached_property
    def types(self) -> tuple[str, ...]:
        """Entity types, in alphabetical order."""
        return tuple(sorted({kind for _, kind in self._parts.values()}))

    @cached_property
    def type_of(self) -> list[int]:
        """For each tag, the index of its entity type; -1 for O."""
        return [
            -1 if tag == OUTSIDE else self.types.index(self._parts[tag][1])
            for tag in self.labels
        ]

    @cached_property
    def opens(self) -> list[bool]:
        """True for tags that start an entity, whatever the previous tag."""
        return self._are_at("BSUW")

    @cached_property
    def closes(self) -> list[bool]:
        """True for tags that end an entity."""
        return self._are_at("ELSUW")

    def _are_at(self, places: str) -> list[bool]:
        return [tag != OUTSIDE and self._parts[tag][0] in places for tag in self.labels]
