"""Session: the WebSocket conversation without a socket. Frames in, frames and intents out."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from headgate.app.live import followed
from headgate.app.live.followed import Held
from headgate.app.live.frames.client import BadFramesError
from headgate.app.live.intents import (
    AckIntent,
    AppendIntent,
    CreditIntent,
    ExtendIntent,
    Intent,
    NackIntent,
    SubscribeIntent,
    SubscriptionChoices,
    UnsubscribeIntent,
)
from headgate.app.live.session import Session, Text
from headgate.app.wire.schemas.entries import EntryInput
from headgate.app.wire.schemas.limits import ConnectionLimits
from headgate.engine.entry import Entry, EntryId
from headgate.engine.errors import Invalid, StreamNotFound, Unavailable
from headgate.engine.replies import Delivery, Gap, Outcome, StreamRead
from headgate.engine.requests.deliveries import NackMode
from headgate.engine.requests.entries import From

ACKED, CLAIMED, NOT_PENDING = Outcome.ACKED, Outcome.CLAIMED, Outcome.NOT_PENDING


STREAM = SubscribeIntent(None, "s", b"orders", None, None, From.NOW, 64, SubscriptionChoices())
GROUP = STREAM._replace(
    sub="g", group=b"billing", consumer=b"me", choices=SubscriptionChoices(auto_credit=True)
)

LIMITS = ConnectionLimits(
    subscriptions_max=3,
    credit_max=100,
    frame_bytes_max=2**20,
    batch_entries_max=2,
    send_ms_max=10_000,
    connection_ms_max=None,
)


def new_session() -> Session:
    """Return a conversation whose first frame is sent."""
    session = Session("1", LIMITS)
    session.frames_to_send()
    return session


def opened(session: Session, intent: SubscribeIntent, *held: int) -> Held:
    """Subscribe; returns what is held."""
    mine = Held()
    mine.add(deliveries(*held))
    session.subscribe(intent)
    settles = intent.group is not None and intent.choices.ack != "none"
    session.done(intent, followed.Ready(EntryId(0, 0), held=mine if settles else None))
    session.frames_to_send()
    return mine


def group_session(*held: int) -> Session:
    """Return a conversation with a stream as `s`, and a group as `g` that holds `1-0`, …"""
    session = new_session()
    opened(session, STREAM)
    opened(session, GROUP, *held)
    return session


def deliveries(*numbers: int) -> list[Delivery]:
    return [Delivery(EntryId(ms, 0), (b"k", b"v"), 0, 0, None) for ms in numbers]


def receive(session: Session, frame: Any) -> Intent | None:
    return session.receive(frame if isinstance(frame, str) else json.dumps(frame))


def sent(session: Session) -> list[dict[str, Any]]:
    """Return the frames that are to be sent."""

    def whole(text: Text) -> str:
        return text if isinstance(text, str) else "".join(text)

    return [json.loads(whole(text)) for text in session.frames_to_send()]


def answer_to(session: Session, frame: Any) -> dict[str, Any]:
    """Return the immediate answer to a frame."""
    assert receive(session, frame) is None
    [answer] = sent(session)
    return answer


def problem_of(session: Session, frame: Any) -> tuple[str | None, str, str | None]:
    """Return rid, code and pointer of the problem a frame is answered with."""
    answer = answer_to(session, frame)
    assert answer["type"] == "problem", answer
    pointers = [error["pointer"] for error in answer["problem"].get("errors", [])]
    return answer.get("rid"), answer["problem"]["code"], pointers[0] if pointers else None


def ids(*numbers: int) -> list[EntryId]:
    return [EntryId(ms, 0) for ms in numbers]


# What a client says

SUBSCRIBE = {"type": "subscribe", "sub": "x", "stream": "orders"}
APPEND = {"type": "append", "stream": "orders", "entries": [{"fields": {"k": "v"}}]}
CREDIT = {"type": "credit", "sub": "g", "entries": 1}
ACK = {"type": "ack", "sub": "g"}
NACK = {"type": "nack", "sub": "g", "ids": ["1-0"]}
CHOICES = {"claim_idle_ms": 0, "on_disconnect": "keep", "ack": "none", "auto_credit": True}


WORK = {**SUBSCRIBE, "group": "billing"}
NACKED = {"mode": "silent", "delay_ms": 5, "error": "timeout"}
X = STREAM._replace(sub="x")
CHOSEN = GROUP._replace(
    sub="x",
    credit=5,
    choices=SubscriptionChoices(
        claim_idle_ms=0, on_disconnect="keep", ack="none", auto_credit=True
    ),
)


@pytest.mark.parametrize(
    ("frame", "intent"),
    [
        (SUBSCRIBE, X),
        ({**SUBSCRIBE, "rid": "r", "after": "7"}, X._replace(rid="r", after=EntryId(7, 0))),
        ({**SUBSCRIBE, "after": "+", "credit": 100}, X._replace(after=From.LAST, credit=100)),
        ({**WORK, "consumer": "me", "credit": 5, **CHOICES}, CHOSEN),
        (WORK, GROUP._replace(sub="x", consumer=None, choices=SubscriptionChoices())),
        ({"type": "unsubscribe", "rid": "r", "sub": "s"}, UnsubscribeIntent("r", "s")),
        ({**CREDIT, "entries": 32}, CreditIntent("g", 32)),
        ({**CREDIT, "sub": "s"}, CreditIntent("s", 1)),
        ({**ACK, "ids": ["1-0", "2"]}, AckIntent(None, "g", ids(1, 2))),
        ({**ACK, "rid": "r", "ids": ["9-0"]}, AckIntent("r", "g", ids(9))),
        (NACK, NackIntent(None, "g", ids(1), NackMode.FAIL, None, None)),
        ({**NACK, **NACKED}, NackIntent(None, "g", ids(1), NackMode.SILENT, 5, b"timeout")),
        ({**NACK, "type": "extend", "rid": "r"}, ExtendIntent("r", "g", ids(1))),
    ],
)
def test_a_frame_says_what_to_do(frame: dict[str, Any], intent: Intent) -> None:
    assert receive(group_session(1, 2), frame) == intent


def test_a_subscription_that_is_not_named_is_that_of_the_short_form() -> None:
    session = new_session()
    opened(session, GROUP._replace(sub="0"))

    assert receive(session, {"type": "credit", "entries": 5}) == CreditIntent("0", 5)
    assert receive(session, {"type": "ack", "ids": ["1-0"]}) == AckIntent(None, "0", ids(1))
    assert receive(session, {"type": "extend", "ids": ["1"]}) == ExtendIntent(None, "0", ids(1))


@pytest.mark.parametrize("more", [{}, {"id": "7-0"}, {"base64": ["a"]}], ids=range(3))
@pytest.mark.parametrize("rid", [None, "r" * 64])
@pytest.mark.parametrize("length", [1, 2000])
def test_an_append_has_its_drafts(length: int, rid: str | None, more: dict[str, Any]) -> None:
    entries: list[Any] = [{"fields": {"a": "dmFs" * length}} | more, {"fields": {"a": "dg=="}}]
    frame = {"entries": entries, "stream": "orders", "rid": rid, "type": "append"}

    drafts = [EntryInput.model_validate(entry).to_draft() for entry in entries]
    assert receive(new_session(), frame) == AppendIntent(rid, b"orders", drafts)


@pytest.mark.parametrize(
    ("wrong", "pointer"),
    [
        ({"rid": "r" * 65}, "/body/rid"),
        *(({"stream": name}, "/body/stream") for name in ("a/b", "")),
        *(({"more": 1}, "/body/more"), ({"sub": "s"}, "/body/sub")),
        ({"entries": [{"fields": {"a": "1"}}] * 3}, "/body/entries"),
        ({"entries": [{"fields": {}}] * 3}, "/body/entries"),  # too many, before what is in them
        *(({"entries": []}, "/body/entries"), ({"entries": [{}]}, "/body/entries/0")),
        ({"entries": [{"fields": {}}]}, "/body/entries/0"),
        ({"entries": [{"fields": {"k": 1}}]}, "/body/entries/0/fields/k"),
        ({"entries": [{"fields": dict.fromkeys(map(str, range(1025)), "")}]}, "/body/entries/0"),
    ],
)
@pytest.mark.parametrize("padding", [" ", " " * 5000], ids=["short", "long"])
def test_a_wrong_append_is_told_why(padding: str, wrong: dict[str, Any], pointer: str) -> None:
    problem = problem_of(new_session(), json.dumps(APPEND | wrong) + padding)

    assert problem[1] == "invalid_request"
    assert (problem[2] or "").startswith(pointer)


def test_up_to_acknowledges_what_is_held_when_it_is_said() -> None:
    session = new_session()
    held = opened(session, GROUP, 1, 2, 3, 0)  # the last was claimed: older than what came before
    frame = {"type": "ack", "sub": "g"}

    intent = receive(session, {**frame, "up_to": "2-0"})
    held.add(deliveries(1))

    assert intent == AckIntent(None, "g", ids(1, 2, 0))
    held.settle(ids(1), [ACKED])
    assert receive(session, {**frame, "up_to": "1-0"}) == AckIntent(None, "g", ids(0))


@pytest.mark.parametrize("kind", ["ack", "nack", "extend"])
@pytest.mark.parametrize("sub", ["s", "n"])
def test_where_nothing_is_pending_there_is_nothing_to_settle(kind: str, sub: str) -> None:
    session = group_session()
    opened(session, GROUP._replace(sub="n", choices=SubscriptionChoices(ack="none")))

    problem = problem_of(session, {"type": kind, "rid": "r", "sub": sub, "ids": ["1-0"]})

    assert problem == ("r", "invalid_request", "/body/sub")


# What a client should not say


@pytest.mark.parametrize(
    ("frame", "place"),
    [
        *(({}, "type"), ({"type": "poll"}, "type"), ({"type": None}, "type")),
        ({"type": "ping", "x": 1}, "x"),
        *(({"type": "ping", "rid": rid}, "rid") for rid in (1, "r" * 65)),
        ({"type": "credit", "sub": "g"}, "entries"),
        *(({**CREDIT, "entries": wrong}, "entries") for wrong in (0, -1, "1", 1.0, True)),
        *(({**CREDIT, "rid": "r"}, "rid"), (ACK, "ids")),
        *(({**ACK, "ids": wrong}, "ids") for wrong in ([], "1-0", ["1-0"] * 10_001)),
        *(({**ACK, "ids": ["1-0"], "up_to": "1-0"}, "ids"), ({**ACK, "ids": ["1-0", 2]}, "ids/1")),
        ({**NACK, "mode": "loud"}, "mode"),
        *(({**NACK, "delay_ms": wrong}, "delay_ms") for wrong in (-1, "5")),
        ({"type": "extend", "sub": "g", "up_to": "1-0"}, "ids"),
        ({"type": "subscribe", "stream": "orders"}, "sub"),
        ({"type": "subscribe", "sub": "x"}, "stream"),
        *(({**SUBSCRIBE, "sub": wrong}, "sub") for wrong in ("", "x" * 65, "s")),
        *(({**SUBSCRIBE, "stream": ""}, "stream"), ({**SUBSCRIBE, "group": "x" * 257}, "group")),
        ({**SUBSCRIBE, "group": "g", "consumer": ""}, "consumer"),
        *(({**SUBSCRIBE, "credit": wrong}, "credit") for wrong in (0, 101, "5")),
        ({**SUBSCRIBE, "auto_credit": "yes"}, "auto_credit"),
        ({**SUBSCRIBE, "consumer": "me"}, "consumer"),
        ({**SUBSCRIBE, "claim_idle_ms": 0}, "claim_idle_ms"),
        ({**SUBSCRIBE, "on_disconnect": "keep"}, "on_disconnect"),
        ({**SUBSCRIBE, "ack": "none"}, "ack"),
        ({**SUBSCRIBE, "group": "g", "after": "0"}, "after"),
        ({**SUBSCRIBE, "group": "g", "claim_idle_ms": -1}, "claim_idle_ms"),
        ({**SUBSCRIBE, "group": "g", "on_disconnect": "x"}, "on_disconnect"),
        *(({**SUBSCRIBE, "group": "g", "ack": "later"}, "ack"), ({"type": "unsubscribe"}, "sub")),
    ],
)
def test_a_wrong_frame_is_answered_with_a_problem_that_points_at_it(frame: Any, place: str) -> None:
    assert problem_of(group_session(1), frame)[1:] == ("invalid_request", f"/body/{place}")


def test_a_wrong_id_is_answered_with_a_problem_that_points_at_it() -> None:
    for frame, place in (
        *(({**ACK, "ids": ["1-0", "x"]}, "ids/1"), ({**NACK, "ids": ["x"]}, "ids/0")),
        *(({**ACK, "up_to": "x"}, "up_to"), ({**ACK, "up_to": ""}, "up_to")),
        *(
            ({**NACK, "type": "extend", "ids": ["x"]}, "ids/0"),
            ({**SUBSCRIBE, "after": "x"}, "after"),
        ),
    ):
        assert problem_of(group_session(1), frame)[1:] == ("invalid_id", f"/body/{place}")


def test_there_are_no_more_subscriptions_than_were_promised() -> None:
    session = group_session()
    opened(session, STREAM._replace(sub="t"))

    assert problem_of(session, SUBSCRIBE)[1:] == ("invalid_request", "/body/sub")
    session.followed("t", followed.Ended(StreamNotFound(b"orders")))
    opening = receive(session, SUBSCRIBE)
    assert isinstance(opening, SubscribeIntent)
    assert receive(session, {**SUBSCRIBE, "sub": "y"}) is None  # one that is opening counts
    session.done(opening, StreamNotFound(b"orders"))
    assert isinstance(receive(session, SUBSCRIBE), SubscribeIntent)


@pytest.mark.parametrize(
    "text",
    ["", "{", "ping", "[]", "null", "5", '"ping"', '{"rid":"\\ud800"}', "[" * 10_000, "{} {}"],
)
def test_what_is_no_json_object_ends_the_conversation(text: str) -> None:
    with pytest.raises(BadFramesError):
        group_session().receive(text)


def test_who_says_nothing_but_nonsense_is_slowed_and_then_ended() -> None:
    session = new_session()
    for _ in range(100):
        session.receive("{}")
    assert session.pause_s == 0
    session.receive("{}")
    assert session.pause_s > 0

    session.receive('{"type":"ping"}')
    assert session.pause_s == 0
    for _ in range(1000):
        session.receive("{}")
    with pytest.raises(BadFramesError):
        session.receive("{}")


# The table: each state of a subscription, and each frame about it


def conversation(state: str) -> tuple[Session, Callable[[], None]]:
    """Return one whose subscription `x` is in a state, and what ends what is under way."""
    session = new_session()
    intent = (STREAM if state == "reading" else GROUP)._replace(sub="x")
    if state == "opening":
        session.subscribe(intent)
        return session, lambda: session.done(intent, followed.Ready(EntryId(0, 0)))
    if state != "none":
        opened(session, intent)
    if state == "closing":
        closing = receive(session, {"type": "unsubscribe", "sub": "x"})
        assert isinstance(closing, UnsubscribeIntent)
        return session, lambda: session.done(closing, None)
    return session, lambda: None


STATES = ["none", "opening", "reading", "holding", "closing"]
NOT_FOUND, REFUSED = "not_found", "invalid_request"
SETTLING = (NOT_FOUND, NOT_FOUND, REFUSED, None, NOT_FOUND)
TABLE: list[tuple[dict[str, Any], type[Any], tuple[str | None, ...]]] = [
    (SUBSCRIBE, SubscribeIntent, (None, REFUSED, REFUSED, REFUSED, REFUSED)),
    ({"type": "unsubscribe"}, UnsubscribeIntent, (NOT_FOUND, NOT_FOUND, None, None, NOT_FOUND)),
    ({"type": "credit", "entries": 1}, CreditIntent, (NOT_FOUND, NOT_FOUND, None, None, NOT_FOUND)),
    ({"type": "ack", "ids": ["1-0"]}, AckIntent, SETTLING),
    ({"type": "nack", "ids": ["1-0"]}, NackIntent, SETTLING),
    ({"type": "extend", "ids": ["1-0"]}, ExtendIntent, SETTLING),
    (APPEND, AppendIntent, (None,) * 5),
]


@pytest.mark.parametrize(
    ("frame", "kind", "state", "code"),
    [
        (frame, kind, state, code)
        for frame, kind, codes in TABLE
        for state, code in zip(STATES, codes, strict=True)
    ],
)
def test_what_a_frame_does_goes_by_the_state_of_its_subscription(
    frame: dict[str, Any], kind: type[Any], state: str, code: str | None
) -> None:
    session, end = conversation(state)

    intent = receive(session, frame if frame is APPEND else {**frame, "sub": "x"})

    if code is None:
        assert isinstance(intent, kind)
        return
    assert intent is None
    end()
    answer = sent(session)[-1]
    assert (answer["type"], answer["sub"]) == ("problem", "x")
    assert answer["problem"]["code"] == code
    assert [error["pointer"] for error in answer["problem"]["errors"]] == ["/body/sub"]


# What becomes of it


def test_what_is_wrong_with_an_entry_of_an_append_is_placed_in_its_frame() -> None:
    session = new_session()
    intent = receive(session, APPEND)
    assert isinstance(intent, AppendIntent)
    error = Invalid("an entry is too large")
    error.location = ("drafts", 3, "fields")

    session.done(intent, error)

    [answer] = sent(session)
    assert answer["problem"]["errors"][0]["pointer"] == "/body/entries/3/fields"


@pytest.mark.parametrize(
    ("frame", "outcome", "answer"),
    [
        (ACK | {"ids": ["1-0"]}, ACKED, None),
        (ACK | {"ids": ["1-0"], "rid": "r"}, ACKED, "acked"),
        (ACK | {"ids": ["1-0"]}, CLAIMED, "acked"),  # bad news is told even if nobody asked
        *((ACK | {"ids": ["1-0"]}, NOT_PENDING, "acked"), (NACK, Outcome.RELEASED, "ok")),
        (NACK | {"type": "extend"}, Outcome.EXTENDED, "ok"),
    ],
)
def test_what_nobody_asks_about_is_answered_if_it_failed(
    frame: dict[str, Any], outcome: Outcome, answer: str | None
) -> None:
    session = group_session(1)
    intent = receive(session, frame)
    assert isinstance(intent, AckIntent | NackIntent | ExtendIntent)

    session.done(intent, [outcome])

    told = [(each["type"], each["results"][0]["outcome"]) for each in sent(session)]
    assert told == ([] if answer is None else [(answer, outcome)])


def test_answers_come_in_the_order_of_the_frames_whatever_is_done_first() -> None:
    session = group_session(1)
    first = receive(session, {**APPEND, "rid": "1"})
    second = receive(session, {**APPEND, "rid": "2"})
    receive(session, {"type": "ping", "rid": "3"})
    receive(session, {"type": "nonsense", "rid": "4"})
    assert isinstance(first, AppendIntent)
    assert isinstance(second, AppendIntent)

    session.done(second, ids(2))
    session.followed("g", followed.State("caught_up"))  # this is no answer, and waits for none
    before = sent(session)
    session.done(first, ids(1))

    assert [frame["type"] for frame in before] == ["state"]
    assert [(frame["type"], frame["rid"]) for frame in sent(session)] == [
        *(("appended", "1"), ("appended", "2"), ("pong", "3"), ("problem", "4"))
    ]


# What a subscription yields


def stream_read(*numbers: int, gap: Gap | None = None) -> StreamRead:
    entries = [Entry(entry_id, (b"k", b"\xff")) for entry_id in ids(*numbers)]
    last = EntryId(max(numbers, default=0), 0)
    return StreamRead(b"orders", entries, last, last, gap, EntryId(0, 0))


def test_of_nothing_no_frame_is_made_but_of_what_was_missed() -> None:
    session = group_session()

    session.followed("s", followed.StreamBatch(stream_read(), credit_left=5))
    session.followed("g", followed.GroupBatch([], [], lag=0, credit_left=5))
    assert sent(session) == []
    gap = Gap(EntryId(1, 0), EntryId(2, 0))
    session.followed("s", followed.StreamBatch(stream_read(gap=gap), credit_left=5))
    [frame] = sent(session)
    assert (frame["entries"], frame["gap"]) == ([], {"from": "1-0", "to": "2-0"})


def test_the_end_of_a_subscription_is_a_problem_and_a_frame() -> None:
    for error, code, reason in (
        (StreamNotFound(b"orders"), "stream_not_found", "gone"),
        (Unavailable("no disk"), "unavailable", "failed"),
    ):
        session = group_session()
        session.followed("g", followed.Ended(error))
        problem, ended = sent(session)
        assert (problem["type"], problem["sub"], problem["problem"]["code"]) == (
            "problem",
            "g",
            code,
        )
        assert ended == {"type": "unsubscribed", "sub": "g", "reason": reason}
