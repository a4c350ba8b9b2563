"""Client frames: one model per type of frame that a client sends. AsyncAPI is made of them.

Whatever carries a `rid` is answered exactly once, with that `rid`.
"""

from contextlib import suppress
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, SecretStr, TypeAdapter, ValidationError
from pydantic_core import from_json

from headgate.app.auth.grants import Verb
from headgate.app.auth.needs import OPEN, Needs
from headgate.app.live.intents import (
    AppendIntent,
    CommitIntent,
    PatternAfter,
    SubscribeIntent,
    SubscriptionChoices,
)
from headgate.app.wire.filters import OF_GROUPS, FilterForm, filter_text
from headgate.app.wire.ids import parse_after, parse_pattern_after
from headgate.app.wire.names import check_name, check_pattern
from headgate.app.wire.plain import plain_append
from headgate.app.wire.problems import GatewayError, Problem, validation_problem
from headgate.app.wire.schemas.commits import CommitInput
from headgate.app.wire.schemas.deliveries import NackError
from headgate.app.wire.schemas.entries import EntryInput, Flag, IdText, Milliseconds, OnDisconnect
from headgate.app.wire.schemas.pattern_groups import NewGroups, Weights, weights_of
from headgate.app.wire.structure import SIZE_BYTES_MIN, check_members
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
    str, Field(min_length=1, max_length=SUB_LENGTH_MAX, description="The client's name for it.")
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


class SubscribeFrame(ClientFrame):
    """Begin to read: a stream or all that match after a cursor, or as a consumer of a group."""

    needs = Needs(frozenset({Verb.READ, Verb.CONSUME}))

    type: Literal["subscribe"]
    rid: Rid = None
    sub: Sub
    stream: str | None = None
    match: str | None = Field(
        None,
        description="In place of a stream: all streams whose names match this pattern of Redis, "
        "those that are made later included. With a group: the group of that name in each of them.",
    )
    create: NewGroups | None = Field(
        None, description="With `match` and a group: create it where there is none."
    )
    weights: Weights = Field({})
    group: str | None = Field(None, description="Read as a consumer of this group.")
    consumer: str | None = Field(
        None, description="Its consumer; without a name one is made, and removed in the end."
    )
    after: str = Field(
        "$",
        description="Without a group: an id, `$` for from now on, `+` for the last entry; with "
        "`match` a `position`, an id or `$`.",
    )
    filter: FilterForm | None = Field(
        None, description="Without a group: only entries come for which it holds."
    )
    view: Literal["entries", "table"] = Field(
        "entries",
        description="`table`: all rows of a stream with a `key_field` come first, and then each "
        "change, in frames `rows`. With an id as `after`, only the changes.",
    )
    prefix: str | None = Field(
        None,
        max_length=ROW_KEY_BYTES_MAX,
        description="Of a table: only rows whose keys begin with it.",
    )
    conflate_ms: Annotated[int, Field(ge=1, le=CONFLATE_MS_MAX, strict=True)] | None = Field(
        None,
        description="Of a table: collect changes for so long, and send only the newest of a row.",
    )
    credit: Annotated[int, Field(ge=1, strict=True)] = Field(
        64, description="Number of entries that may come before more credit is given."
    )
    frame_bytes_max: FrameBytes | None = Field(
        None,
        description="Bytes of a frame that the client takes. An entry that takes more, even alone, "
        "ends the subscription with a problem that names it. Entries come together in a frame of "
        "up to 1 MiB, whatever is said here, and an entry that is larger comes alone.",
    )
    auto_credit: Flag = Field(
        False, description="A settled or claimed entry gives its credit back."
    )
    claim_idle_ms: Annotated[int, Field(ge=0, le=COUNT_MAX, strict=True)] | None = Field(
        None, description="Also take entries pending with anybody and idle for so long."
    )
    on_disconnect: OnDisconnect | None = Field(
        None, description="Treatment of entries that are not settled in the end."
    )
    ack: Literal["explicit", "none"] = Field(
        "explicit", description="`none`: entries are done with as they are sent."
    )


class UnsubscribeFrame(ClientFrame):
    """End a subscription; what is not settled goes back, or is kept."""

    needs = OPEN

    type: Literal["unsubscribe"]
    rid: Rid = None
    sub: Sub


class CreditFrame(SubscriptionFrame):
    """Let so many more entries come; never answered."""

    needs = OPEN

    type: Literal["credit"]
    entries: Annotated[int, Field(ge=1, le=COUNT_MAX, strict=True)]


class SettlingFrame(SubscriptionFrame):
    """A frame about entries that were sent."""

    stream: str | None = Field(None, description="With `match`: the stream of these entries.")


class AckFrame(SettlingFrame):
    """Acknowledge entries: by id, or all sent up to one."""

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
    delay_ms: Milliseconds | None = Field(None, description="Nobody gets them before that.")
    error: NackError | None = Field(None, description="Error of the consumer.")


class ExtendFrame(SettlingFrame):
    """Restart the idle clock of entries."""

    needs = Needs(frozenset({Verb.CONSUME}))

    type: Literal["extend"]
    rid: Rid = None
    ids: FrameIds


class AppendFrame(ClientFrame):
    """Append entries, all or none."""

    needs = Needs(frozenset({Verb.APPEND}))

    type: Literal["append"]
    rid: Rid = None
    stream: str
    entries: Annotated[list[EntryInput], Field(fail_fast=True, min_length=1)]


class CommitFrame(CommitInput, ClientFrame):
    """Carry out steps together: all of them, at one moment, or none."""

    needs = Needs()

    type: Literal["commit"]
    rid: Rid = None
    consumer: str | None = Field(None, description="The consumer that settles entries.")
    idempotency_key: str | None = Field(
        None,
        min_length=1,
        max_length=256,
        description="Names this commit: sent again with the same key, it changes nothing and has "
        "the same answer.",
    )


class PingFrame(ClientFrame):
    """Ask for a pong."""

    needs = OPEN

    type: Literal["ping"]
    rid: Rid = None


class AuthFrame(ClientFrame):
    """Present a credential, or renew it before it ends.

    It is the first frame where the handshake carries no credential. A renewal is of the same
    principal. Subscriptions that it does not allow end; all others go on without a gap.
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
        raise BadFramesError("a frame is one JSON object")
    return value


def frame_of(value: dict[str, Any], length: int, batch_entries_max: int) -> ClientFrame:
    """Return a frame; `length` is that of its text."""
    entries = value.get("entries")
    if isinstance(entries, list) and len(entries) > batch_entries_max:
        text = f"at most {batch_entries_max} entries, not {len(entries)}"
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


def append_intent(frame: AppendFrame) -> AppendIntent:
    drafts = [entry.to_draft(f"/body/entries/{index}") for index, entry in enumerate(frame.entries)]
    return AppendIntent(frame.rid, check_name(frame.stream, pointer="/body/stream"), drafts)


def commit_intent(frame: CommitFrame) -> CommitIntent:
    key = None if frame.idempotency_key is None else frame.idempotency_key.encode()
    return CommitIntent(frame.rid, frame, frame.to_request(None, key=key))


def subscribe_intent(frame: SubscribeFrame, credit_max: int) -> SubscribeIntent:
    if frame.credit > credit_max:
        text = f"at most {credit_max}, not {frame.credit}"
        raise GatewayError("invalid_request", text, pointer="/body/credit")
    _check_needs_group(frame)
    _check_needs_table(frame)
    if (frame.stream is None) == (frame.match is None):
        raise GatewayError("invalid_request", "give stream or match", pointer="/body/stream")
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
    )


def _check_needs_table(frame: SubscribeFrame) -> None:
    if frame.view == "entries":
        named = [name for name in _TABLE_ONLY if getattr(frame, name) is not None]
        text = "only with `view: table`"
    else:
        named = [name for name in _NOT_OF_TABLES if getattr(frame, name) is not None]
        is_cursor = frame.after in ("$", "+") and "after" in frame.model_fields_set
        named += ["after"] if is_cursor else []
        text = "not with `view: table`"
    if named:
        raise GatewayError("invalid_request", text, pointer=f"/body/{named[0]}")


def _check_needs_group(frame: SubscribeFrame) -> None:
    """Refuse options that only make sense with a group."""
    if frame.group is not None:
        named = [name for name in _MATCH_ONLY if getattr(frame, name) and frame.match is None]
        if named:
            text = "this is for a group over a pattern: give match"
            raise GatewayError("invalid_request", text, pointer=f"/body/{named[0]}")
        if "after" in frame.model_fields_set:
            text = "a group has its own position; its consumers cannot choose one"
            raise GatewayError("invalid_request", text, pointer="/body/after")
        if frame.filter is not None:
            raise GatewayError("invalid_request", OF_GROUPS, pointer="/body/filter")
        return
    named = [name for name in _GROUP_ONLY if getattr(frame, name) is not None]
    named += [name for name in _MATCH_ONLY if getattr(frame, name)]
    if frame.ack == "none":
        named.append("ack")
    if named:
        text = "this is for subscriptions to a group"
        raise GatewayError("invalid_request", text, pointer=f"/body/{named[0]}")
