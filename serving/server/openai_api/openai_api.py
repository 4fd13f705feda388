"""OpenAI's API below `/openai/v1/`, as an extension of the REST API.

TF Serving owns `/v1/models`, and KServe puts OpenAI's API at the same place. Clients
set their base URL: `OpenAI(base_url="http://localhost:8501/openai/v1", api_key=...)`.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import unquote

from grpc import StatusCode
from starlette.requests import Request
from starlette.responses import Response

from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.base.worker_thread import LARGE_BODY, run_in_thread
from transbeam.serving.server.configuration.limits import Limits
from transbeam.serving.server.models.versions import Model
from transbeam.serving.server.openai_api.chat_request import ChatRequest
from transbeam.serving.server.openai_api.completion_request import CompletionRequest
from transbeam.serving.server.openai_api.embedding_api import EmbeddingRequest, embed
from transbeam.serving.server.openai_api.openai_errors import (
    MODEL_NOT_FOUND,
    OpenAIRequestError,
    openai_error_body,
)
from transbeam.serving.server.openai_api.openapi_paths import (
    CHAT,
    COMPLETIONS,
    EMBEDDINGS,
    MODELS,
    PREFIX,
    SCHEMAS,
    describe_openai_paths,
)
from transbeam.serving.server.openai_api.replies import Json, error_events
from transbeam.serving.server.openai_api.served_text import ServedTexts
from transbeam.serving.server.openai_api.text_api import Question, TextApi
from transbeam.serving.server.protocol.rest_paths import ModelTarget
from transbeam.serving.server.request_handling.service import Service
from transbeam.serving.server.rest_api.request_body import read_body, unless_gone
from transbeam.serving.server.rest_api.server_sent_events import EventStream

_OWNER = "transbeam"

_Asked = TypeVar("_Asked", CompletionRequest, ChatRequest, EmbeddingRequest)


class OpenAIApi:
    """OpenAI's completions, chat completions, embeddings and models.

    See `RestExtension`.

    Args:
        service: The server's models.
        limits: Limits on requests.
    """

    prefix = PREFIX

    def __init__(self, service: Service, limits: Limits):
        self._service = service
        self._limits = limits
        self._texts = ServedTexts()
        self._text_api = TextApi(service, self._texts)

    def open_response(self, request: Request, path: str) -> Response | None:
        return None

    async def response(self, request: Request, path: str) -> Response:
        match request.method, path:
            case "POST", _ if path == COMPLETIONS:
                read = CompletionRequest.from_json
                question = await self._read(request, "Completions", read)
                return await self._generate(request, "Completions", question)
            case "POST", _ if path == CHAT:
                read = ChatRequest.from_json
                question = await self._read(request, "ChatCompletions", read)
                return await self._generate(request, "ChatCompletions", question)
            case "POST", _ if path == EMBEDDINGS:
                return await self._embed(request)
            case (("GET" | "HEAD"), _) if path == MODELS:
                models = self._service.catalog.models()
                served = [model for model in models if model.available()]
                return _json({"object": "list", "data": list(map(_described, served))})
            case (("GET" | "HEAD"), _) if path.startswith(f"{MODELS}/"):
                return _json(self._describe(unquote(path[len(MODELS) + 1 :])))
        raise OpenAIRequestError(
            f"there is no {request.method} {path}; see /openapi.json",
            code=StatusCode.NOT_FOUND,
        )

    def error_body(self, failure: StatusError) -> bytes:
        return openai_error_body(failure)

    def paths(self) -> Mapping[str, Any]:
        return describe_openai_paths()

    def schemas(self) -> Mapping[str, Any]:
        return SCHEMAS

    async def _read(
        self, request: Request, api: str, parse: Callable[[bytes], _Asked]
    ) -> _Asked:
        """Reads a request's body; an error counts as a request of no model."""
        try:
            body = await read_body(request, self._limits)
            return await run_in_thread(len(body) > LARGE_BODY, lambda: parse(body))
        except StatusError:
            with self._service.counted("", api, "REST"):
                raise

    async def _generate(
        self, request: Request, api: str, question: Question
    ) -> Response:
        name = question.text.model
        if question.text.is_streamed and self._service.catalog.model(name):
            chunks = self._text_api.chunks(question)
            # Awaited before the headers, so errors get their own status.
            first = await unless_gone(request.receive, anext(chunks))
            return EventStream(first, chunks, bytes, error_events)
        with self._service.counted(name, api, "REST"):
            self._model(name)
            deadline = self._service.deadline(name)
            work = deadline.wait(self._text_api.reply(question, deadline))
            found = await unless_gone(request.receive, work)
            return await asyncio.to_thread(_json, found)

    async def _embed(self, request: Request) -> Response:
        question = await self._read(request, "Embeddings", EmbeddingRequest.from_json)
        with self._service.counted(question.model, "Embeddings", "REST"):
            self._model(question.model)
            deadline = self._service.deadline(question.model)

            async def answer() -> Json:
                with self._service.held(ModelTarget(question.model)) as held:
                    return await embed(
                        self._service, held, self._texts, question, deadline
                    )

            work = deadline.wait(answer())
            found = await unless_gone(request.receive, work)
            return await asyncio.to_thread(_json, found)

    def _describe(self, name: str) -> Json:
        """Describes a model that answers.

        Raises:
            StatusError: There is no such model, or it is still being loaded.
        """
        self._service.catalog.check_loaded(name)
        return _described(self._model(name, answers=True))

    def _model(self, name: str, *, answers: bool = False) -> Model:
        """Returns a model by name.

        Args:
            name: The name.
            answers: Whether it must have an available version.

        Raises:
            OpenAIRequestError: There is no such model.
        """
        model = self._service.catalog.model(name)
        if model is None or (answers and not model.available()):
            raise OpenAIRequestError(
                f"the model {name!r} does not exist; GET {MODELS} lists the models",
                param="model",
                error_code=MODEL_NOT_FOUND,
                code=StatusCode.NOT_FOUND,
            )
        return model


def _described(model: Model) -> Json:
    created = 0
    for version in model.states():
        if version.loaded is not None:
            created = version.loaded.created
            break
    return {
        "id": model.name,
        "object": "model",
        "created": created,
        "owned_by": _OWNER,
    }


def _json(found: Json) -> Response:
    body = json.dumps(found, ensure_ascii=False).encode("utf-8", "replace")
    return Response(body, media_type="application/json")
