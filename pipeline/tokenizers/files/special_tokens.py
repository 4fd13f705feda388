"""Special tokens of a tokenizer by the names that chat templates use."""

from dataclasses import replace

from transbeam.pipeline.tokenizers.files.tokenizer_folder import TokenizerModel


def special_tokens(model: TokenizerModel) -> dict[str, str]:
    """Returns the special tokens of a tokenizer by their names in chat templates.

    The begin token has its name even if the tokenizer does not add it to texts: it is
    then the template that adds it.

    Args:
        model: The vocabulary and the rules of the tokenizer.

    Returns:
        `bos_token`, `eos_token`, `pad_token`, `unk_token` and `mask_token`, as far as
        the tokenizer has them.

    Example:
    >>> from transbeam.pipeline.tokenizers.wordpiece.wordpiece_model import (
    ...     WordPieceModel,
    ... )
    >>> pieces = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a")
    >>> model = WordPieceModel(pieces=pieces, lowercase=False, strip_accents=False)
    >>> special_tokens(model)["bos_token"]
    '[CLS]'
    """
    special = replace(model, framing=replace(model.framing, add_begin=True)).special
    ids = {
        "bos_token": special.begin,
        "eos_token": special.end,
        "pad_token": special.pad,
        "unk_token": special.unknown,
        "mask_token": special.mask,
    }
    return {name: model.pieces[i] for name, i in ids.items() if i is not None}
