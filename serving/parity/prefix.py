"""Parity of exported prefix language models with Keras."""

from itertools import takewhile

import numpy as np

from transbeam.serving.parity.generation import (
    ExpectedGeneration,
    GenerationParityChecker,
)


class PrefixParityChecker(GenerationParityChecker):
    """Checks prefix language models: the given tokens are the prefix."""

    def _inputs(
        self, one: ExpectedGeneration, row: np.ndarray, given: int
    ) -> dict[str, np.ndarray]:
        prefix = (np.arange(len(row)) < given).astype(np.int32)
        inputs = super()._inputs(one, row, given)
        return {**inputs, "prefix_mask": prefix[np.newaxis]}

    def _scored(self, one: ExpectedGeneration, target: str) -> tuple[np.ndarray, int]:
        special = self.trained.tokenizer.special
        own, both = self._tokens(one.texts[0]), self._tokens(one.texts[0] + target)
        pairs = zip(own, both, strict=False)
        common = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
        longest = self.trained.config.model.max_sequence_length
        after = [*both[common:], special.end][: longest - 1]
        begin = [special.begin] if special.begin not in (None, special.end) else []
        before = [*begin, *both[:common]] or [special.end]
        before = before[-(longest - len(after)) :]
        return np.array([*before, *after]), len(before)
