"""Encode the result of an operation as the body of an answer, by its model."""

import inspect
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec
from fastapi import Response
from fastapi.datastructures import DefaultPlaceholder
from fastapi.exceptions import ResponseValidationError
from pydantic import TypeAdapter
from starlette.types import Receive, Scope, Send
from typing_extensions import is_typeddict

from headgate.app.http.parameters import Unsupported
from headgate.app.wire.encoding import unbroken
from headgate.engine.entry import EntryId
from headgate.engine.threads import this_turn

_encoder = msgspec.json.Encoder()
_IS_JSON = (b"content-type", b"application/json")


class OpenAnswer(Response):
    """The response that a route and its dependencies are given: they may add to it."""

    body: bytes

    def __init__(self) -> None:
        self.status_code = 0  # nobody has said it
        self.raw_headers: list[tuple[bytes, bytes]] = []
        self.background = None

    def complete(self, status_code: int, content: bytes) -> None:
        if self.status_code == 0:
            self.status_code = status_code
        elif not _has_body(self.status_code):
            content = b""
        self.body = content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.body:
            self.raw_headers += [_IS_JSON, (b"content-length", b"%d" % len(self.body))]
        await super().__call__(scope, receive, send)


class AnswerModel:
    def __init__(self, route: Any) -> None:
        """Read FastAPI's description of a route's answers; raises Unsupported."""
        self._field = route.response_field
        self._type = route.response_model
        self._is_wire = is_typeddict(self._type)  # the type checker has seen what is returned
        if self._field is not None:
            if not self._is_wire:  # an adapter takes a millisecond of the start
                self._to_json = TypeAdapter(self._type).serializer.to_json
            if not isinstance(route.response_class, DefaultPlaceholder):
                raise Unsupported("a model in a response class of its own: return the response")
        elif not _is_response(route.endpoint) and _has_body(route.status_code or 200):
            raise Unsupported("neither a model nor a Response as what it returns")
        options = {
            "include": route.response_model_include,
            "exclude": route.response_model_exclude,
            "exclude_unset": route.response_model_exclude_unset,
            "exclude_defaults": route.response_model_exclude_defaults,
            "exclude_none": route.response_model_exclude_none,
        }
        self._options: dict[str, Any] = {name: value for name, value in options.items() if value}
        self._options["by_alias"] = route.response_model_by_alias

    def json(self, value: Any) -> bytes:
        """Return the JSON of a value, converted to the model if need be, as FastAPI does."""
        if self._is_wire:
            return _encoder.encode(value)
        if self._field is None:
            if value is not None:
                raise TypeError(f"{type(value).__name__} is returned where no model is declared")
            return b""
        if type(value) is not self._type:
            value, wrong = self._field.validate(value, {}, loc=("response",))
            if wrong:
                raise ResponseValidationError(wrong)
        return self._to_json(value, **self._options)


def _has_body(status_code: int) -> bool:
    return status_code >= 200 and status_code not in (204, 304)


def _is_response(endpoint: Any) -> bool:
    annotation = inspect.signature(endpoint, eval_str=True).return_annotation
    return isinstance(annotation, type) and issubclass(annotation, Response)


T = TypeVar("T")

_AT_ONCE = 100
"""Items that are encoded together, if they are small."""

json_lines = _encoder.encode_lines
"""Encode items, one per line."""


async def array_in_turns(items: Iterable[T], wire: Callable[[T], object]) -> Any:
    """Return an encoded JSON array for a model's list; items must not change meanwhile."""
    parts = [b"["]
    async for batch in _batches(list(items), wire):
        parts += [_encoder.encode(batch)[1:-1], b","]
    parts[-1] = b"]" if len(parts) > 1 else b"[]"
    await this_turn().pause()
    return msgspec.Raw(b"".join(parts))  # it may have many megabytes, so it is copied once


async def lines_in_turns(items: Iterable[T], wire: Callable[[T], object]) -> bytes:
    """Return items as NDJSON; they must not change meanwhile."""
    lines = [unbroken(json_lines(batch)) async for batch in _batches(list(items), wire)]
    return b"".join(lines)


async def _batches(
    items: Sequence[T], wire: Callable[[T], object]
) -> AsyncGenerator[list[object], None]:
    """Yield the wire forms of the next items, few of them if they are large."""
    turn, at = this_turn(), 0
    await turn.begin()
    while at < len(items):
        if at:
            await turn.pause()
        batch = []
        for item in items[at : at + _AT_ONCE]:
            batch.append(wire(item))
            if turn.is_over:
                await turn.pause()  # to encode a large item takes as long again
                break
        at += len(batch)
        yield batch


def json_answer(value: object) -> Response:
    return Response(_encoder.encode(value), media_type="application/json")


async def outcomes_array(ids: Sequence[EntryId], outcomes: Sequence[str]) -> Any:
    return await array_in_turns(zip(ids, outcomes, strict=True), _wire_outcome)


def _wire_outcome(pair: tuple[EntryId, str]) -> dict[str, str]:
    (ms, seq), outcome = pair
    return {"id": f"{ms}-{seq}", "outcome": outcome}
