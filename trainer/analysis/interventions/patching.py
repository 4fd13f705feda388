"""Activation patching between two texts: where the answer of one comes from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import pyarrow as pa

from transbeam.configs.base.errors import ConfigError, DataError
from transbeam.configs.schema.objectives.language_modeling import (
    CausalConfig,
    PrefixConfig,
)
from transbeam.model.inspect.activation_patching import (
    LogitDifference,
    PatchingEffects,
    patch_activations,
)
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.trainer.analysis.base.analysis_context import AnalysisContext
from transbeam.trainer.analysis.base.analysis_part import AnalysisPart
from transbeam.trainer.analysis.base.heat_maps import draw_heat_map
from transbeam.trainer.analysis.base.piece_labels import make_label
from transbeam.trainer.analysis.base.text_reading import find_frame

Inputs = dict[str, np.ndarray]

# By the table's word for it, the ending of the activations' paths.
_ACTIVATIONS = {
    "block": "/output",
    "self_attention": "/self_attention_residual/update",
    "feedforward": "/feedforward_residual/update",
}


_POSITIONS = pa.schema(
    {
        "layer": pa.string(),
        "activation": pa.string(),
        "position": pa.int32(),
        "clean_piece": pa.string(),
        "corrupted_piece": pa.string(),
        "effect": pa.float64(),
    }
)
_HEADS = pa.schema({"layer": pa.string(), "head": pa.int32(), "effect": pa.float64()})


def analyze_patching(
    context: AnalysisContext, *, clean: str, corrupted: str, right: str, wrong: str
) -> AnalysisPart:
    """Patches the activations of a clean text into the run of a corrupted one.

    Args:
        context: The run's model: a decoder, of which the next token at the texts' end
            is asked, or a masked language model, of which the token at the texts' one
            mask is.
        clean: A text after which the model prefers `right`.
        corrupted: A text of as many tokens after which it prefers `wrong`.
        right: The right answer, one token.
        wrong: The wrong answer, one token.

    Returns:
        The part `patching`. The tables `positions` (`layer`, `activation`, `position`,
        `clean_piece`, `corrupted_piece`, `effect`) and `heads` (`layer`, `head`,
        `effect`) have the share of the difference between the two texts that each
        patch restores: 1 for the clean answer, 0 for no change.

    Raises:
        ConfigError: The model predicts no token.
        DataError: The texts have different numbers of tokens or no mask, or an answer
            is not a token.

    References:
        - [Zhang & Nanda, 2023](https://arxiv.org/abs/2309.16042), section 2
    """
    reader = _find_reader(context)
    answers = [_find_token(context.tokenizer, word) for word in (right, wrong)]
    texts = reader.read(clean), reader.read(corrupted)
    pieces = [_find_pieces(context.tokenizer, inputs) for inputs in texts]
    difference = reader.build_difference(*answers)
    _check_lengths(*pieces)
    found = {
        name: patch_activations(difference, texts[0], texts[1], ending)
        for name, ending in _ACTIVATIONS.items()
        if name != "feedforward" or context.config.model.has_feedforward
    }
    heads = patch_activations(difference, texts[0], texts[1], "/heads", "head")
    columns = _label_columns(*pieces)
    return AnalysisPart(
        name="patching",
        title="Activation patching",
        summary=_summarize(found["block"], heads, columns, right, wrong),
        numbers={
            "clean": clean,
            "corrupted": corrupted,
            "right": right,
            "wrong": wrong,
            "clean_difference": heads.clean,
            "corrupted_difference": heads.corrupted,
        },
        tables={
            "positions": _make_position_table(found, *pieces),
            "heads": _make_head_table(heads),
        },
        figures={
            **{
                name: draw_heat_map(
                    effects.effects,
                    effects.layers,
                    columns,
                    across="token (clean → corrupted)",
                    meaning="restored share of the difference",
                )
                for name, effects in found.items()
            },
            "heads": draw_heat_map(
                heads.effects,
                heads.layers,
                [str(head) for head in range(heads.effects.shape[1])],
                across="head",
                meaning="restored share of the difference",
            ),
        },
    )


@dataclass(frozen=True)
class PromptReader:
    """Makes the inputs of one text, and reads the logits of its prediction.

    Attributes:
        model: A decoder or a masked language model.
        tokenizer: Its tokenizer.
        frame: Ids before and after a text.
        longest: The model's largest number of tokens.
        mask: The id of the token to predict; None for the token behind the text.
    """

    model: keras.Model
    tokenizer: Tokenizer
    frame: tuple[list[int], list[int]]
    longest: int
    mask: int | None

    def read(self, text: str) -> Inputs:
        """Tokenizes a text: the model's inputs, `(1, T)` each.

        Raises:
            DataError: The text is too long, or it has not one mask.
        """
        before, after = self.frame
        ids = np.array([[*before, *self._tokenize(text), *after]], np.int32)
        if not 0 < ids.shape[1] <= self.longest:
            raise DataError(
                f"{text!r}: has {ids.shape[1]} tokens; expected 1 to {self.longest}, "
                "the model's longest"
            )
        ones = np.ones_like(ids)
        places = np.argwhere(ids == self.mask)[:, 1:].T.astype(np.int32)
        known = {
            "token_ids": ids,
            "padding_mask": ones,
            "prefix_mask": ones,
            "segment_ids": 0 * ones,
            "masked_positions": places,
        }
        return {name: known[name] for name in self.model.input}

    def _tokenize(self, text: str) -> list[int]:
        if self.mask is None:
            return self.tokenizer.tokenize([text]).flat_values.numpy().tolist()
        piece = self.tokenizer.pieces[self.mask]
        parts = text.split(piece)
        if len(parts) != 2:
            raise DataError(
                f"{text!r}: has {len(parts) - 1} masks; expected one token {piece}, of "
                "which the model says what stands there"
            )
        # A mask takes the space before it along.
        tokens = self.tokenizer.tokenize([parts[0].rstrip(), parts[1]]).to_list()
        return [*tokens[0], self.mask, *tokens[1]]

    def build_difference(self, right: int, wrong: int) -> LogitDifference:
        """Builds the function from inputs to the difference of two tokens' logits."""

        def difference(inputs: Mapping[str, Any]) -> Any:
            logits = self.model(inputs, training=False)["logits"][:, -1]
            return logits[:, right] - logits[:, wrong]

        return difference


def _find_reader(context: AnalysisContext) -> PromptReader:
    config, mask = context.config.model, None
    if "masked_positions" in context.model.input:
        mask = context.tokenizer.special.mask
    elif not isinstance(context.config.objective, CausalConfig | PrefixConfig):
        raise ConfigError(
            f"patching: a model of objective.kind={context.config.objective.kind} "
            "predicts no single token of a text; a decoder or a masked language model "
            "is needed"
        )
    return PromptReader(
        context.model,
        context.tokenizer,
        find_frame(config, context.tokenizer),
        config.max_sequence_length,
        mask,
    )


def _find_token(tokenizer: Tokenizer, word: str) -> int:
    """Finds the token of an answer, as it is within a text."""
    spaced = word if word.startswith(" ") else tokenizer.word_prefix + word
    ids = tokenizer.tokenize([spaced]).flat_values.numpy().tolist()
    if len(ids) != 1 or ids[0] == tokenizer.special.unknown:
        pieces = " ".join(tokenizer.pieces[number] for number in ids)
        raise DataError(
            f"{word!r}: is {pieces or 'nothing'} to the tokenizer; an answer must be a "
            "single token that it knows"
        )
    return ids[0]


def _check_lengths(clean: Sequence[str], corrupted: Sequence[str]) -> None:
    if len(clean) != len(corrupted):
        raise DataError(
            f"the clean text has {len(clean)} tokens ({' '.join(clean)}) and the "
            f"corrupted one {len(corrupted)} ({' '.join(corrupted)}). A patch needs "
            "the same position in both: exchange words for others of as many tokens"
        )


def _find_pieces(tokenizer: Tokenizer, inputs: Inputs) -> list[str]:
    return [tokenizer.pieces[number] for number in inputs["token_ids"][0]]


def _label_columns(clean: Sequence[str], corrupted: Sequence[str]) -> list[str]:
    pairs = zip(map(make_label, clean), map(make_label, corrupted), strict=True)
    return [one if one == other else f"{one} → {other}" for one, other in pairs]


def _make_position_table(
    found: Mapping[str, PatchingEffects], clean: Sequence[str], corrupted: Sequence[str]
) -> pa.Table:
    rows = [
        {
            "layer": layer,
            "activation": name,
            "position": position,
            "clean_piece": clean[position],
            "corrupted_piece": corrupted[position],
            "effect": effect,
        }
        for name, effects in found.items()
        for layer, values in zip(effects.layers, effects.effects, strict=True)
        for position, effect in enumerate(values.tolist())
    ]
    return pa.Table.from_pylist(rows, _POSITIONS)


def _make_head_table(heads: PatchingEffects) -> pa.Table:
    rows = [
        {"layer": layer, "head": head, "effect": effect}
        for layer, values in zip(heads.layers, heads.effects, strict=True)
        for head, effect in enumerate(values.tolist())
    ]
    return pa.Table.from_pylist(rows, _HEADS)


def _summarize(
    blocks: PatchingEffects,
    heads: PatchingEffects,
    columns: Sequence[str],
    right: str,
    wrong: str,
) -> str:
    layer, head = divmod(int(np.nanargmax(heads.effects)), heads.effects.shape[1])
    below = blocks.effects[:-1] if len(blocks.layers) > 1 else blocks.effects
    block, position = divmod(int(np.nanargmax(below)), below.shape[1])
    return (
        f"Logit of {right!r} minus that of {wrong!r}: {heads.clean:+.3f} after the "
        f"clean text, {heads.corrupted:+.3f} after the corrupted one. Of single heads, "
        f"head {head} of {heads.layers[layer]} restores most of the difference "
        f"({heads.effects[layer, head]:.0%}); of block outputs below the last, "
        f"{blocks.layers[block]} at position {position} ({columns[position]}: "
        f"{below[block, position]:.0%})."
    )
