"""Alternatives of generated tokens, from the signature `logits_ids` of an export."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from transbeam.configs.base.errors import UserError
from transbeam.pipeline.tokenizers.files.tokenizer_folder import load_tokenizer
from transbeam.serving.base.trained_run import TOKENIZER
from transbeam.serving.server.base.batched_arrays import Arrays
from transbeam.serving.server.base.deadline import Deadline
from transbeam.serving.server.base.status import invalid
from transbeam.serving.server.inference.token_scores import (
    SIGNATURE,
    best_tokens,
    check_scores_size,
    scored_inputs,
)
from transbeam.serving.server.protocol.json_text import text_bytes
from transbeam.serving.server.protocol.rest_paths import ModelTarget
from transbeam.serving.server.request_handling.service import Service
from transbeam.serving.server.studio_api.try_requests import AlternativesRequest
from transbeam.serving.studio.run_facts import RunFacts
from transbeam.serving.text_ops.mask_tokens import answer_pieces

# Alternatives of each token.
_SHOWN = 8
_KEPT_VOCABULARIES = 4


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of a run.

    Attributes:
        pieces: The readable piece of each token.
        first: The decoder's start token in encoder-decoders.
    """

    pieces: Sequence[str]
    first: int


class TokenAlternatives:
    """Finds what a model would have generated instead of its tokens.

    The signature `logits_ids` returns the scores of the whole vocabulary at all
    positions, which would be megabytes as JSON; here only the best are returned.

    Args:
        runs: The runs.
        service: Runs the signatures.
    """

    def __init__(self, runs: Sequence[RunFacts], service: Service):
        self._runs = {facts.name: facts for facts in runs}
        self._service = service
        self._kept: OrderedDict[str, Vocabulary] = OrderedDict()

    async def find(
        self, model: str, question: AlternativesRequest, deadline: Deadline
    ) -> Mapping[str, Any]:
        """Finds the alternatives of each generated token.

        Args:
            model: The model's name on the server.
            question: The request.
            deadline: The deadline of the request.

        Returns:
            A JSON object; see `try_requests.ALTERNATIVES`.

        Raises:
            StatusError: The model has no such signature, a token is not in the
                vocabulary, or the text is too long.
        """
        target = ModelTarget(model)
        names = frozenset(self._service.taken(target, SIGNATURE).dtypes)
        vocabulary = await asyncio.to_thread(self._vocabulary, question.run)
        size, new = len(vocabulary.pieces), np.array(question.token_ids, np.int32)
        if new.max() >= size:
            raise invalid(f"token_ids: found {new.max()}; expected ids below {size:,}")
        texts: Arrays = {
            name: np.array([text_bytes(text)], object)
            for name, text in question.texts.items()
        }
        read = await self._service.predict(target, "tokenize", texts, (), deadline)
        prompt = read.outputs["token_ids"][0, : int(read.outputs["length"][0])]
        inputs, start = scored_inputs(names, prompt, new, vocabulary.first)
        check_scores_size(inputs, size)
        scored = await self._service.predict(
            target, SIGNATURE, inputs, ("logits",), deadline
        )
        logits = scored.outputs["logits"][0, start : start + len(new)]
        return await asyncio.to_thread(_described, logits, new, vocabulary.pieces)

    def _vocabulary(self, run: str) -> Vocabulary:
        found = self._kept.get(run)
        if found is None:
            try:
                tokenizer = load_tokenizer(self._runs[run].folder / TOKENIZER)
            except UserError as error:
                raise invalid(f"{run}: {error}") from None
            special = tokenizer.special
            found = Vocabulary(
                [
                    piece.decode("utf-8", "replace")
                    for piece in answer_pieces(tokenizer)
                ],
                special.pad if special.begin is None else special.begin,
            )
            self._kept[run] = found
        if len(self._kept) > _KEPT_VOCABULARIES:
            self._kept.popitem(last=False)
        return found


def _described(
    logits: np.ndarray, chosen: np.ndarray, pieces: Sequence[str]
) -> Mapping[str, Any]:
    """Describes N tokens, given the scores (N, V) at their places."""

    def described(token: int, probability: float) -> dict[str, Any]:
        # Of float16 exports, and rounded: a sum of 1.0000001 is no probability.
        shown = round(min(float(probability), 1.0), 6)
        return {"id": int(token), "piece": pieces[token], "probability": shown}

    found = []
    for row, token in zip(logits, chosen, strict=True):
        shares = np.exp(row.astype(np.float32) - row.max())
        shares /= shares.sum()
        best = best_tokens(shares, _SHOWN)
        alternatives = [described(each, shares[each]) for each in best]
        found.append({**described(token, shares[token]), "alternatives": alternatives})
    return {"tokens": found}
