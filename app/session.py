"""Session: the WebSocket conversation as a state machine. Frames in; frames and intents out.

This is the short form: one subscription, named "0", described by the URL. The session keeps what
the conversation needs to be fair: how much credit the client has given, and which entries it holds
and has not settled. What has to be done at the backend comes out as an intent; when it is done,
the session is told the outcome and says what to answer.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import from_json

from app.ids import parse_id, parse_ids
from app.problems import GatewayError, Problem, make_problem, problem_of, validation_problem
from app.schemas import Delivery, Entry, Gap, IdText, Settled, deliveries_of
from app.structure import check_members
from engine.decisions.deliveries import NackMode
from engine.entry import EntryId
from engine.errors import StreamError
from engine.replies import GroupRead, Outcome, StreamRead

SUBSCRIPTION: Literal["0"] = "0"
"""The name of the short form's only subscription."""

INSTANCE = "/v1/ws"
_FRAME_IDS_MAX = 10_000
_RID_LENGTH_MAX = 64

Rid = Annotated[
    str | None, Field(None, max_length=_RID_LENGTH_MAX, description="Repeated in the answer.")
]


class ClientFrame(BaseModel):
    """What a client may say: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class SubscriptionFrame(ClientFrame):
    """A frame about the subscription."""

    sub: Literal["0"] = SUBSCRIPTION


class CreditFrame(SubscriptionFrame):
    """Let so many more entries come; never answered."""

    type: Literal["credit"]
    entries: Annotated[int, Field(ge=1, strict=True)]


class AckFrame(SubscriptionFrame):
    """Acknowledge entries: by id, or all sent up to one."""

    type: Literal["ack"]
    rid: Rid = None
    ids: Annotated[list[IdText], Field(fail_fast=True)] | None = Field(
        None, min_length=1, max_length=_FRAME_IDS_MAX
    )
    up_to: IdText | None = None


class NackFrame(SubscriptionFrame):
    """Give entries back."""

    type: Literal["nack"]
    rid: Rid = None
    ids: Annotated[list[IdText], Field(fail_fast=True)] = Field(
        min_length=1, max_length=_FRAME_IDS_MAX
    )
    mode: Literal["silent", "fail", "fatal"] = "fail"


class ExtendFrame(SubscriptionFrame):
    """Restart the idle clock of entries."""

    type: Literal["extend"]
    rid: Rid = None
    ids: Annotated[list[IdText], Field(fail_fast=True)] = Field(
        min_length=1, max_length=_FRAME_IDS_MAX
    )


class PingFrame(ClientFrame):
    """Ask for a pong."""

    type: Literal["ping"]
    rid: Rid = None


AnyClientFrame = Annotated[
    CreditFrame | AckFrame | NackFrame | ExtendFrame | PingFrame, Field(discriminator="type")
]
_client_frame: TypeAdapter[Any] = TypeAdapter(AnyClientFrame)
_NOT_SERVED_YET = frozenset({"subscribe", "unsubscribe", "append"})


class Subscribed(BaseModel):
    """The subscription stands."""

    type: Literal["subscribed"] = "subscribed"
    sub: str = SUBSCRIPTION
    position: IdText = Field(description="Entries come from after this id.")
    consumer: str | None = None
    pending: int | None = Field(None, description="Entries the consumer holds already.")
    gap: Gap | None = None


class Entries(BaseModel):
    """Entries, as many as were ready."""

    type: Literal["entries"] = "entries"
    sub: str = SUBSCRIPTION
    entries: list[Entry] | list[Delivery]
    deleted_ids: list[IdText] | None = None
    credit_left: int
    lag: int | None = None


class Acked(BaseModel):
    """What became of each id of an ack."""

    type: Literal["acked"] = "acked"
    rid: str | None = None
    sub: str = SUBSCRIPTION
    results: list[Settled]


class Ok(BaseModel):
    """What became of each id of a nack or extend."""

    type: Literal["ok"] = "ok"
    rid: str | None = None
    sub: str = SUBSCRIPTION
    results: list[Settled]


class Pong(BaseModel):
    """The answer to a ping."""

    type: Literal["pong"] = "pong"
    rid: str | None = None


class ProblemFrame(BaseModel):
    """A frame that could not be served, or the end of the subscription."""

    type: Literal["problem"] = "problem"
    rid: str | None = None
    problem: Problem


class NotAFrameError(Exception):
    """The client sent something that is no JSON object."""


class AddCredit(NamedTuple):
    """Intent: let more entries come."""

    entries: int


class Ack(NamedTuple):
    """Intent: acknowledge at the backend, then call `settled`."""

    rid: str | None
    ids: list[EntryId]


class Nack(NamedTuple):
    """Intent: give back at the backend, then call `settled`."""

    rid: str | None
    ids: list[EntryId]
    mode: NackMode


class Extend(NamedTuple):
    """Intent: extend at the backend, then call `settled`."""

    rid: str | None
    ids: list[EntryId]


Settlement = Ack | Nack | Extend
Intent = AddCredit | Settlement


class Session:
    """One conversation."""

    def __init__(self, *, is_group: bool, auto_credit: bool) -> None:
        """Start a conversation that holds nothing.

        Args:
            is_group: entries have to be settled; otherwise they are only read.
            auto_credit: what is settled gives back its credit.
        """
        self._is_group = is_group
        self._auto_credit = auto_credit
        # Sent and not settled, in the order of sending, each with its delivery count.
        self._held: dict[EntryId, int] = {}

    @property
    def held(self) -> Mapping[EntryId, int]:
        """Return what was sent and is not settled, in the order of sending, with its counts."""
        return self._held

    def receive(self, text: str) -> Intent | BaseModel:
        """Take a frame of the client; returns what to do, or what to answer.

        Raises:
            NotAFrameError: the text is no JSON object; there is no talking to this client.
        """
        try:
            value = from_json(text, allow_inf_nan=False)
        except ValueError:
            raise NotAFrameError from None
        if not isinstance(value, dict):
            raise NotAFrameError
        try:
            check_members(value)
            return self._intent(_client_frame.validate_python(value))
        except ValidationError as error:
            return ProblemFrame(rid=_rid_of(value), problem=_frame_problem(error, value))
        except (StreamError, GatewayError) as error:
            return ProblemFrame(rid=_rid_of(value), problem=problem_of(error, INSTANCE))

    def settled(
        self, intent: Settlement, outcomes: Sequence[Outcome]
    ) -> tuple[Acked | Ok | None, int]:
        """Note what became of an intent; returns the answer, if one is due, and credit to add."""
        returned = 0
        for entry_id, outcome in zip(intent.ids, outcomes, strict=True):
            if outcome is not Outcome.EXTENDED and entry_id in self._held:
                del self._held[entry_id]
                returned += 1
        pairs = zip(intent.ids, outcomes, strict=True)
        results = [Settled(id=str(one), outcome=outcome) for one, outcome in pairs]
        answer: Acked | Ok | None = None
        if isinstance(intent, Ack):
            answer = Acked(rid=intent.rid, results=results)
        else:
            answer = Ok(rid=intent.rid, results=results)
        is_silent = isinstance(intent, Ack) and intent.rid is None and _is_clean(outcomes)
        return (None if is_silent else answer), (returned if self._auto_credit else 0)

    def deliver_read(self, read: StreamRead, credit: int) -> Entries:
        """Return the frame for entries of a stream, sent on so much credit."""
        entries = [Entry.of(one) for one in read.entries]
        return Entries(entries=entries, credit_left=credit - len(entries))

    def deliver_group(self, read: GroupRead, credit: int) -> Entries:
        """Return the frame for deliveries, sent on so much credit and held from now on."""
        entries, gone = deliveries_of(read.deliveries)
        frame = Entries(entries=entries, credit_left=credit - len(entries), lag=read.lag)
        for one in read.deliveries:
            if one.fields is not None:
                self._held[one.id] = one.delivery_count
        if gone:
            frame.deleted_ids = gone
        return frame

    def _intent(self, frame: BaseModel) -> Intent | BaseModel:
        match frame:
            case CreditFrame(entries=entries):
                return AddCredit(entries)
            case PingFrame(rid=rid):
                return Pong(rid=rid)
            case _ if not self._is_group:
                text = "this subscription has no group, so there is nothing to settle"
                raise GatewayError("invalid_request", text, pointer="/body/type")
            case AckFrame():
                return Ack(frame.rid, self._acked_ids(frame))
            case NackFrame(rid=rid, ids=ids, mode=mode):
                return Nack(rid, parse_ids(ids), NackMode(mode))
            case ExtendFrame(rid=rid, ids=ids):
                return Extend(rid, parse_ids(ids))
        raise AssertionError(f"a frame of an unknown type: {frame!r}")

    def _acked_ids(self, frame: AckFrame) -> list[EntryId]:
        if (frame.ids is None) == (frame.up_to is None):
            raise GatewayError("invalid_request", "give ids or up_to", pointer="/body/ids")
        if frame.ids is not None:
            return parse_ids(frame.ids)
        up_to = parse_id(frame.up_to or "", field="/body/up_to")
        return [entry_id for entry_id in self._held if entry_id <= up_to]


def _is_clean(outcomes: Sequence[Outcome]) -> bool:
    return all(outcome is Outcome.ACKED for outcome in outcomes)


def _rid_of(value: dict[str, Any]) -> str | None:
    """Return the rid of a frame that is wrong otherwise, so that its answer can be told apart."""
    rid = value.get("rid")
    return rid if isinstance(rid, str) and len(rid) <= _RID_LENGTH_MAX else None


def _frame_problem(error: ValidationError, value: dict[str, Any]) -> Problem:
    kind = value.get("type")
    if isinstance(kind, str) and kind in _NOT_SERVED_YET:
        detail = f"frames of type {kind!r} are not served by this version yet"
        return make_problem("invalid_request", detail, INSTANCE)
    found = error.errors(include_url=False, include_input=False)
    for one in found:  # the first part is the frame type, which the client knows
        one["loc"] = one["loc"][1:]
    return validation_problem(found, INSTANCE, prefix="/body")
