"""Client frames: one model per type of frame that a client sends. AsyncAPI is made of them.

Whatever carries a `rid` is answered exactly once, with that `rid`.
"""

from contextlib import suppress
from typing import Annotated, Any, ClassVar, Literal, get_args

import msgspec
from pydantic import BaseModel, ConfigDict, Field, SecretStr, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from headgate.app.auth.grants import Verb
from headgate.app.auth.needs import OPEN, Needs
from headgate.app.channels.member import DATA_BYTES_MAX, KEY_LENGTH_MAX
from headgate.app.live.intents import (
    AppendIntent,
    CommitIntent,
    ListenIntent,
    PatternAfter,
    PresenceIntent,
    PresenceWish,
    PublishIntent,
    SubscribeIntent,
    SubscriptionChoices,
)
from headgate.app.wire.filters import OF_GROUPS, FilterForm, filter_text
from headgate.app.wire.ids import parse_after, parse_pattern_after
from headgate.app.wire.names import NameText, PatternText, check_name, check_pattern
from headgate.app.wire.plain import plain_append
from headgate.app.wire.problems import GatewayError, Problem, validation_problem
from headgate.app.wire.schemas.commits import CommitInput
from headgate.app.wire.schemas.deliveries import NackError
from headgate.app.wire.schemas.entries import EntryInput, Flag, IdText, Milliseconds, OnDisconnect
from headgate.app.wire.schemas.pattern_groups import MissingGroups, Weights, weights_of
from headgate.app.wire.structure import SIZE_BYTES_MIN, check_members, is_too_nested
from headgate.engine.entry import EntryId
from headgate.engine.errors import StreamError
from headgate.engine.limits import CONFLATE_MS_MAX, COUNT_MAX, ROW_KEY_BYTES_MAX
from headgate.engine.requests.entries import From

FRAME_IDS_MAX = 10_000
FRAME_BYTES_MIN = 2**16
"""The least bound of frames that a client may have."""
RID_LENGTH_MAX = 64
SUB_LENGTH_MAX = 64
SHORT_FORM_SUB = "0"
"""The name of the short forms' only subscription."""

Rid = Annotated[str | None, Field(max_length=RID_LENGTH_MAX, description="Repeated in the answer.")]
Sub = Annotated[
    str,
    Field(
        min_length=1,
        max_length=SUB_LENGTH_MAX,
        description="Name of the subscription, chosen by the client.",
    ),
]
FrameBytes = Annotated[int, Field(ge=FRAME_BYTES_MIN, strict=True)]
FrameIds = Annotated[list[IdText], Field(fail_fast=True, min_length=1, max_length=FRAME_IDS_MAX)]


class ClientFrame(BaseModel):
    """A frame of the client: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")

    needs: ClassVar[Needs]
    """Needs of the frame; a gateway with a frame that declares none does not start."""


class SubscriptionFrame(ClientFrame):
    """A frame about a subscription; the short forms need not name theirs."""

    sub: Sub = SHORT_FORM_SUB


class PresenceForm(BaseModel):
    """Presence at a channel or a stream. `members` and `presence` say who is present."""

    model_config = ConfigDict(extra="forbid")

    data: dict[str, Any] = Field(
        {}, description="Data about this connection that others see: at most 1,024 bytes of JSON."
    )
    key: Annotated[str, Field(min_length=1, max_length=KEY_LENGTH_MAX)] | None = Field(
        None,
        description="Name for this connection. If a page keeps it across a reload, nobody sees "
        "the page leave.",
    )
    hidden: Flag = Field(False, description="See who is present without being listed.")


class SubscribeFrame(ClientFrame):
    """Subscribe to a stream or all streams that match, to a group, or to a channel."""

    needs = Needs(frozenset({Verb.READ, Verb.CONSUME, Verb.SUBSCRIBE}))

    type: Literal["subscribe"]
    rid: Rid = None
    sub: Sub
    stream: NameText | None = None
    channel: NameText | None = Field(
        None, description="Instead of `stream`: the channel whose messages to receive."
    )
    presence: PresenceForm | None = Field(
        None, description="With a channel or a stream: be present, and see who else is."
    )
    match: PatternText | None = Field(
        None,
        description="Instead of `stream`: follow all streams whose names match this Redis glob "
        "pattern, including streams that are created later. With `group`: read the group of that "
        "name in each of them.",
    )
    create: MissingGroups | None = Field(
        None, description="With `match` and `group`: create the group in streams that lack it."
    )
    weights: Weights = Field({})
    group: NameText | None = Field(None, description="Name of the group to read as a consumer.")
    consumer: NameText | None = Field(
        None,
        description="Name of the consumer. Default: the gateway creates one and removes it at the "
        "end.",
    )
    after: str = Field(
        "$",
        description="Without `group`: start after an id, `$` for new entries only, `+` for the "
        "last entry. With `match`: a `position`, an id or `$`.",
    )
    filter: FilterForm | None = Field(
        None, description="Without `group`: only matching entries are sent."
    )
    view: Literal["entries", "table"] = Field(
        "entries",
        description="`table`: send all rows of a stream with a `key_field`, then each change, in "
        "frames `rows`. With an id in `after`: only the changes.",
    )
    prefix: str | None = Field(
        None,
        max_length=ROW_KEY_BYTES_MAX,
        description="With a table: only rows whose keys begin with this.",
    )
    conflate_ms: Annotated[int, Field(ge=1, le=CONFLATE_MS_MAX, strict=True)] | None = Field(
        None,
        description="With a table: collect changes for this long, and send only the newest one of "
        "each row.",
    )
    credit: Annotated[int, Field(ge=1, strict=True)] = Field(
        64, description="Number of entries that the gateway may send before it needs more credit."
    )
    frame_bytes_max: FrameBytes | None = Field(
        None,
        description="Maximum size of a frame for the client. An entry that exceeds it even alone "
        "ends the subscription, with a problem that names the entry. Frames of several entries "
        "have at most 1 MiB in any case; a larger entry is sent alone.",
    )
    auto_credit: Flag = Field(
        False, description="Return the credit of an entry when it is settled or claimed."
    )
    claim_idle_ms: Annotated[int, Field(ge=0, le=COUNT_MAX, strict=True)] | None = Field(
        None,
        description="Also claim entries that have been pending with any consumer and idle for "
        "this long.",
    )
    on_disconnect: OnDisconnect | None = Field(
        None, description="What to do with unsettled entries at the end."
    )
    ack: Literal["explicit", "none"] = Field(
        "explicit", description="`none`: entries are settled as soon as they are sent."
    )


class UnsubscribeFrame(ClientFrame):
    """End a subscription. Unsettled entries are given back or kept."""

    needs = OPEN

    type: Literal["unsubscribe"]
    rid: Rid = None
    sub: Sub


class CreditFrame(SubscriptionFrame):
    """Allow this many more entries. There is no answer."""

    needs = OPEN

    type: Literal["credit"]
    entries: Annotated[int, Field(ge=1, le=COUNT_MAX, strict=True)]


class SettlingFrame(SubscriptionFrame):
    """A frame about entries that were sent."""

    stream: NameText | None = Field(None, description="With `match`: stream of the entries.")


class AckFrame(SettlingFrame):
    """Acknowledge entries: given ids, or all entries sent up to an id."""

    needs = Needs(frozenset({Verb.CONSUME}))

    type: Literal["ack"]
    rid: Rid = None
    ids: FrameIds | None = None
    up_to: IdText | None = None


class NackFrame(SettlingFrame):
    """Give entries back."""

    needs = Needs(frozenset({Verb.CONSUME}))

    type: Literal["nack"]
    rid: Rid = None
    ids: FrameIds
    mode: Literal["silent", "fail", "fatal"] = "fail"
    delay_ms: Milliseconds | None = Field(None, description="Delay before the next delivery.")
    error: NackError | None = Field(None, description="Error of the consumer.")


class ExtendFrame(SettlingFrame):
    """Restart the idle time of entries."""

    needs = Needs(frozenset({Verb.CONSUME}))

    type: Literal["extend"]
    rid: Rid = None
    ids: FrameIds


class AppendFrame(ClientFrame):
    """Append entries, all or none."""

    needs = Needs(frozenset({Verb.APPEND}))

    type: Literal["append"]
    rid: Rid = None
    stream: NameText
    entries: Annotated[list[EntryInput], Field(fail_fast=True, min_length=1)]


class CommitFrame(CommitInput, ClientFrame):
    """Apply several steps atomically: all of them at one moment, or none."""

    needs = Needs()

    type: Literal["commit"]
    rid: Rid = None
    consumer: NameText | None = Field(
        None, description="Consumer that holds the entries to settle."
    )
    idempotency_key: str | None = Field(
        None,
        min_length=1,
        max_length=256,
        description="Identifies this commit. If it is sent again with the same key, nothing is "
        "changed and the answer is the same.",
    )


class PublishFrame(ClientFrame):
    """Publish a message to the current subscribers of a channel. It is not stored."""

    needs = Needs(frozenset({Verb.PUBLISH}))

    type: Literal["publish"]
    rid: Rid = Field(None, description="Without it, only a problem is answered.")
    channel: NameText
    data: Any = Field(description="Any JSON value.")


class PresenceFrame(SubscriptionFrame):
    """Change the data about this connection that others see."""

    needs = OPEN

    type: Literal["presence"]
    rid: Rid = Field(None, description="Without it, only a problem is answered.")
    data: dict[str, Any] = Field(description="At most 1,024 bytes of JSON.")


class PingFrame(ClientFrame):
    """Ask for a pong."""

    needs = OPEN

    type: Literal["ping"]
    rid: Rid = None


class AuthFrame(ClientFrame):
    """Present a credential, or renew it before it expires.

    This must be the first frame if the handshake had no credential. A renewal must be of the same
    principal. Subscriptions that the new credential does not allow end. All others continue without
    a gap.
    """

    needs = OPEN

    type: Literal["auth"]
    rid: Rid = None
    token: SecretStr = Field(description="A key or a token.")


AnyClientFrame = Annotated[
    SubscribeFrame
    | UnsubscribeFrame
    | CreditFrame
    | AckFrame
    | NackFrame
    | ExtendFrame
    | AppendFrame
    | CommitFrame
    | PublishFrame
    | PresenceFrame
    | PingFrame
    | AuthFrame,
    Field(discriminator="type"),
]


def undeclared() -> list[str]:
    """Return the client frames without a declared permission. There should be none."""
    models = get_args(get_args(AnyClientFrame)[0])
    return [model.__name__ for model in models if not hasattr(model, "needs")]


INSTANCE = "/v1/ws"

_SHORT_LENGTH_MAX = 4096
"""Characters of a frame that is read soon enough as it is."""

_GROUP_ONLY = ("consumer", "claim_idle_ms", "on_disconnect")

_MATCH_ONLY = ("create", "weights")

_TABLE_ONLY = ("prefix", "conflate_ms")

_OF_CHANNELS = frozenset({"type", "rid", "sub", "channel", "presence"})

_NOT_OF_TABLES = ("group", "match", "filter")

_client_frame: TypeAdapter[ClientFrame] = TypeAdapter(AnyClientFrame)


class BadFramesError(Exception):
    """The client violates the protocol: the connection ends."""


def json_object(text: str) -> dict[str, Any]:
    try:
        value = from_json(text, allow_inf_nan=False, cache_strings="keys")
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise BadFramesError("a frame must be one JSON object")
    return value


def frame_of(value: dict[str, Any], length: int, batch_entries_max: int) -> ClientFrame:
    """Return a frame; `length` is that of its text."""
    entries = value.get("entries")
    if isinstance(entries, list) and len(entries) > batch_entries_max:
        text = f"should have at most {batch_entries_max} entries, not {len(entries)}"
        raise GatewayError("invalid_request", text, pointer="/body/entries")
    if length > SIZE_BYTES_MIN:
        check_members(value)
    return _client_frame.validate_python(value)


def frame_problem(error: ValidationError) -> Problem:
    details = error.errors(include_url=False, include_input=False)
    for detail in details:  # the first part is the frame type, which the client knows
        detail["loc"] = detail["loc"][1:] or ("type",)
    return validation_problem(details, INSTANCE, prefix="/body")


def plain_append_intent(text: str, batch_entries_max: int) -> AppendIntent | None:
    """Parse a long frame that appends plain entries; None if it is another frame, or wrong."""
    if len(text) <= _SHORT_LENGTH_MAX:
        return None
    plain = plain_append(text, batch_entries_max)
    if plain is None or len(plain.rid or "") > RID_LENGTH_MAX:
        return None
    with suppress(StreamError, GatewayError):
        stream = check_name(plain.stream, pointer="/body/stream")
        return AppendIntent(plain.rid, stream, plain.drafts)
    return None


class _PlainPublish(msgspec.Struct, tag_field="type", tag="publish", forbid_unknown_fields=True):
    channel: NameText
    data: msgspec.Raw
    rid: str | None = None


_plain_publish = msgspec.json.Decoder(_PlainPublish).decode


def plain_publish_intent(text: str) -> PublishIntent | None:
    """Parse a frame that publishes, in half of the time; None if it is another, or wrong."""
    if not text.startswith('{"type":"publish"'):
        return None
    with suppress(ValueError, RecursionError, StreamError, GatewayError):
        plain = _plain_publish(text)
        if len(plain.rid or "") <= RID_LENGTH_MAX and not is_too_nested(bytes(plain.data)):
            channel = check_name(plain.channel, pointer="/body/channel")
            return PublishIntent(plain.rid, channel, bytes(plain.data))
    return None


def append_intent(frame: AppendFrame) -> AppendIntent:
    drafts = [entry.to_draft(f"/body/entries/{index}") for index, entry in enumerate(frame.entries)]
    return AppendIntent(frame.rid, check_name(frame.stream, pointer="/body/stream"), drafts)


def commit_intent(frame: CommitFrame) -> CommitIntent:
    key = None if frame.idempotency_key is None else frame.idempotency_key.encode()
    return CommitIntent(frame.rid, frame, frame.to_request(None, key=key))


def publish_intent(frame: PublishFrame) -> PublishIntent:
    channel = check_name(frame.channel, pointer="/body/channel")
    return PublishIntent(frame.rid, channel, to_json(frame.data))


def presence_intent(frame: PresenceFrame) -> PresenceIntent:
    return PresenceIntent(frame.rid, frame.sub, _presence_data(frame.data, "/body/data"))


def listen_intent(frame: SubscribeFrame) -> ListenIntent:
    for name in frame.model_fields_set - _OF_CHANNELS:
        text = "not allowed with channel"
        raise GatewayError("invalid_request", text, pointer=f"/body/{name}")
    channel = check_name(frame.channel or "", pointer="/body/channel")
    return ListenIntent(frame.rid, frame.sub, channel, _presence_wish(frame.presence))


def _presence_wish(form: PresenceForm | None) -> PresenceWish | None:
    if form is None:
        return None
    data = _presence_data(form.data, "/body/presence/data")
    return PresenceWish(data, form.key, form.hidden)


def _presence_data(data: dict[str, Any], pointer: str) -> bytes:
    text = to_json(data)
    if len(text) > DATA_BYTES_MAX:
        fault = f"should have at most {DATA_BYTES_MAX} bytes of JSON, not {len(text)}"
        raise GatewayError("invalid_request", fault, pointer=pointer)
    return text


def subscribe_intent(frame: SubscribeFrame, credit_max: int) -> SubscribeIntent:
    if frame.credit > credit_max:
        text = f"should be at most {credit_max}, not {frame.credit}"
        raise GatewayError("invalid_request", text, pointer="/body/credit")
    _check_needs_group(frame)
    _check_needs_table(frame)
    if (frame.stream is None) == (frame.match is None):
        raise GatewayError("invalid_request", "give stream or match", pointer="/body/stream")
    if frame.match is not None and frame.presence is not None:
        text = "presence is only allowed with one stream or channel"
        raise GatewayError("invalid_request", text, pointer="/body/presence")
    after: EntryId | From | PatternAfter
    if frame.match is not None:
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
            filters=filter_text(frame.filter, pointer="/body/filter"),
            weights=weights_of(frame.weights, pointer="/body/weights") or None,
            create=None if frame.create is None else frame.create.to_engine(),
            prefix=(frame.prefix or "").encode(errors="surrogatepass"),
        ),
        _presence_wish(frame.presence),
    )


def _check_needs_table(frame: SubscribeFrame) -> None:
    if frame.view == "entries":
        named = [name for name in _TABLE_ONLY if getattr(frame, name) is not None]
        text = "only allowed with `view: table`"
    else:
        named = [name for name in _NOT_OF_TABLES if getattr(frame, name) is not None]
        is_cursor = frame.after in ("$", "+") and "after" in frame.model_fields_set
        named += ["after"] if is_cursor else []
        text = "not allowed with `view: table`"
    if named:
        raise GatewayError("invalid_request", text, pointer=f"/body/{named[0]}")


def _check_needs_group(frame: SubscribeFrame) -> None:
    """Refuse options that only make sense with a group."""
    if frame.group is not None:
        named = [name for name in _MATCH_ONLY if getattr(frame, name) and frame.match is None]
        if named:
            text = "only allowed for a group over a pattern: give match"
            raise GatewayError("invalid_request", text, pointer=f"/body/{named[0]}")
        if "after" in frame.model_fields_set:
            text = "not allowed with a group, which has its own position"
            raise GatewayError("invalid_request", text, pointer="/body/after")
        if frame.filter is not None:
            raise GatewayError("invalid_request", OF_GROUPS, pointer="/body/filter")
        return
    named = [name for name in _GROUP_ONLY if getattr(frame, name) is not None]
    named += [name for name in _MATCH_ONLY if getattr(frame, name)]
    if frame.ack == "none":
        named.append("ack")
    if named:
        text = "only allowed with group"
        raise GatewayError("invalid_request", text, pointer=f"/body/{named[0]}")
