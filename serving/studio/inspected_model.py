"""A trained model whose attention can be seen, text by text."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from transbeam.configs.base.templates import fill_template
from transbeam.configs.schema.objectives.objective import TextPairObjective
from transbeam.configs.schema.objectives.traits import text_templates
from transbeam.model.inspect.attention_statistics import recorded_statistics
from transbeam.model.inspect.flow.attention_rollout import mean_with_residual
from transbeam.model.inspect.token_attention import read_token_attention
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.signatures.base.attention_maps import attention_groups
from transbeam.serving.signatures.pooled import PooledTask
from transbeam.serving.signatures.task_factory import make_signature_task
from transbeam.serving.studio.described_tokens import DescribedToken, TokenDescriber
from transbeam.serving.studio.head_summaries import pool_maps, summarize_heads
from transbeam.serving.studio.run_facts import TARGET, RunFacts
from transbeam.serving.studio.token_rows import without_padding

# Of all maps of one text, as float16: 965 tokens of a BERT-base.
MOST_BYTES = 2**28
# Rows and columns of the small maps.
SMALL = 64


@dataclass(frozen=True)
class TokenRow:
    """A row of tokens that the model reads.

    Attributes:
        name: `text`, or `encoder` and `decoder`.
        texts: The texts of the row, in its order, as the model reads them.
        tokens: The tokens, with special tokens.
    """

    name: str
    texts: Sequence[str]
    tokens: Sequence[DescribedToken]

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "texts": list(self.texts),
            "tokens": [token.as_json() for token in self.tokens],
        }


@dataclass(frozen=True)
class MapGroup:
    """The attention maps of layers with the same queries and keys.

    Attributes:
        name: `attention`, or `encoder_attention`, `decoder_attention` and
            `cross_attention`.
        queries: Index of the row that the queries are from.
        keys: Index of the row that the keys are from.
        paths: Path of each layer, such as `encoder_layer_0/self_attention`.
        maps: float16 `(H, T, S)` of each layer.
        summaries: float32 `(H,)` by name, of each layer; see `SUMMARIES`.
    """

    name: str
    queries: int
    keys: int
    paths: Sequence[str]
    maps: Sequence[np.ndarray]
    summaries: Sequence[Mapping[str, np.ndarray | None]]

    def small_maps(self) -> np.ndarray:
        """Returns all maps in a size for small pictures: float16 `(L, H, T', S')`."""
        return np.stack([pool_maps(maps, SMALL) for maps in self.maps])

    def flow_maps(self) -> np.ndarray:
        """Returns where the vectors of each layer come from: float16 `(L, T, T)`.

        Half of a token's vector is its own, through the residual connection, and half
        is what it attends to, as a mean over heads; see `mean_with_residual`.
        """
        mixed = [mean_with_residual(maps[None])[0] for maps in self.maps]
        return np.stack([np.asarray(layer, np.float16) for layer in mixed])

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "queries": self.queries,
            "keys": self.keys,
            "small": list(pool_maps(self.maps[0], SMALL).shape[1:]),
            "layers": [
                {
                    "path": path,
                    "heads": maps.shape[0],
                    "summaries": {
                        name: None if values is None else np.round(values, 5).tolist()
                        for name, values in summaries.items()
                    },
                }
                for path, maps, summaries in zip(
                    self.paths, self.maps, self.summaries, strict=True
                )
            ],
        }


@dataclass(frozen=True)
class Inspection:
    """A model's attention on one text.

    Attributes:
        inputs: The model's inputs, of one row.
        rows: The rows of tokens.
        groups: The attention maps.
        truncated: Whether a text was cut.
        limit: The maximum number of tokens of a row that are shown.
    """

    inputs: Mapping[str, np.ndarray]
    rows: Sequence[TokenRow]
    groups: Sequence[MapGroup]
    truncated: bool
    limit: int

    @property
    def bytes(self) -> int:
        """Bytes of all maps."""
        return sum(maps.nbytes for group in self.groups for maps in group.maps)

    def as_json(self) -> dict[str, Any]:
        return {
            "rows": [row.as_json() for row in self.rows],
            "groups": [group.as_json() for group in self.groups],
            "truncated": self.truncated,
            "limit": self.limit,
        }


class InspectedModel:
    """A trained model in float32, with one text per row.

    Args:
        facts: Facts of the run.
        trained: The run's model and tokenizer.

    Attributes:
        model: The model.
        describer: Describes its tokens.
        limit: The largest number of tokens of a row.
    """

    def __init__(self, facts: RunFacts, trained: TrainedRun):
        self._facts = facts
        self.model: keras.Model = trained.model
        task = make_signature_task(trained)
        self._reader: Any = task.inputs if isinstance(task, PooledTask) else task
        # Not those of the signature `attention`, which only full attention has.
        self._names = [str(spec.name) for spec in task.endpoints()["tokenize"].inputs]
        if facts.config.model.kind == "seq2seq":
            self._names.append(TARGET)
        self.describer = TokenDescriber(trained.tokenizer)
        self.limit = min(facts.config.model.max_sequence_length, most_tokens(facts))

    def inspect(self, texts: Mapping[str, str]) -> Inspection:
        """Computes the attention maps of a text.

        Args:
            texts: A text for each of the run's `inputs`.
        """
        columns = [tf.constant([texts[name]]) for name in self._names]
        padded, truncated = self._reader.read_for_attention(
            *columns, longest=self.limit
        )
        inputs = without_padding(padded)
        rows = {}
        for side, row_texts in self._row_texts(texts).items():
            ids = inputs[f"{side}token_ids"][0].tolist()
            tokens = self.describer.describe(ids, row_texts)
            rows[side] = TokenRow(side.rstrip("_") or "text", row_texts, tokens)
        # Masked positions, which only the head of a masked model reads.
        unread = {name: np.zeros((1, 1), np.int32) for name in self.model.input}
        inputs = unread | inputs
        with recorded_statistics(self.model, inputs) as statistics:
            seen = read_token_attention(self.model, inputs)
        return Inspection(
            inputs=inputs,
            rows=list(rows.values()),
            groups=_groups(seen, statistics, rows, inputs),
            truncated=bool(truncated[0]),
            limit=self.limit,
        )

    def _row_texts(self, texts: Mapping[str, str]) -> dict[str, list[str]]:
        """Returns the texts of each row, by the prefix of the row's inputs."""
        objective = self._facts.config.objective
        source = [texts[name] for name in self._names]
        if isinstance(objective, TextPairObjective):
            source = [fill_template(text_templates(objective)[0], texts)]
        if self._facts.config.model.kind != "seq2seq":
            return {"": source}
        return {"encoder_": source[:1], "decoder_": [texts[TARGET]]}


def most_tokens(facts: RunFacts) -> int:
    """Returns the length at which the maps of a text have `MOST_BYTES`.

    Args:
        facts: Facts of the run.
    """
    model = facts.config.model
    layers = model.num_layers
    if model.kind == "seq2seq":
        layers += 2 * model.decoder_layers
    bytes_per_pair = 2 * layers * model.attention.num_heads
    return int((MOST_BYTES / bytes_per_pair) ** 0.5)


def _groups(
    seen: Mapping[str, Any],
    statistics: Mapping[str, Mapping[str, Any]],
    rows: Mapping[str, TokenRow],
    inputs: Mapping[str, np.ndarray],
) -> list[MapGroup]:
    found = []
    sides = list(rows)
    for name, group in attention_groups(inputs).items():
        numbers = {
            path: int(match[1])
            for path in seen
            if (match := re.fullmatch(group.path, path))
        }
        paths = sorted(numbers, key=lambda path: numbers[path])
        whole = [np.asarray(seen[path], np.float32)[0] for path in paths]
        texts = []
        if group.queries == group.keys:
            texts = [token.text for token in rows[group.queries].tokens]
        found.append(
            MapGroup(
                name=name,
                queries=sides.index(group.queries),
                keys=sides.index(group.keys),
                paths=paths,
                maps=[maps.astype(np.float16) for maps in whole],
                summaries=[
                    summarize_heads(statistics[path], maps, texts)
                    for path, maps in zip(paths, whole, strict=True)
                ],
            )
        )
    return found
