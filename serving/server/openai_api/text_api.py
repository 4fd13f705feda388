"""Replies to requests for completions and chat completions."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import numpy as np

from transbeam.serving.base.stream_events import FinalEvent, StreamPart
from transbeam.serving.server.base.deadline import Deadline
from transbeam.serving.server.inference.signature import ServableSignature
from transbeam.serving.server.monitoring.request_ids import current
from transbeam.serving.server.openai_api.chat_request import ChatRequest
from transbeam.serving.server.openai_api.completion_request import CompletionRequest
from transbeam.serving.server.openai_api.openai_errors import bad_field
from transbeam.serving.server.openai_api.replies import (
    DONE,
    ChatCompletionFormat,
    CompletionFormat,
    Json,
    Reply,
    finish_reason,
    token_usage,
)
from transbeam.serving.server.openai_api.served_text import ServedText, ServedTexts
from transbeam.serving.server.openai_api.text_completer import (
    CompletedText,
    PromptTokens,
    TextCompleter,
)
from transbeam.serving.server.openai_api.token_logprobs import (
    LogprobFinder,
    TokenLogprob,
)
from transbeam.serving.server.protocol.rest_paths import ModelTarget
from transbeam.serving.server.request_handling.service import HeldVersion, Service
from transbeam.serving.server.streaming.stream_requests import StreamRequest

Question = CompletionRequest | ChatRequest


@dataclass(frozen=True)
class _Prompts:
    """The prompts of a request.

    Attributes:
        prompts: The prompts.
        are_ids: Whether the client sent token ids.
    """

    prompts: Sequence[PromptTokens]
    are_ids: bool

    @property
    def num_tokens(self) -> int:
        return sum(len(prompt.token_ids) for prompt in self.prompts)


class TextApi:
    """Generates the texts of requests.

    Args:
        service: Runs the signatures.
        texts: The conversions between texts and token ids of the versions.
    """

    def __init__(self, service: Service, texts: ServedTexts):
        self._service = service
        self._texts = texts

    async def reply(self, question: Question, deadline: Deadline) -> Json:
        """Returns the reply to a request that is not streamed.

        Args:
            question: The request.
            deadline: The deadline of the request.

        Raises:
            StatusError: The request cannot be answered.
        """
        request = question.text
        with self._service.held(ModelTarget(request.model)) as held:
            served = await asyncio.to_thread(self._texts.find, held)
            completer = TextCompleter(self._service, held, deadline)
            finder = self._finder(question, held, served, deadline)
            given = await _read_prompts(question, completer, served)
            if given.are_ids:
                tokens = served.required_tokens("prompt")
                texts = await completer.complete_ids(given.prompts, request, tokens)
            else:
                texts = await completer.complete_texts(given.prompts, request)
            choices = [await _choice(question, text, served, finder) for text in texts]
        count = current().tokens = sum(len(text.token_ids) for text in texts)
        reply = Reply(_format(question), request.model)
        return reply.whole(choices, token_usage(given.num_tokens, count))

    async def chunks(self, question: Question) -> AsyncGenerator[bytes]:
        """Yields the events of a streamed reply.

        Args:
            question: The request.

        Raises:
            StatusError: The request cannot be answered, or generation fails.
        """
        request, found = question.text, _format(question)
        given = _Prompts((), are_ids=False)

        async def read(version: int, signature: ServableSignature) -> StreamRequest:
            nonlocal given
            deadline = self._service.deadline(request.model)
            with self._service.held(ModelTarget(request.model, version)) as held:
                served = await asyncio.to_thread(self._texts.find, held)
                completer = TextCompleter(self._service, held, deadline)
                work = _read_prompts(question, completer, served)
                given = await deadline.wait(work)
                (prompt,) = given.prompts
                text = prompt.text
                if text is None:
                    text = await deadline.wait(_text_of(prompt, completer, served))
            return completer.stream_request(text, request, signature)

        reply = Reply(found, request.model, request.has_usage)
        start = found.start()
        parts = self._service.stream(ModelTarget(request.model), "REST", read)
        async with aclosing(parts):
            async for part in parts:
                if start is not None:
                    yield reply.chunk(start)
                    start = None
                match part:
                    case StreamPart(text):
                        if text:  # one may be held back
                            yield reply.chunk(found.part(text))
                    case FinalEvent():
                        reason = finish_reason(part.finished)
                        yield reply.chunk(found.end(), reason)
                        usage = token_usage(given.num_tokens, part.num_tokens)
                        if request.has_usage:
                            yield reply.usage_chunk(usage)
                        yield DONE

    def _finder(
        self,
        question: Question,
        held: HeldVersion,
        served: ServedText,
        deadline: Deadline,
    ) -> LogprobFinder | None:
        count = question.text.num_alternatives
        if count is None:
            return None
        tokens = served.required_tokens("logprobs")
        return LogprobFinder(self._service, held, tokens, count, deadline)


def _format(question: Question) -> CompletionFormat | ChatCompletionFormat:
    match question:
        case CompletionRequest():
            return CompletionFormat()
        case ChatRequest():
            return ChatCompletionFormat()


async def _read_prompts(
    question: Question, completer: TextCompleter, served: ServedText
) -> _Prompts:
    match question:
        case ChatRequest(_, messages):
            text = await asyncio.to_thread(served.chat.render, messages)
            return _Prompts(await completer.read_texts([text]), are_ids=False)
        case CompletionRequest(_, prompts):
            texts = [each for each in prompts if isinstance(each, str)]
            if texts:
                return _Prompts(await completer.read_texts(texts), are_ids=False)
            ids = [each for each in prompts if not isinstance(each, str)]
            served.required_tokens("prompt").check(ids, "prompt")
            found = [PromptTokens(None, np.array(each, np.int32)) for each in ids]
            return _Prompts(found, are_ids=True)


async def _text_of(
    prompt: PromptTokens, completer: TextCompleter, served: ServedText
) -> bytes:
    """Returns the text whose tokens a client sent, as streams begin with texts."""
    tokens = served.required_tokens("prompt")
    text = await asyncio.to_thread(tokens.text, prompt.token_ids.tolist())
    (read,) = await completer.read_texts([text.decode("utf-8", "replace")])
    if not np.array_equal(read.token_ids, prompt.token_ids):
        raise bad_field(
            "prompt",
            "in a request with `stream` a text, or the token ids that the model reads "
            "of a text; these are the tokens of none. Send them without `stream`",
        )
    return text


async def _choice(
    question: Question,
    text: CompletedText,
    served: ServedText,
    finder: LogprobFinder | None,
) -> Json:
    echo = isinstance(question, CompletionRequest) and question.echo
    prompt, shown = text.prompt, text.text
    if echo:
        before = prompt.text
        if before is None:
            tokens = served.required_tokens("prompt")
            before = await asyncio.to_thread(tokens.text, prompt.token_ids.tolist())
        shown = before.decode("utf-8", "replace") + shown
    logprobs: list[TokenLogprob] | None = None
    if finder is not None:
        find = finder.of_whole if echo else finder.of_generated
        logprobs = await find(prompt.token_ids, text.token_ids)
    fields = _format(question).whole(shown, logprobs)
    return {**fields, "finish_reason": finish_reason(text.finished)}
