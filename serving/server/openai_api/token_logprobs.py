"""Log-probabilities of generated tokens and of prompts, from `logits_ids`."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from transbeam.serving.server.base.deadline import Deadline
from transbeam.serving.server.inference.token_scores import (
    DECODER,
    SIGNATURE,
    best_tokens,
    check_scores_size,
    scored_inputs,
)
from transbeam.serving.server.openai_api.openai_errors import unsupported
from transbeam.serving.server.openai_api.token_texts import TokenTexts
from transbeam.serving.server.request_handling.service import HeldVersion, Service

# In place of the logarithm of 0, which JSON has no number for.
_LEAST = -9999.0


@dataclass(frozen=True)
class TokenLogprob:
    """A token and its log-probability.

    Attributes:
        text: The text that the token adds, which may be a part of a character.
        logprob: In nats; None for the first token of a text, which follows nothing.
        alternatives: The most probable tokens at its place with their
            log-probabilities, the best first.
    """

    text: bytes
    logprob: float | None
    alternatives: Sequence[tuple[bytes, float]] = ()


class LogprobFinder:
    """Computes log-probabilities in a second run over the whole text.

    Args:
        service: Runs the signature.
        held: The version.
        tokens: The texts of the version's tokens.
        num_alternatives: The number of alternatives of each token.
        deadline: The deadline of the request.
    """

    def __init__(
        self,
        service: Service,
        held: HeldVersion,
        tokens: TokenTexts,
        num_alternatives: int,
        deadline: Deadline,
    ):
        self._service = service
        self._held = held
        self._tokens = tokens
        self._num_alternatives = num_alternatives
        self._deadline = deadline
        signature = held.loaded.signatures.get(SIGNATURE)
        if signature is None:
            raise unsupported(
                "logprobs", f"the model has no signature {SIGNATURE} to compute them"
            )
        self._names = frozenset(signature.dtypes)

    async def of_generated(
        self, prompt: np.ndarray, new: np.ndarray
    ) -> list[TokenLogprob]:
        """Computes the log-probabilities of generated tokens.

        Args:
            prompt: int32 (P,).
            new: int32 (N,).

        Raises:
            StatusError: The text is too long.
        """
        if not len(new):
            return []
        inputs, start = scored_inputs(self._names, prompt, new, self._tokens.first)
        check_scores_size(inputs, self._tokens.vocabulary_size)
        scored = await self._service.predict_held(
            self._held,
            SIGNATURE,
            inputs,
            ("logits",),
            self._deadline,
            is_recorded=False,
        )
        logits = scored.outputs["logits"][0, start : start + len(new)]
        return await asyncio.to_thread(self._described, logits, new, prompt)

    async def of_whole(self, prompt: np.ndarray, new: np.ndarray) -> list[TokenLogprob]:
        """Computes the log-probabilities of a prompt and the tokens after it.

        Args:
            prompt: int32 (P,), at least one token.
            new: int32 (N,).

        Raises:
            StatusError: The model does not read its prompt from left to right, or the
                text is too long.
        """
        if self._names != DECODER:
            raise unsupported("echo", "only causal models have scores of their prompts")
        first = prompt[:1]
        ((text,),) = self._tokens.token_texts(first, first[:, np.newaxis])
        rest = np.concatenate([prompt[1:], new])
        return [TokenLogprob(text, None), *await self.of_generated(first, rest)]

    def _described(
        self, logits: np.ndarray, chosen: np.ndarray, before: np.ndarray
    ) -> list[TokenLogprob]:
        """Describes N tokens, given the scores (N, V) at their places."""
        best = [best_tokens(row, self._num_alternatives) for row in logits]
        listed = np.column_stack([chosen, np.stack(best)]).astype(np.int64)  # (N, 1+K)
        # Of float16 exports: sums of many small shares need more digits.
        shifted = logits.astype(np.float32) - logits.max(axis=1, keepdims=True)
        total = np.log(np.exp(shifted).sum(axis=1, keepdims=True, dtype=np.float64))
        logprobs = np.take_along_axis(shifted, listed, axis=1) - total
        # A model for an encoder-decoder's output has no text before it.
        context = before.tolist() if self._names >= DECODER else []
        texts = self._tokens.token_texts(chosen, listed, context)
        found = []
        for row, numbers in zip(texts, logprobs.tolist(), strict=True):
            (text, *others), (own, *rest) = row, [max(_LEAST, n) for n in numbers]
            pairs = zip(others, rest, strict=True)
            found.append(TokenLogprob(text, own, tuple(pairs)))
        return found
