"""The inputs of a model: token ids, masks and positions."""

import keras

IDS = ("padding_mask", "document_ids", "position_ids", "prefix_mask")


def ids(name: str) -> keras.KerasTensor:
    """Makes an input of one integer per token: int32 `(B, T)`."""
    return keras.Input((None,), dtype="int32", name=name)


def token_inputs(
    prefix: str = "", *, packed: bool = False
) -> dict[str, keras.KerasTensor]:
    """Makes the inputs of one sequence: token ids, with mask or positions.

    Args:
        prefix: `"encoder_"` or `"decoder_"` in an encoder-decoder.
        packed: If true, rows hold several documents.

    Example:
    >>> list(token_inputs(packed=True))
    ['token_ids', 'document_ids', 'position_ids']
    >>> list(token_inputs("encoder_"))
    ['encoder_token_ids', 'encoder_padding_mask']
    """
    masks = ("document_ids", "position_ids") if packed else ("padding_mask",)
    return {f"{prefix}{name}": ids(f"{prefix}{name}") for name in ("token_ids", *masks)}


def sequence_name(name: str) -> str:
    """Returns the name of the sequence that an input belongs to.

    Example:
    >>> sequence_name("encoder_token_ids"), sequence_name("encoder_padding_mask")
    ('encoder_', 'encoder_')
    >>> sequence_name("token_ids"), sequence_name("image")
    ('', 'image')
    """
    for token_input in ("token_ids", "segment_ids", *IDS):
        if name.endswith(token_input):
            return name.removesuffix(token_input)
    return name


def collect_sequence_info(
    inputs: dict[str, keras.KerasTensor], prefix: str = ""
) -> dict[str, keras.KerasTensor]:
    """Collects masks and positions; see `transbeam.model.layers.sequence_info`."""
    return {
        name: inputs[f"{prefix}{name}"] for name in IDS if f"{prefix}{name}" in inputs
    }
