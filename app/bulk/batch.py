"""Read the entries of a JSON body in pieces."""

import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from typing import Annotated, Any, NamedTuple, TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import from_json

from headgate.app.cloud_events.event import BATCH, STRUCTURED, Event
from headgate.app.cloud_events.formats import EVENT_BYTES_MAX, items_of, parse_event, parse_message
from headgate.app.http.operation import json_of
from headgate.app.wire.plain import plain_drafts
from headgate.app.wire.problems import GatewayError
from headgate.app.wire.schemas.entries import EntryInput
from headgate.app.wire.structure import check_dense, check_members
from headgate.engine.entry import Draft, Timing
from headgate.engine.threads import this_turn

# Pieces: a large body is read in pieces, so that other tasks run in between.
#
# Reading 16 MB of JSON at once would hold the event loop for a second. An array is cut where it
# looks as if one object ended and the next began. If each piece then is an array of objects, so is
# the whole, and its objects are the same. If one is not, the items are told apart with care: by
# their brackets, outside of strings.

PIECE_BYTES = 32 * 1024
"""To read it takes two milliseconds if its strings are short."""

WHOLE_BYTES = 4 * PIECE_BYTES
"""A body of this size or less is one piece."""

_TEXTS = rb'[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+"'
_BRACKET = rb"([\[\]{}]?)"

_BESIDE = re.compile(rb"(?:" + _TEXTS + rb"){0,500}+" + _BRACKET, re.DOTALL)
"""Texts, and what is between them, up to a bracket if it is near: some ten microseconds."""

_INSIDE = re.compile(
    rb"(?:" + _TEXTS + rb"|[\[{](?:" + _TEXTS + rb"){0,20}+[\]}]){0,500}+" + _BRACKET, re.DOTALL
)
"""The same inside of an item: small arrays and objects are passed by at once."""

_BRACKETS_AT_ONCE = 500

_BETWEEN = re.compile(rb"\}\s*+,\s*+\{")
_BEHIND = re.compile(rb"\s*+([,\]])")
_OPENING = re.compile(rb"\s*+\[\s*+(?=\{)")


def opening_of(body: bytes) -> int | None:
    """Return the offset of the first object of a large array, or None if the body is one piece."""
    match = _OPENING.match(body) if len(body) > WHOLE_BYTES else None
    return None if match is None else match.end()


def likely_end(body: bytes, begin: int) -> int | None:
    """Return the probable end of a piece that begins at `begin`; None: the end of the body."""
    match = _BETWEEN.search(body, begin + PIECE_BYTES)
    return None if match is None else match.start() + 1


def true_end(body: bytes, begin: int, stop: int) -> Generator[list[Any], None, int | None]:
    """Return the end of a piece that begins at an item, before a comma or the last bracket.

    It yields empty lists, so that other tasks run in between. The search ends at `stop`, which is
    the end if the piece has none before. Returns None if there are no such items.
    """
    depth, at, brackets = 0, begin, 0
    while True:
        match = (_INSIDE if depth else _BESIDE).match(body, at, stop)
        assert match is not None  # it may be empty
        at, bracket = match.end(), match[1]
        if not bracket:
            if match.start() == at:  # the end, or a text that has none
                return stop if stop < len(body) else None
            yield []
            continue
        depth += 1 if bracket in b"[{" else -1
        if depth < 0:
            has_items = bracket == b"]" and bool(body[begin : at - 1].strip())
            return at - 1 if has_items else None
        if depth == 0 and at - begin >= PIECE_BYTES:
            behind = _BEHIND.match(body, at)
            return None if behind is None else behind.start(1)
        brackets += 1
        if brackets % _BRACKETS_AT_ONCE == 0:
            yield []


def lines(body: bytes) -> Iterator[bytes]:
    """Yield lines in pieces, each piece with its last line end."""
    begin = 0
    while len(body) - begin > WHOLE_BYTES:
        end = body.find(b"\n", begin + PIECE_BYTES) + 1 or len(body)
        yield body[begin:end]
        begin = end
    if begin < len(body) or not body:
        yield body[begin:]


T = TypeVar("T")

_LONG_LINE_BYTES = 2**16
_new_entries = TypeAdapter(Annotated[list[EntryInput], Field(fail_fast=True)])


async def drafts_of(body: bytes, *, is_lines: bool, entries_max: int) -> list[Draft]:
    """Return the entries of a body: a JSON array, or one entry per line if `is_lines`.

    Raises GatewayError for invalid entries or a wrong number of them, and RequestValidationError if
    the body is no JSON or has something else than entries.
    """
    turn, drafts = this_turn(), list[Draft]()
    for portion in _of_lines(body) if is_lines else portions_of(body, _of_items):
        drafts += portion
        if len(drafts) > entries_max and len(drafts) > len(portion):
            raise GatewayError(
                "invalid_request", f"should have at most {entries_max} entries", pointer="/body"
            )
        await turn.pause()
    check_count(len(drafts), entries_max)
    return drafts


def check_count(count: int, limit: int) -> None:
    if not count:
        raise GatewayError("invalid_request", "a batch needs at least one entry", pointer="/body")
    if count > limit:
        text = f"should have at most {limit} items, not {count}"
        raise GatewayError("invalid_request", text, pointer="/body")


def portions_of(
    body: bytes, read: Callable[[bytes, int], list[T]], item_bytes_max: int | None = None
) -> Iterator[list[T]]:
    """Yield the items of a JSON array in portions.

    `read` gets an array that is a piece of it, and the number of its first item; it raises
    `NotJsonError` for invalid JSON. A piece that must have an item longer than `item_bytes_max` is
    not read. Raises GatewayError if an item is too long, and RequestValidationError if the body is
    no JSON.
    """
    piece_bytes_max = WHOLE_BYTES + (item_bytes_max or len(body))
    begin = opening_of(body)
    if begin is None:
        _check_piece(len(body), piece_bytes_max, 0)
        try:
            yield read(body, 0)
        except NotJsonError as error:
            raise _malformed(str(error)) from None
        return
    count, is_exact = 0, False
    while True:
        if is_exact:
            stop = min(begin + piece_bytes_max + 1, len(body))
            end = yield from true_end(body, begin, stop)
            if end is None:
                raise _malformed(f"should be items of an array, after byte {begin}")
        else:
            end = likely_end(body, begin)
        _check_piece((end or len(body)) - begin, piece_bytes_max, count)
        is_last = end is None or body[end : end + 1] == b"]"
        piece = b"[" + body[begin:] if is_last else b"[%b]" % body[begin:end]
        try:
            items = read(piece, count)
        except NotJsonError as error:
            if is_exact:
                raise _malformed(f"{error}, after byte {begin}") from None
            is_exact = True  # it was not the end of an item, or nothing is
            continue
        yield items
        if end is None or is_last:
            return
        count += len(items)
        begin = end + 1 if is_exact else body.index(b"{", end)


def _check_piece(size_bytes: int, size_bytes_max: int, first: int) -> None:
    if size_bytes > size_bytes_max:
        text = "an item here, or one of the next items, is too long"
        raise GatewayError("too_large", text, pointer=f"/body/{first}")


class NotJsonError(Exception):
    pass


def _malformed(text: str) -> RequestValidationError:
    wrong = {"type": "json_invalid", "loc": ("body",), "msg": "JSON decode error"}
    return RequestValidationError([{**wrong, "ctx": {"error": text}}])


def _of_items(piece: bytes, first: int) -> list[Draft]:
    plain = plain_drafts(piece, is_lines=False)
    if plain is not None:
        return plain
    check_dense(piece)
    try:
        entries = _new_entries.validate_python(json_of(piece))
    except json.JSONDecodeError as error:
        raise NotJsonError(error.msg) from None
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
        raise RequestValidationError([_moved(item_error, first) for item_error in errors]) from None
    return [entry.to_draft(f"/body/{index}") for index, entry in enumerate(entries, first)]


def _moved(error: Any, first: int) -> dict[str, Any]:
    index, *inner = error["loc"] or (None,)
    place = (index + first, *inner) if isinstance(index, int) else error["loc"]
    return {**error, "loc": ("body", *place)}


def _of_lines(body: bytes) -> Iterator[list[Draft]]:
    count = 0
    for piece in lines(body):
        check_dense(piece)
        drafts = plain_drafts(piece, is_lines=True)
        if drafts is None:
            drafts = _of_each_line(piece, count)
        count += len(drafts)
        yield drafts


def _of_each_line(piece: bytes, first: int) -> list[Draft]:
    lines = piece.split(b"\n")
    if not lines[-1].strip():
        lines.pop()
    drafts = []
    for index, line in enumerate(lines, first):
        try:
            if len(line) > _LONG_LINE_BYTES:
                _check_long_line(line, index)
            entry = EntryInput.model_validate_json(line)
        except ValidationError as error:
            raise RequestValidationError(_at_line(error, index)) from None
        drafts.append(entry.to_draft(f"/body/{index}"))
    return drafts


def _check_long_line(line: bytes, index: int) -> None:
    with suppress(ValueError):  # the model reports text that is no JSON, with its place
        check_members(from_json(line), f"/body/{index}")


def _at_line(error: ValidationError, index: int) -> list[Any]:
    errors = []
    for line_error in error.errors(include_url=False, include_input=False):
        context = {**line_error.get("ctx", {}), "line": index + 1}
        if line_error["type"] == "json_invalid":  # its column counts from the start of the line
            context["error"] = context["error"].replace(" at line 1 column", " at column")
        errors.append({**line_error, "loc": ("body", index, *line_error["loc"]), "ctx": context})
    return errors


# Events: a body with one CloudEvents event or a batch of them, as entries.

_IDENTITY_BYTES_MAX = 256
_DIGEST_BYTES = 16


class Identity(NamedTuple):
    """The source and id that identify an event, or all events of a batch."""

    source: bytes
    id: bytes


class EventBody(NamedTuple):
    drafts: list[Draft]
    identity: Identity
    pointer_to_id: str
    is_batch: bool = False


async def event_body(
    headers: Iterable[tuple[bytes, bytes]],
    media_type: str,
    content: bytes,
    *,
    timing: Timing | None,
    events_max: int,
) -> EventBody:
    """Read the events of a request; raises GatewayError or RequestValidationError."""
    if media_type == BATCH:
        return await _batch(content, timing, events_max)
    if media_type == STRUCTURED:
        event, pointer = parse_event(content), "/body/id"
    else:
        event, pointer = parse_message(headers, content), "/header/ce-id"
    identity = Identity(*map(_short, _identity_of(event)))
    return EventBody([Draft(None, event.to_fields(), timing)], identity, pointer)


async def _batch(content: bytes, timing: Timing | None, events_max: int) -> EventBody:
    turn, drafts = this_turn(), list[Draft]()
    digest, first_source = blake2b(digest_size=_DIGEST_BYTES), b""
    for items in portions_of(content, _items, EVENT_BYTES_MAX):
        await turn.pause()  # also if it has none: then the end of the next one is looked for
        for item in items:
            await turn.pause()
            if len(drafts) == events_max:
                raise GatewayError(
                    "invalid_request", f"should have at most {events_max} events", pointer="/body"
                )
            event = parse_event(item, f"/body/{len(drafts)}")
            drafts.append(Draft(None, event.to_fields(), timing))
            source, event_id = _identity_of(event)
            digest.update(b"%d %b %d %b" % (len(source), source, len(event_id), event_id))
            first_source = first_source or source
    check_count(len(drafts), events_max)
    identity = Identity(_short(first_source), digest.digest())
    return EventBody(drafts, identity, "/body", is_batch=True)


def _items(piece: bytes, first: int) -> list[bytes]:
    del first  # an item that is no event is noticed later
    try:
        return items_of(piece)
    except ValueError as error:
        raise NotJsonError(str(error)) from None


def _identity_of(event: Event) -> tuple[bytes, bytes]:
    return event.attributes["source"].encode(), event.attributes["id"].encode()


def _short(part: bytes) -> bytes:
    """Return a part of an identity within the length of an idempotency key."""
    if len(part) <= _IDENTITY_BYTES_MAX:
        return part
    return blake2b(part, digest_size=_DIGEST_BYTES).digest()
