"""Session: the WebSocket conversation as a state machine. Frames in; frames and intents out.

The session keeps what the conversation needs to be fair: which subscriptions there are, which
entries each was sent and has not settled, and what it was last told about its state. What has to be
done at the backend comes out as an intent; when it is done, the session is told the outcome and
says what to answer.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import from_json

from headgate.app.live.frames import (
    RID_LENGTH_MAX,
    AckFrame,
    AnyClientFrame,
    AppendFrame,
    Claimed,
    CreditFrame,
    ExtendFrame,
    NackFrame,
    PingFrame,
    Pong,
    ProblemFrame,
    State,
    SubscribeFrame,
    SubscriptionFrame,
    UnsubscribeFrame,
)
from headgate.app.live.held import Held, take_away
from headgate.app.wire.encoding import EntriesText, deliveries_frame, entries_frame, settled_frame
from headgate.app.wire.ids import parse_after, parse_id, parse_ids
from headgate.app.wire.names import check_name, text_of
from headgate.app.wire.plain import plain_append
from headgate.app.wire.problems import GatewayError, Problem, problem_of, validation_problem
from headgate.app.wire.structure import SIZE_BYTES_MIN, check_members
from headgate.engine.entry import Draft, EntryId
from headgate.engine.errors import StreamError
from headgate.engine.replies import GroupRead, Outcome, StreamRead
from headgate.engine.requests import From, NackMode

INSTANCE = "/v1/ws"

_SHORT_LENGTH_MAX = 4096
"""Characters of a frame that is read soon enough as it is."""

_client_frame: TypeAdapter[Any] = TypeAdapter(AnyClientFrame)

StateName = Literal["live", "caught_up", "credit_exhausted", "max_pending"]


class NotAFrameError(Exception):
    """The client sent something that is no JSON object."""


class SubscribeIntent(NamedTuple):
    """Intent: begin to read, then call `opened`."""

    rid: str | None
    sub: str
    stream: bytes
    group: bytes | None
    consumer: bytes | None
    after: EntryId | From
    credit: int
    auto_credit: bool
    claim_idle_ms: int | None
    on_disconnect: Literal["release", "keep"] | None
    no_ack: bool


class UnsubscribeIntent(NamedTuple):
    """Intent: stop to read, then call `closed`."""

    rid: str | None
    sub: str


class CreditIntent(NamedTuple):
    """Intent: let more entries come."""

    sub: str
    entries: int


class AppendIntent(NamedTuple):
    """Intent: append at the backend."""

    rid: str | None
    stream: bytes
    drafts: list[Draft]


class AckIntent(NamedTuple):
    """Intent: acknowledge at the backend, then call `settled`."""

    rid: str | None
    sub: str
    ids: list[EntryId]


class NackIntent(NamedTuple):
    """Intent: give back at the backend, then call `settled`."""

    rid: str | None
    sub: str
    ids: list[EntryId]
    mode: NackMode
    delay_ms: int | None


class ExtendIntent(NamedTuple):
    """Intent: extend at the backend, then call `settled`."""

    rid: str | None
    sub: str
    ids: list[EntryId]


Settlement = AckIntent | NackIntent | ExtendIntent
Intent = SubscribeIntent | UnsubscribeIntent | CreditIntent | AppendIntent | Settlement


@dataclass
class _Subscription:
    settles: bool  # entries have to be settled; otherwise they are only read
    auto_credit: bool  # what is settled gives back its credit
    state: StateName = "live"  # what the client was last told
    # Sent and not settled, in the order of sending, each with its delivery count.
    held: Held = field(default_factory=dict)


class Session:
    """One conversation."""

    def __init__(self, *, subscriptions_max: int, credit_max: int, batch_entries_max: int) -> None:
        """Start a conversation without subscriptions; the bounds are those told in `welcome`."""
        self._subscriptions_max = subscriptions_max
        self._credit_max = credit_max
        self._batch_entries_max = batch_entries_max
        self._subscriptions: dict[str, _Subscription] = {}

    def receive(self, text: str) -> Intent | BaseModel:
        """Take a frame of the client; returns what to do, or what to answer.

        Raises:
            NotAFrameError: the text is no JSON object; there is no talking to this client.
        """
        plain = self._plain_append(text) if len(text) > _SHORT_LENGTH_MAX else None
        if plain is not None:
            return plain
        try:
            value = from_json(text, allow_inf_nan=False, cache_strings="keys")
        except ValueError:
            raise NotAFrameError from None
        if not isinstance(value, dict):
            raise NotAFrameError
        try:
            self._check_count(value)
            if len(text) > SIZE_BYTES_MIN:
                check_members(value)
            return self._intent(_client_frame.validate_python(value))
        except ValidationError as error:
            return _problem(value, _frame_problem(error))
        except (StreamError, GatewayError) as error:
            return _problem(value, problem_of(error, INSTANCE))

    def opened(self, intent: SubscribeIntent) -> None:
        """Note that a subscription stands."""
        settles = intent.group is not None and not intent.no_ack
        self._subscriptions[intent.sub] = _Subscription(settles, intent.auto_credit)

    def closed(self, sub: str) -> Mapping[EntryId, int]:
        """Forget a subscription; returns what it was sent and has not settled, with its counts."""
        found = self._subscriptions.pop(sub, None)
        return {} if found is None else found.held

    def settled(
        self, intent: Settlement, outcomes: Sequence[Outcome]
    ) -> tuple[Iterable[str] | None, int]:
        """Note what became of an intent; returns the answer, if one is due, and credit to add.

        The answer is one frame in parts, as it may be long. The subscription may have ended
        meanwhile: then there is nothing to note.
        """
        subscription = self._subscriptions.get(intent.sub)
        returned = 0
        for entry_id, outcome in zip(intent.ids, outcomes, strict=True):
            if subscription is None or outcome is Outcome.EXTENDED:
                continue
            if subscription.held.pop(entry_id, None) is not None and subscription.auto_credit:
                returned += 1
        is_ack = isinstance(intent, AckIntent)
        if is_ack and intent.rid is None and _is_clean(outcomes):
            return None, returned
        kind: Literal["acked", "ok"] = "acked" if is_ack else "ok"
        return settled_frame(kind, intent.rid, intent.sub, intent.ids, outcomes), returned

    def deliver_read(self, sub: str, read: StreamRead, credit: int) -> EntriesText | None:
        """Return the frame for entries of a stream, sent on so much credit; None for none."""
        count = len(read.entries)
        if not count:
            return None
        text = entries_frame(sub, read, credit_left=credit - count)
        return EntriesText(text, count)

    def deliver_group(self, sub: str, read: GroupRead, credit: int) -> EntriesText | None:
        """Return the frame for deliveries, sent on so much credit and held from now on."""
        if not read.deliveries:
            return None
        alive = [one for one in read.deliveries if one.fields is not None]
        gone = [str(one.id) for one in read.deliveries if one.fields is None]
        count = len(alive)
        subscription = self._subscriptions[sub]
        if subscription.settles:
            subscription.held.update({one.id: one.delivery_count for one in alive})
        text = deliveries_frame(sub, alive, gone, credit_left=credit - count, lag=read.lag)
        return EntriesText(text, count)

    def taken_over(self, sub: str, counts: Mapping[EntryId, int], by: bytes) -> Claimed | None:
        """Note that another consumer has entries now; returns the frame if they were held here.

        Args:
            sub: the subscription that held them.
            counts: their delivery counts before; what came back since has a greater one.
            by: who has them now.
        """
        lost = take_away(self._subscriptions[sub].held, counts)
        return Claimed(sub=sub, ids=list(map(str, lost)), by=text_of(by)) if lost else None

    def state_after(self, sub: str, read: StreamRead | GroupRead, credit: int) -> State | None:
        """Return the frame that tells why nothing comes now, or that it does; None if known."""
        if credit <= 0:
            state: StateName = "credit_exhausted"
        elif isinstance(read, StreamRead):
            state = "caught_up" if read.next_after >= read.last_id else "live"
        else:
            state = read.state.value
        return self._state(sub, state)

    def _state(self, sub: str, state: StateName) -> State | None:
        subscription = self._subscriptions[sub]
        if subscription.state == state:
            return None
        subscription.state = state
        return State(sub=sub, state=state)

    def _intent(self, frame: BaseModel) -> Intent | BaseModel:
        match frame:
            case PingFrame(rid=rid):
                return Pong(rid=rid)
            case SubscribeFrame():
                return self._subscribe(frame)
            case UnsubscribeFrame(rid=rid, sub=sub):
                self._subscription(sub)
                return UnsubscribeIntent(rid, sub)
            case AppendFrame():
                return self._append(frame)
            case CreditFrame(sub=sub, entries=entries):
                self._subscription(sub)
                return CreditIntent(sub, entries)
            case SubscriptionFrame(sub=sub):
                return self._settlement(frame, self._subscription(sub))
        raise AssertionError(f"a frame of an unknown type: {frame!r}")

    def _settlement(self, frame: SubscriptionFrame, subscription: _Subscription) -> Settlement:
        if not subscription.settles:
            text = f"in subscription {frame.sub!r} there is nothing to settle"
            raise GatewayError("invalid_request", text, pointer="/body/sub")
        match frame:
            case AckFrame(rid=rid, sub=sub):
                return AckIntent(rid, sub, _acked_ids(frame, subscription))
            case NackFrame(rid=rid, sub=sub, ids=ids, mode=mode, delay_ms=delay_ms):
                return NackIntent(rid, sub, parse_ids(ids), NackMode(mode), delay_ms)
            case ExtendFrame(rid=rid, sub=sub, ids=ids):
                return ExtendIntent(rid, sub, parse_ids(ids))
        raise AssertionError(f"a frame of an unknown type: {frame!r}")

    def _subscription(self, sub: str) -> _Subscription:
        found = self._subscriptions.get(sub)
        if found is None:
            text = f"there is no subscription {sub!r}"
            raise GatewayError("not_found", text, pointer="/body/sub")
        return found

    def _subscribe(self, frame: SubscribeFrame) -> SubscribeIntent:
        if frame.sub in self._subscriptions:
            text = f"there is a subscription {frame.sub!r} already"
            raise GatewayError("invalid_request", text, pointer="/body/sub")
        if len(self._subscriptions) >= self._subscriptions_max:
            text = f"a connection has at most {self._subscriptions_max} subscriptions"
            raise GatewayError("invalid_request", text, pointer="/body/sub")
        if frame.credit > self._credit_max:
            text = f"at most {self._credit_max}, not {frame.credit}"
            raise GatewayError("invalid_request", text, pointer="/body/credit")
        _check_needs_group(frame)
        return SubscribeIntent(
            frame.rid,
            frame.sub,
            check_name(frame.stream, pointer="/body/stream"),
            None if frame.group is None else check_name(frame.group, pointer="/body/group"),
            _name_or_none(frame.consumer, "/body/consumer"),
            parse_after(frame.after, field="/body/after"),
            frame.credit,
            frame.auto_credit,
            frame.claim_idle_ms,
            frame.on_disconnect,
            no_ack=frame.ack == "none",
        )

    def _plain_append(self, text: str) -> AppendIntent | None:
        """Take a frame that appends plain entries; None if it does not, or something is wrong."""
        found = plain_append(text, self._batch_entries_max)
        if found is None or len(found.rid or "") > RID_LENGTH_MAX:
            return None
        with suppress(StreamError, GatewayError):
            return AppendIntent(
                found.rid, check_name(found.stream, pointer="/body/stream"), found.drafts
            )
        return None

    def _check_count(self, value: dict[str, Any]) -> None:
        """Refuse too many entries before they are looked at."""
        entries = value.get("entries")
        if isinstance(entries, list) and len(entries) > self._batch_entries_max:
            text = f"at most {self._batch_entries_max} entries, not {len(entries)}"
            raise GatewayError("invalid_request", text, pointer="/body/entries")

    def _append(self, frame: AppendFrame) -> AppendIntent:
        drafts = [
            entry.to_draft(f"/body/entries/{index}") for index, entry in enumerate(frame.entries)
        ]
        return AppendIntent(frame.rid, check_name(frame.stream, pointer="/body/stream"), drafts)


_GROUP_ONLY = ("consumer", "claim_idle_ms", "on_disconnect")


def _check_needs_group(frame: SubscribeFrame) -> None:
    """Refuse what has no meaning for this kind of subscription: it would be ignored."""
    if frame.group is not None:
        if "after" in frame.model_fields_set:
            text = "a group has its own position; its consumers cannot choose one"
            raise GatewayError("invalid_request", text, pointer="/body/after")
        return
    named = [name for name in _GROUP_ONLY if getattr(frame, name) is not None]
    if frame.ack == "none":
        named.append("ack")
    if named:
        text = "this is for subscriptions to a group"
        raise GatewayError("invalid_request", text, pointer=f"/body/{named[0]}")


def _name_or_none(name: str | None, pointer: str) -> bytes | None:
    return None if name is None else check_name(name, pointer=pointer)


def _acked_ids(frame: AckFrame, subscription: _Subscription) -> list[EntryId]:
    if (frame.ids is None) == (frame.up_to is None):
        raise GatewayError("invalid_request", "give ids or up_to", pointer="/body/ids")
    if frame.ids is not None:
        return parse_ids(frame.ids)
    up_to = parse_id(frame.up_to or "", field="/body/up_to")
    return [entry_id for entry_id in subscription.held if entry_id <= up_to]


def _is_clean(outcomes: Sequence[Outcome]) -> bool:
    return all(outcome is Outcome.ACKED for outcome in outcomes)


def _problem(value: dict[str, Any], problem: Problem) -> ProblemFrame:
    """Return the answer to a frame that is wrong, so that its client can tell which one it was."""
    rid, sub = value.get("rid"), value.get("sub")
    return ProblemFrame(
        rid=rid if isinstance(rid, str) and len(rid) <= RID_LENGTH_MAX else None,
        sub=sub if isinstance(sub, str) and len(sub) <= RID_LENGTH_MAX else None,
        problem=problem,
    )


def _frame_problem(error: ValidationError) -> Problem:
    found = error.errors(include_url=False, include_input=False)
    for one in found:  # the first part is the frame type, which the client knows
        one["loc"] = one["loc"][1:] or ("type",)
    return validation_problem(found, INSTANCE, prefix="/body")
