"""Client frames: makes the model of a frame from its text, or says what is wrong with it."""

from contextlib import suppress
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from headgate.app.live.choices import SubscriptionChoices
from headgate.app.live.frames.client import (
    RID_LENGTH_MAX,
    AnyClientFrame,
    AppendFrame,
    ClientFrame,
    SubscribeFrame,
)
from headgate.app.live.intents import AppendIntent, PatternAfter, SubscribeIntent
from headgate.app.wire.filters import OF_GROUPS, filter_text
from headgate.app.wire.ids import parse_after, parse_pattern_after
from headgate.app.wire.names import check_name, check_pattern
from headgate.app.wire.plain import plain_append
from headgate.app.wire.problems import GatewayError, Problem, validation_problem
from headgate.app.wire.structure import SIZE_BYTES_MIN, check_members
from headgate.engine.entry import EntryId
from headgate.engine.errors import StreamError
from headgate.engine.requests.entries import From

INSTANCE = "/v1/ws"

_SHORT_LENGTH_MAX = 4096
"""Characters of a frame that is read soon enough as it is."""

_GROUP_ONLY = ("consumer", "claim_idle_ms", "on_disconnect")

_client_frame: TypeAdapter[ClientFrame] = TypeAdapter(AnyClientFrame)


class BadFramesError(Exception):
    """The frames of the client make no sense: the conversation is over."""


def json_object(text: str) -> dict[str, Any]:
    """Return the members of a frame.

    Raises:
        BadFramesError: it is no JSON object, so the conversation ends.
    """
    try:
        value = from_json(text, allow_inf_nan=False, cache_strings="keys")
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise BadFramesError("a frame is one JSON object")
    return value


def frame_of(value: dict[str, Any], length: int, batch_entries_max: int) -> ClientFrame:
    """Return a frame.

    Args:
        value: its members.
        length: of its text.
        batch_entries_max: how many entries an append may have.

    Raises:
        ValidationError: its members are wrong.
        GatewayError: there are too many entries, or too many members of something.
    """
    entries = value.get("entries")
    if isinstance(entries, list) and len(entries) > batch_entries_max:
        text = f"at most {batch_entries_max} entries, not {len(entries)}"
        raise GatewayError("invalid_request", text, pointer="/body/entries")
    if length > SIZE_BYTES_MIN:
        check_members(value)
    return _client_frame.validate_python(value)


def frame_problem(error: ValidationError) -> Problem:
    """Return the problem with the members of a frame."""
    details = error.errors(include_url=False, include_input=False)
    for detail in details:  # the first part is the frame type, which the client knows
        detail["loc"] = detail["loc"][1:] or ("type",)
    return validation_problem(details, INSTANCE, prefix="/body")


def plain_append_intent(text: str, batch_entries_max: int) -> AppendIntent | None:
    """Read a long frame that appends plain entries; None if it is another frame, or wrong."""
    if len(text) <= _SHORT_LENGTH_MAX:
        return None
    plain = plain_append(text, batch_entries_max)
    if plain is None or len(plain.rid or "") > RID_LENGTH_MAX:
        return None
    with suppress(StreamError, GatewayError):
        stream = check_name(plain.stream, pointer="/body/stream")
        return AppendIntent(plain.rid, stream, plain.drafts)
    return None


def append_intent(frame: AppendFrame) -> AppendIntent:
    """Return the append that a frame asks for.

    Raises:
        GatewayError: the stream's name or an entry is wrong.
        InvalidId: so is an id.
    """
    drafts = [entry.to_draft(f"/body/entries/{index}") for index, entry in enumerate(frame.entries)]
    return AppendIntent(frame.rid, check_name(frame.stream, pointer="/body/stream"), drafts)


def subscribe_intent(frame: SubscribeFrame, credit_max: int) -> SubscribeIntent:
    """Return the subscription that a frame wants.

    Raises:
        GatewayError: it makes no sense.
        InvalidId: its cursor is none.
    """
    if frame.credit > credit_max:
        text = f"at most {credit_max}, not {frame.credit}"
        raise GatewayError("invalid_request", text, pointer="/body/credit")
    _check_needs_group(frame)
    if (frame.stream is None) == (frame.match is None):
        raise GatewayError("invalid_request", "give stream or match", pointer="/body/stream")
    after: EntryId | From | PatternAfter
    if frame.match is not None:
        if frame.group is not None:
            text = "a group is of one stream: give stream"
            raise GatewayError("invalid_request", text, pointer="/body/match")
        place = check_pattern(frame.match, pointer="/body/match")
        after = PatternAfter(parse_pattern_after(frame.after, field="/body/after"))
    else:
        place = check_name(frame.stream or "", pointer="/body/stream")
        after = parse_after(frame.after, field="/body/after")
    return SubscribeIntent(
        frame.rid,
        frame.sub,
        place,
        None if frame.group is None else check_name(frame.group, pointer="/body/group"),
        None if frame.consumer is None else check_name(frame.consumer, pointer="/body/consumer"),
        after,
        frame.credit,
        SubscriptionChoices.of(frame)._replace(
            filters=filter_text(frame.filter, pointer="/body/filter")
        ),
    )


def _check_needs_group(frame: SubscribeFrame) -> None:
    """Refuse options that have no meaning for this kind of subscription."""
    if frame.group is not None:
        if "after" in frame.model_fields_set:
            text = "a group has its own position; its consumers cannot choose one"
            raise GatewayError("invalid_request", text, pointer="/body/after")
        if frame.filter is not None:
            raise GatewayError("invalid_request", OF_GROUPS, pointer="/body/filter")
        return
    named = [name for name in _GROUP_ONLY if getattr(frame, name) is not None]
    if frame.ack == "none":
        named.append("ack")
    if named:
        text = "this is for subscriptions to a group"
        raise GatewayError("invalid_request", text, pointer=f"/body/{named[0]}")
