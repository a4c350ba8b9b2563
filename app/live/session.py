"""Session: the WebSocket conversation as a state machine without I/O.

It has the shape of websockets' own protocol. Whoever has the socket calls `receive` with each frame
of the client, carries out the intent that comes back, calls `done` with what became of it, calls
`followed` with what a subscription yields, and after each of them sends what `frames_to_send` has.

What a frame does goes by the state of the subscription that it names:

| frame             | none      | opening   | reading   | holding   | closing   |
|-------------------|-----------|-----------|-----------|-----------|-----------|
| subscribe         | → opening | refused   | refused   | refused   | refused   |
| unsubscribe       | not found | not found | → closing | → closing | not found |
| credit            | not found | not found | intent    | intent    | not found |
| ack, nack, extend | not found | not found | refused   | intent    | not found |
| append, commit    | whatever the state: an intent                             |
| publish, presence | whatever the state: an intent                             |
| ping              | whatever the state: a pong                                |
| auth              | whatever the state: an intent                             |

An arrow is an intent, and the next state. `opening` becomes `reading` when the subscription stands
and nothing in it has to be settled (a stream, or a group without acks), `holding` when something
has (a group), and `none` if it is refused. `closing` becomes `none` when it is done, and any state
does when the subscription ends by itself. *Refused* and *not found* are problems: nothing changes.

Where the handshake does not say who is there, the first frame must be `auth`; until it is done no
other frame is taken, and nothing is sent.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum, auto
from typing import Any, NamedTuple, TypeVar, overload

from pydantic import BaseModel, ValidationError

from headgate.app.auth.principal import Principal, Unauthenticated
from headgate.app.channels.message import ChannelMessage
from headgate.app.live.followed import (
    AtEnd,
    ClaimedAway,
    Ended,
    Followed,
    GroupBatch,
    GroupsBatch,
    Heard,
    Held,
    MembersPage,
    PatternBatch,
    Ready,
    RowsBatch,
    State,
    StreamBatch,
)
from headgate.app.live.frames.channels import heard_frame, message_frame
from headgate.app.live.frames.client import (
    FRAME_IDS_MAX,
    INSTANCE,
    RID_LENGTH_MAX,
    AckFrame,
    AppendFrame,
    AuthFrame,
    BadFramesError,
    ClientFrame,
    CommitFrame,
    CreditFrame,
    ExtendFrame,
    NackFrame,
    PingFrame,
    PresenceFrame,
    PublishFrame,
    SettlingFrame,
    SubscribeFrame,
    SubscriptionFrame,
    UnsubscribeFrame,
    append_intent,
    commit_intent,
    frame_of,
    frame_problem,
    json_object,
    listen_intent,
    plain_append_intent,
    plain_publish_intent,
    presence_intent,
    publish_intent,
    subscribe_intent,
)
from headgate.app.live.frames.entries import (
    FrameOf,
    LastFrame,
    changes_frames,
    deliveries_frames,
    entries_frames,
    groups_frames,
    pattern_frames,
    rows_frames,
    settled_frame,
)
from headgate.app.live.frames.server import (
    Acked,
    AppendedFrame,
    Authenticated,
    Claimed,
    Closed,
    CommitProblemFrame,
    CommittedFrame,
    Noted,
    Ok,
    Pong,
    ProblemFrame,
    PublishedFrame,
    Subscribed,
    Unsubscribed,
    Welcome,
)
from headgate.app.live.frames.server import State as StateFrame
from headgate.app.live.intents import (
    AckIntent,
    AppendIntent,
    AuthIntent,
    CommitIntent,
    CreditIntent,
    ExtendIntent,
    Intent,
    ListenIntent,
    NackIntent,
    PatternAfter,
    PresenceIntent,
    PublishIntent,
    Settlement,
    SubscribeIntent,
    UnsubscribeIntent,
)
from headgate.app.wire.encoding import gap_wire, is_position_news
from headgate.app.wire.ids import parse_id, parse_ids
from headgate.app.wire.names import check_name, text_of
from headgate.app.wire.problems import (
    FrameTooLarge,
    GatewayError,
    Problem,
    place_drafts,
    problem_of,
)
from headgate.app.wire.schemas.commits import commit_wire
from headgate.app.wire.schemas.limits import ConnectionLimits
from headgate.engine import errors
from headgate.engine.entry import MIN_ID, EntryId
from headgate.engine.errors import StreamError
from headgate.engine.replies import CommittedSteps, Outcome
from headgate.engine.requests.deliveries import NackMode

Text = str | Iterator[str]
"""A frame; one that may be long comes in parts, with time for others in between."""

_last_frame = LastFrame()


class _Due:
    """An answer whose place in the order is fixed; its content may not be known yet."""

    __slots__ = ("intent", "is_known", "texts")

    def __init__(self, intent: Intent | None, *texts: Text) -> None:
        self.intent = intent
        self.texts = texts
        self.is_known = intent is None


class OrderedAnswers:
    """The frames to send to a client; answers keep the order of the frames they answer."""

    __slots__ = ("_due", "_ready")

    def __init__(self) -> None:
        self._due: list[_Due] = []
        self._ready: list[Text] = []

    def say(self, text: Text) -> None:
        """Send a frame that is no answer: it waits for none."""
        self._ready.append(text)

    def answer(self, text: Text) -> None:
        """Answer a frame at once, but after the answers to earlier frames."""
        if self._due:
            self._due.append(_Due(None, text))
        else:
            self._ready.append(text)

    def expect(self, intent: Intent) -> None:
        """Reserve the place of the answer to an intent."""
        self._due.append(_Due(intent))

    def done(self, intent: Intent, *texts: Text) -> None:
        for due in self._due:
            if due.intent is intent:
                due.texts, due.is_known = texts, True
                break
        while self._due and self._due[0].is_known:
            self._ready += self._due.pop(0).texts

    @property
    def is_empty(self) -> bool:
        return not self._ready

    def take(self) -> list[Text]:
        frames, self._ready = self._ready, []
        return frames


_FIRST_FRAME = "The handshake has no credential: send a frame of type `auth` first."

_FIRST_LENGTH_MAX = 16 * 1024
"""Characters of it: nobody reads a long frame of somebody who is not known."""

_BAD_FRAMES_MAX = 1000
"""Frames in a row that make no sense: then the conversation is over. Each after the first"""
_BAD_FRAMES_FREE = 100
_BAD_FRAME_S = 0.002
"""costs its client so long."""

Refusal = StreamError | GatewayError

T = TypeVar("T")


class Phase(Enum):
    OPENING = auto()
    READING = auto()
    HOLDING = auto()
    CLOSING = auto()


class _Known(NamedTuple):
    phase: Phase
    held: Held | None = None  # what it was sent and has to settle
    is_of_pattern: bool = False
    frame_bytes_max: int | None = None  # that its client takes
    table_fields: tuple[bytes, bytes] | None = None  # of key and tombstone, if it follows rows


class Session:
    __slots__ = (
        "_answers",
        "_bad_count",
        "_is_known",
        "_known",
        "_limits",
        "_request_id",
        "_welcome",
    )

    def __init__(
        self,
        name: str,
        limits: ConnectionLimits,
        *,
        is_known: bool = True,
        request_id: str | None = None,
    ) -> None:
        self._request_id = request_id
        self._limits = limits  # of all connections: the frame has a copy, which takes a kilobyte
        self._welcome: Welcome | None = Welcome.of(name, limits)
        self._is_known = False
        self._known: dict[str, _Known] = {}
        self._answers = OrderedAnswers()
        self._bad_count = 0  # frames in a row that made no sense
        if is_known:
            self._begin()

    @property
    def is_known(self) -> bool:
        return self._is_known

    @property
    def pause_s(self) -> float:
        """Return the pause before the next frame; it slows a client that sends only nonsense."""
        return _BAD_FRAME_S if self._bad_count > _BAD_FRAMES_FREE else 0

    def frames_to_send(self) -> list[Text]:
        return self._answers.take()

    def say(self, frame: BaseModel) -> None:
        self._answers.say(self._text(frame))

    def receive(self, text: str) -> Intent | None:
        """Take a frame of the client; return what has to be done for it, if anything.

        Raises BadFramesError if the frame is invalid and the connection ends, and Unauthenticated
        if the client is not known and this frame has no credential.
        """
        intent: Intent | None = None
        if self._is_known:
            intent = plain_publish_intent(text) or plain_append_intent(
                text, self._limits.batch_entries_max
            )
        elif len(text) > _FIRST_LENGTH_MAX:
            raise Unauthenticated(_FIRST_FRAME)
        if intent is None:
            value = json_object(text)
            if not self._is_known and value.get("type") != "auth":
                raise Unauthenticated(_FIRST_FRAME)
            try:
                frame = frame_of(value, len(text), self._limits.batch_entries_max)
                intent = self._intent(frame)
            except ValidationError as error:
                self._refuse(value, frame_problem(error))
                return None
            except (StreamError, GatewayError) as error:
                self._refuse(value, problem_of(error, INSTANCE))
                return None
        self._bad_count = 0
        if intent is not None and not isinstance(intent, CreditIntent):
            self._answers.expect(intent)
        return intent

    def subscribe(self, intent: SubscribeIntent) -> None:
        self._known[intent.sub] = _Known(
            Phase.OPENING, frame_bytes_max=intent.choices.frame_bytes_max
        )
        self._answers.expect(intent)

    @overload
    def done(self, intent: SubscribeIntent, outcome: Ready | Refusal) -> None: ...
    @overload
    def done(self, intent: ListenIntent, outcome: Refusal | None) -> None: ...
    @overload
    def done(self, intent: PublishIntent, outcome: int | Refusal) -> None: ...
    @overload
    def done(self, intent: PresenceIntent, outcome: Refusal | None) -> None: ...
    @overload
    def done(self, intent: UnsubscribeIntent | CreditIntent, outcome: None) -> None: ...
    @overload
    def done(self, intent: AuthIntent, outcome: Principal | Refusal) -> None: ...
    @overload
    def done(self, intent: AppendIntent, outcome: Sequence[EntryId] | Refusal) -> None: ...
    @overload
    def done(self, intent: CommitIntent, outcome: CommittedSteps | Refusal) -> None: ...
    @overload
    def done(self, intent: Settlement, outcome: Sequence[Outcome] | Refusal) -> None: ...
    def done(self, intent: Intent, outcome: Any) -> None:
        """Take the outcome or the error of an intent, and answer if an answer is due."""
        if isinstance(intent, CreditIntent):
            return
        answers: Iterable[Text]
        if isinstance(outcome, Refusal):
            answers = [self._refused(intent, outcome)]
        elif isinstance(intent, Settlement):
            answers = _settled(intent, outcome)
        elif isinstance(intent, PublishIntent | PresenceIntent) and intent.rid is None:
            answers = ()
        else:
            answers = [self._text(self._answer(intent, outcome))]
        self._answers.done(intent, *answers)

    def _answer(self, intent: Intent, outcome: Any) -> BaseModel:
        match intent:
            case UnsubscribeIntent(rid, sub):
                self._known.pop(sub, None)
                return Unsubscribed(rid=rid, sub=sub, reason="requested")
            case SubscribeIntent():
                return self._subscribed(intent, outcome)
            case ListenIntent(rid, sub):
                self._known[sub] = _Known(Phase.READING)
                return Subscribed(rid=rid, sub=sub, position=str(MIN_ID))
            case PublishIntent(rid):
                return PublishedFrame(rid=rid, receivers=outcome)
            case PresenceIntent(rid, sub):
                return Noted(rid=rid, sub=sub)
            case AuthIntent(rid):
                return self._authenticated(rid, outcome)
            case AppendIntent(rid):
                return AppendedFrame(rid=rid, ids=list(map(str, outcome)))
            case CommitIntent(rid):
                repeated, results = outcome.is_repeat or None, commit_wire(outcome)["results"]
                return CommittedFrame(rid=rid, results=results, repeated=repeated)
        raise AssertionError(f"an intent without an answer: {intent!r}")

    def followed(self, sub: str, item: Followed) -> None:
        """Take an item of a subscription, and tell the client, or raise FrameTooLarge."""
        match item:
            case StreamBatch() | RowsBatch() | PatternBatch() | GroupBatch() | GroupsBatch():
                for frame in _entries_frames(self._of(sub), item, self._table_fields(sub)):
                    self._answers.say(frame)
            case Heard() | MembersPage():
                self._answers.say(heard_frame(sub, item))
            case State(name):
                self.say(StateFrame(sub=sub, state=name))
            case ClaimedAway(ids, by):
                for portion in _portions(list(map(str, ids))):
                    self.say(Claimed(sub=sub, ids=portion, by=text_of(by)))
            case AtEnd(position, closed_at_ms):
                self._known.pop(sub, None)
                self.say(Closed(sub=sub, at=str(position), closed_at_ms=closed_at_ms))
                self.say(Unsubscribed(sub=sub, reason="closed"))
            case Ended(error):
                self._known.pop(sub, None)
                self.say(ProblemFrame(sub=sub, problem=problem_of(error, INSTANCE)))
                is_gone = isinstance(error, errors.NotFound)
                self.say(Unsubscribed(sub=sub, reason="gone" if is_gone else "failed"))

    def only_frame(self, sub: str, batch: StreamBatch) -> str | None:
        """Return the frame of a batch, if it is one, and the only one that there is to send."""
        if not self._answers.is_empty or self._table_fields(sub) is not None:
            return None
        try:
            return _last_frame.of(self._of(sub), batch.read, batch.credit_left or 0)
        except FrameTooLarge:
            return None

    def message_frame(self, sub: str, message: ChannelMessage) -> str | None:
        """Return the frame of a message, if nothing else has to be sent before it."""
        return message_frame(sub, message) if self._answers.is_empty else None

    def _of(self, sub: str) -> FrameOf:
        known = self._known.get(sub)
        return FrameOf(sub, None if known is None else known.frame_bytes_max)

    def _table_fields(self, sub: str) -> tuple[bytes, bytes] | None:
        known = self._known.get(sub)
        return None if known is None else known.table_fields

    def _text(self, frame: BaseModel) -> str:
        if isinstance(frame, ProblemFrame):
            frame.problem.request_id = self._request_id
        # A limit that is null is told: there is none.
        is_whole = isinstance(frame, Welcome)
        return frame.model_dump_json(exclude_none=not is_whole, by_alias=True)

    def _begin(self) -> None:
        self._is_known = True
        if self._welcome is not None:
            self.say(self._welcome)
            self._welcome = None

    def _authenticated(self, rid: str | None, principal: Principal) -> Authenticated:
        self._begin()
        expires_at_ms = principal.expires_at_ms
        return Authenticated(rid=rid, principal=principal.id, expires_at_ms=expires_at_ms)

    def _intent(self, frame: ClientFrame) -> Intent | None:
        make = _INTENTS.get(type(frame))
        if make is not None:
            return make(frame)
        match frame:
            case AuthFrame(rid=rid, token=token):
                return AuthIntent(rid, token)
            case PingFrame(rid=rid):
                self._answers.answer(self._text(Pong(rid=rid)))
                return None
            case SubscribeFrame():
                return self._subscribe(frame)
            case UnsubscribeFrame(rid=rid, sub=sub):
                self._known[sub] = self._open(sub)._replace(phase=Phase.CLOSING)
                return UnsubscribeIntent(rid, sub)
            case CreditFrame(sub=sub, entries=entries):
                self._open(sub)
                return CreditIntent(sub, entries)
            case SubscriptionFrame(sub=sub):
                return _settlement(frame, self._open(sub))
        raise AssertionError(f"a frame of an unknown type: {frame!r}")

    def _open(self, sub: str) -> _Known:
        known = self._known.get(sub)
        if known is None or known.phase in {Phase.OPENING, Phase.CLOSING}:
            raise no_subscription(sub)
        return known

    def _subscribe(self, frame: SubscribeFrame) -> SubscribeIntent | ListenIntent:
        if frame.sub in self._known:
            text = f"the subscription {frame.sub!r} already exists"
            raise GatewayError("invalid_request", text, pointer="/body/sub")
        if len(self._known) >= self._limits.subscriptions_max:
            text = f"a connection may have at most {self._limits.subscriptions_max} subscriptions"
            raise GatewayError("invalid_request", text, pointer="/body/sub")
        if frame.channel is not None:
            listen = listen_intent(frame)
            self._known[listen.sub] = _Known(Phase.OPENING)
            return listen
        intent = subscribe_intent(frame, self._limits.credit_max)
        is_of_pattern = isinstance(intent.after, PatternAfter)
        count = sum(known.is_of_pattern for known in self._known.values())
        if is_of_pattern and count >= self._limits.patterns_max:
            text = f"a connection may follow at most {self._limits.patterns_max} patterns"
            raise GatewayError("invalid_request", text, pointer="/body/match")
        self._known[intent.sub] = _Known(
            Phase.OPENING,
            is_of_pattern=is_of_pattern,
            frame_bytes_max=intent.choices.frame_bytes_max,
        )
        return intent

    def _subscribed(self, intent: SubscribeIntent, ready: Ready) -> Subscribed:
        phase = Phase.READING if ready.held is None else Phase.HOLDING
        self._known[intent.sub] = self._known[intent.sub]._replace(
            phase=phase, held=ready.held, table_fields=ready.table_fields
        )
        return Subscribed(
            rid=intent.rid,
            sub=intent.sub,
            position=str(ready.position),
            consumer=None if ready.consumer is None else text_of(ready.consumer),
            pending=ready.pending_count,
            gap=gap_wire(ready.gap),
        )

    def _refused(self, intent: Intent, error: Refusal) -> str:
        if isinstance(intent, SubscribeIntent | ListenIntent):
            del self._known[intent.sub]
        if isinstance(intent, CommitIntent):
            return self._commit_refused(intent, error)
        if isinstance(error, StreamError):
            place_drafts(error, lambda index: ("entries", index))
        sub = None
        if not isinstance(intent, AppendIntent | AuthIntent | PublishIntent):
            sub = intent.sub
        rid = None if isinstance(intent, CreditIntent) else intent.rid
        return self._text(ProblemFrame(rid=rid, sub=sub, problem=problem_of(error, INSTANCE)))

    def _commit_refused(self, intent: CommitIntent, error: Refusal) -> str:
        if isinstance(error, StreamError):
            error.location = intent.form.place(error.location)
        return self._text(CommitProblemFrame(rid=intent.rid, problem=problem_of(error, INSTANCE)))

    def _refuse(self, value: dict[str, Any], problem: Problem) -> None:
        """Answer an invalid frame, with its `rid` if it has one."""
        rid, sub = _short(value.get("rid")), _short(value.get("sub"))
        self._answers.answer(self._text(ProblemFrame(rid=rid, sub=sub, problem=problem)))
        self._bad_count += 1
        if self._bad_count > _BAD_FRAMES_MAX:
            raise BadFramesError(f"{self._bad_count} frames in a row were invalid")


_INTENTS: dict[type[ClientFrame], Callable[[Any], Intent]] = {
    AppendFrame: append_intent,
    CommitFrame: commit_intent,
    PublishFrame: publish_intent,
    PresenceFrame: presence_intent,
}
"""How frames become intents, if that does not depend on what came before."""


def _entries_frames(
    of: FrameOf,
    batch: StreamBatch | RowsBatch | PatternBatch | GroupBatch | GroupsBatch,
    table_fields: tuple[bytes, bytes] | None,
) -> Iterable[str]:
    left = batch.credit_left or 0
    match batch:
        case StreamBatch(read):
            if read.entries or read.gap is not None or is_position_news(read):
                if table_fields is not None:
                    return changes_frames(of, read, table_fields, credit_left=left)
                return entries_frames(of, read, credit_left=left)
        case RowsBatch():
            return rows_frames(of, batch)
        case PatternBatch(read):
            return pattern_frames(of, read, credit_left=left)
        case GroupBatch(deliveries, gone, lag):
            if deliveries or gone:
                names = [str(entry_id) for entry_id in gone]
                return deliveries_frames(of, deliveries, names, credit_left=left, lag=lag)
        case GroupsBatch(read):
            if read.reads:
                return groups_frames(of, read, credit_left=left)
    return ()


def _settled(intent: Settlement, outcomes: Sequence[Outcome]) -> Iterator[Text]:
    """Yield the answer to an ack, nack or extend.

    For more ids than fit in a frame (`up_to`), the first ones come in frames without the `rid`.
    """
    is_ack = isinstance(intent, AckIntent)
    if is_ack and intent.rid is None and all(outcome is Outcome.ACKED for outcome in outcomes):
        return
    left = len(intent.ids)
    for ids, results in zip(_portions(intent.ids), _portions(outcomes), strict=True):
        frame: Acked | Ok
        if is_ack:
            frame = {"type": "acked", "sub": intent.sub, "results": []}
        else:
            frame = {"type": "ok", "sub": intent.sub, "results": []}
        if intent.stream is not None:
            frame["stream"] = text_of(intent.stream)
        left -= len(ids)
        if intent.rid is not None and not left:
            frame["rid"] = intent.rid
        yield settled_frame(frame, ids, results)


def _portions(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield portions that fit in a frame; one empty portion if there are no values."""
    for at in range(0, max(len(values), 1), FRAME_IDS_MAX):
        yield values[at : at + FRAME_IDS_MAX]


def no_subscription(sub: str) -> GatewayError:
    return GatewayError("not_found", f"there is no subscription {sub!r}", pointer="/body/sub")


def _settlement(frame: SubscriptionFrame, known: _Known) -> Settlement:
    held = known.held
    if held is None:
        text = f"the subscription {frame.sub!r} has nothing to settle"
        raise GatewayError("invalid_request", text, pointer="/body/sub")
    assert isinstance(frame, SettlingFrame)
    stream = None if frame.stream is None else check_name(frame.stream, pointer="/body/stream")
    match frame:
        case AckFrame(rid=rid, sub=sub):
            if known.is_of_pattern and frame.up_to is not None:
                text = "not allowed with several streams, which have no common order: give ids"
                raise GatewayError("invalid_request", text, pointer="/body/up_to")
            return AckIntent(rid, sub, _acked_ids(frame, held), stream)
        case NackFrame(rid=rid, sub=sub, ids=ids, mode=mode, delay_ms=delay_ms, error=error):
            given = error.encode() if error else None
            return NackIntent(rid, sub, parse_ids(ids), NackMode(mode), delay_ms, given, stream)
        case ExtendFrame(rid=rid, sub=sub, ids=ids):
            return ExtendIntent(rid, sub, parse_ids(ids), stream)
    raise AssertionError(f"a frame of an unknown type: {frame!r}")


def _acked_ids(frame: AckFrame, held: Held) -> list[EntryId]:
    if (frame.ids is None) == (frame.up_to is None):
        raise GatewayError("invalid_request", "give ids or up_to", pointer="/body/ids")
    if frame.ids is not None:
        return parse_ids(frame.ids)
    return held.up_to(parse_id(frame.up_to or "", field="/body/up_to"))


def _short(text: object) -> str | None:
    """Return a `rid` or a name, if it is short enough text to be repeated."""
    return text if isinstance(text, str) and len(text) <= RID_LENGTH_MAX else None
