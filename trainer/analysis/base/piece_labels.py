"""Labels of tokens in figures."""

from collections.abc import Iterable

from transbeam.pipeline.tokenizers.base.interface import Tokenizer

_LONGEST = 10


def label_pieces(tokenizer: Tokenizer, token_ids: Iterable[int]) -> list[str]:
    """Returns the pieces of tokens as short labels, in characters that can be drawn.

    Args:
        tokenizer: The tokenizer.
        token_ids: Ids of tokens; one that the tokenizer lacks is shown as a number.
    """
    pieces = tokenizer.pieces
    return [
        make_label(pieces[index] if 0 <= index < len(pieces) else f"#{index}")
        for index in token_ids
    ]


def make_label(piece: str) -> str:
    r"""Shortens a piece, and replaces what matplotlib's font cannot draw.

    Example:
    >>> make_label("the"), make_label("internationally"), make_label("a\n漢")
    ('the', 'internati…', 'a□□')
    """
    from matplotlib.font_manager import findfont, get_font

    glyphs = get_font(findfont("DejaVu Sans")).get_charmap()
    drawn = "".join(
        character if ord(character) in glyphs and character.isprintable() else "□"
        for character in piece
    )
    return drawn if len(drawn) <= _LONGEST else drawn[: _LONGEST - 1] + "…"
