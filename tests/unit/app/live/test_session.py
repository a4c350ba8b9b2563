"""Session: the WebSocket conversation without a socket. Frames in, frames and intents out."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from headgate.app.live.frames import Acked, Entries, Ok, Pong, ProblemFrame
from headgate.app.live.session import (
    AckIntent,
    AppendIntent,
    CreditIntent,
    ExtendIntent,
    Intent,
    NackIntent,
    NotAFrameError,
    Session,
    SubscribeIntent,
    UnsubscribeIntent,
)
from headgate.app.wire.schemas.entries import EntryInput
from headgate.engine.entry import Entry, EntryId
from headgate.engine.replies import Delivery, GroupRead, GroupState, Outcome, StreamRead
from headgate.engine.requests import From, NackMode

ACKED, CLAIMED, NOT_PENDING = Outcome.ACKED, Outcome.CLAIMED, Outcome.NOT_PENDING


STREAM = SubscribeIntent(
    None, "s", b"orders", None, None, From.NOW, 64, False, None, None, no_ack=False
)
GROUP = STREAM._replace(sub="g", group=b"billing", consumer=b"me", auto_credit=True)


def new_session() -> Session:
    return Session(subscriptions_max=3, credit_max=100, batch_entries_max=2)


def group_session(*held: int, auto_credit: bool = True) -> Session:
    """Return a conversation with a stream as `s`, and a group as `g` that holds `1-0`, …"""
    session = new_session()
    session.opened(STREAM)
    session.opened(GROUP._replace(auto_credit=auto_credit))
    session.deliver_group("g", delivered(*held), credit=64)
    return session


def held(session: Session) -> list[EntryId]:
    """End the subscription to the group; returns what it held."""
    return list(session.closed("g"))


def stream_read(*numbers: int, last: int) -> StreamRead:
    entries = [Entry(entry_id, (b"k", b"\xff")) for entry_id in ids(*numbers)]
    return StreamRead(
        b"orders",
        entries,
        EntryId(max(numbers, default=0), 0),
        EntryId(last, 0),
        None,
        EntryId(0, 0),
    )


def delivered(*numbers: int, gone: Sequence[int] = ()) -> GroupRead:
    deliveries = [
        Delivery(EntryId(ms, 0), None if ms in gone else (b"k", b"v"), 0, 0, None)
        for ms in sorted([*numbers, *gone])
    ]
    return GroupRead(b"orders", deliveries, True, 7, len(deliveries), GroupState.LIVE)


def receive(session: Session, frame: Any) -> Intent | BaseModel:
    return session.receive(frame if isinstance(frame, str) else json.dumps(frame))


def problem_of(session: Session, frame: Any) -> tuple[str | None, str, str | None]:
    """Return rid, code and pointer of the problem a frame is answered with."""
    answer = receive(session, frame)
    assert isinstance(answer, ProblemFrame), answer
    errors = answer.problem.errors
    return answer.rid, answer.problem.code, errors[0].pointer if errors else None


def ids(*numbers: int) -> list[EntryId]:
    return [EntryId(ms, 0) for ms in numbers]


# What a client says


@pytest.mark.parametrize(
    ("frame", "intent"),
    [
        (
            {"type": "subscribe", "sub": "x", "stream": "orders"},
            STREAM._replace(sub="x"),
        ),
        (
            {"type": "subscribe", "rid": "r", "sub": "x", "stream": "orders", "after": "7"},
            STREAM._replace(rid="r", sub="x", after=EntryId(7, 0)),
        ),
        (
            {"type": "subscribe", "sub": "x", "stream": "orders", "after": "+", "credit": 100},
            STREAM._replace(sub="x", after=From.LAST, credit=100),
        ),
        (
            {
                "type": "subscribe",
                "sub": "x",
                "stream": "orders",
                "group": "billing",
                "consumer": "me",
                "credit": 5,
                "auto_credit": True,
                "claim_idle_ms": 0,
                "on_disconnect": "keep",
                "ack": "none",
            },
            SubscribeIntent(
                None,
                "x",
                b"orders",
                b"billing",
                b"me",
                From.NOW,
                5,
                auto_credit=True,
                claim_idle_ms=0,
                on_disconnect="keep",
                no_ack=True,
            ),
        ),
        (
            {"type": "subscribe", "sub": "x", "stream": "orders", "group": "billing"},
            GROUP._replace(sub="x", consumer=None, auto_credit=False),
        ),
        ({"type": "unsubscribe", "rid": "r", "sub": "s"}, UnsubscribeIntent("r", "s")),
        ({"type": "credit", "sub": "g", "entries": 32}, CreditIntent("g", 32)),
        ({"type": "credit", "sub": "s", "entries": 1}, CreditIntent("s", 1)),
        ({"type": "ack", "sub": "g", "ids": ["1-0", "2"]}, AckIntent(None, "g", ids(1, 2))),
        ({"type": "ack", "rid": "r", "sub": "g", "ids": ["9-0"]}, AckIntent("r", "g", ids(9))),
        (
            {"type": "nack", "sub": "g", "ids": ["1-0"]},
            NackIntent(None, "g", ids(1), NackMode.FAIL, None),
        ),
        (
            {
                "type": "nack",
                "rid": "r",
                "sub": "g",
                "ids": ["1-0"],
                "mode": "silent",
                "delay_ms": 5,
            },
            NackIntent("r", "g", ids(1), NackMode.SILENT, 5),
        ),
        (
            {"type": "extend", "rid": "r", "sub": "g", "ids": ["1-0"]},
            ExtendIntent("r", "g", ids(1)),
        ),
    ],
)
def test_a_frame_says_what_to_do(frame: dict[str, Any], intent: Intent) -> None:
    assert receive(group_session(1, 2), frame) == intent


def test_a_subscription_that_is_not_named_is_that_of_the_short_form() -> None:
    session = new_session()
    session.opened(GROUP._replace(sub="0"))

    assert receive(session, {"type": "credit", "entries": 5}) == CreditIntent("0", 5)
    assert receive(session, {"type": "ack", "ids": ["1-0"]}) == AckIntent(None, "0", ids(1))
    assert receive(session, {"type": "extend", "ids": ["1"]}) == ExtendIntent(None, "0", ids(1))


def test_an_append_has_its_drafts() -> None:
    entries: list[dict[str, Any]] = [{"fields": {"a": "1"}}, {"fields": {"b": "2"}, "id": "7-0"}]

    intent = receive(
        new_session(), {"type": "append", "rid": "r", "stream": "orders", "entries": entries}
    )

    drafts = [EntryInput.model_validate(entry).to_draft() for entry in entries]
    assert intent == AppendIntent("r", b"orders", drafts)


@pytest.mark.parametrize(
    "more", [{}, {"id": "7-0"}, {"base64": ["a"]}], ids=["plain", "with an id", "with bytes"]
)
@pytest.mark.parametrize("rid", [None, "r" * 64])
def test_a_long_append_has_its_drafts(rid: str | None, more: dict[str, Any]) -> None:
    entries: list[dict[str, Any]] = [{"fields": {"a": "dmFs" * 2000}}, {"fields": {"a": "dg=="}}]
    entries[0] |= more

    intent = receive(
        new_session(), {"entries": entries, "stream": "orders", "rid": rid, "type": "append"}
    )

    drafts = [EntryInput.model_validate(entry).to_draft() for entry in entries]
    assert intent == AppendIntent(rid, b"orders", drafts)


@pytest.mark.parametrize(
    ("wrong", "pointer"),
    [
        ({"rid": "r" * 65}, "/body/rid"),
        ({"stream": "a/b"}, "/body/stream"),
        ({"more": 1}, "/body/more"),
        ({"entries": [{"fields": {"a": "1"}}] * 3}, "/body/entries"),
        ({"entries": [{"fields": {}}] * 3}, "/body/entries"),  # too many, before what is in them
        ({"entries": []}, "/body/entries"),
        ({"entries": [{"fields": {}}]}, "/body/entries/0"),
        ({"entries": [{"fields": dict.fromkeys(map(str, range(1025)), "")}]}, "/body/entries/0"),
    ],
)
@pytest.mark.parametrize("padding", [" ", " " * 5000], ids=["short", "long"])
def test_a_wrong_append_is_told_what_is_wrong(
    padding: str, wrong: dict[str, Any], pointer: str
) -> None:
    frame = {"type": "append", "stream": "orders", "entries": [{"fields": {"a": "1"}}]} | wrong

    found = problem_of(new_session(), json.dumps(frame) + padding)

    assert (found[2] or "").startswith(pointer)


@pytest.mark.parametrize("rid", [None, "", "r" * 64])
def test_a_ping_is_answered_at_once(rid: str | None) -> None:
    frame = {"type": "ping"} if rid is None else {"type": "ping", "rid": rid}

    assert receive(new_session(), frame) == Pong(rid=rid)


def test_up_to_acknowledges_what_is_held_so_far() -> None:
    session = group_session(1, 2, 3)
    session.deliver_group("g", delivered(0), credit=1)  # claimed: older than what came before

    frame = {"type": "ack", "sub": "g"}
    assert receive(session, {**frame, "up_to": "2-0"}) == AckIntent(None, "g", ids(1, 2, 0))
    assert receive(session, {**frame, "up_to": "0-0"}) == AckIntent(None, "g", ids(0))


def test_up_to_leaves_alone_what_is_settled() -> None:
    session = group_session(1, 2)
    session.settled(AckIntent(None, "g", ids(1)), [ACKED])

    assert receive(session, {"type": "ack", "sub": "g", "up_to": "2-0"}) == AckIntent(
        None, "g", ids(2)
    )


def test_up_to_leaves_alone_what_other_subscriptions_hold() -> None:
    session = group_session(1, 2)
    session.opened(GROUP._replace(sub="h"))
    session.deliver_group("h", delivered(0), credit=1)

    assert receive(session, {"type": "ack", "sub": "h", "up_to": "9-0"}) == AckIntent(
        None, "h", ids(0)
    )


@pytest.mark.parametrize("kind", ["ack", "nack", "extend"])
@pytest.mark.parametrize("sub", ["s", "n"])
def test_where_nothing_is_pending_there_is_nothing_to_settle(kind: str, sub: str) -> None:
    session = group_session()
    session.opened(GROUP._replace(sub="n", no_ack=True))

    problem = problem_of(session, {"type": kind, "rid": "r", "sub": sub, "ids": ["1-0"]})

    assert problem == ("r", "invalid_request", "/body/sub")


# What a client should not say

SUBSCRIBE = {"type": "subscribe", "sub": "x", "stream": "orders"}
APPEND = {"type": "append", "stream": "orders", "entries": [{"fields": {"k": "v"}}]}
CREDIT = {"type": "credit", "sub": "g", "entries": 1}
ACK = {"type": "ack", "sub": "g"}
NACK = {"type": "nack", "sub": "g", "ids": ["1-0"]}


@pytest.mark.parametrize(
    ("frame", "code", "pointer"),
    [
        ({}, "invalid_request", "/body/type"),
        ({"type": "poll"}, "invalid_request", "/body/type"),
        ({"type": None}, "invalid_request", "/body/type"),
        ({"type": "ping", "x": 1}, "invalid_request", "/body/x"),
        ({"type": "ping", "rid": 1}, "invalid_request", "/body/rid"),
        ({"type": "ping", "rid": "r" * 65}, "invalid_request", "/body/rid"),
        ({"type": "credit", "sub": "g"}, "invalid_request", "/body/entries"),
        ({**CREDIT, "entries": 0}, "invalid_request", "/body/entries"),
        ({**CREDIT, "entries": -1}, "invalid_request", "/body/entries"),
        ({**CREDIT, "entries": "1"}, "invalid_request", "/body/entries"),
        ({**CREDIT, "entries": 1.0}, "invalid_request", "/body/entries"),
        ({**CREDIT, "entries": True}, "invalid_request", "/body/entries"),
        ({**CREDIT, "rid": "r"}, "invalid_request", "/body/rid"),
        (ACK, "invalid_request", "/body/ids"),
        ({**ACK, "ids": []}, "invalid_request", "/body/ids"),
        ({**ACK, "ids": "1-0"}, "invalid_request", "/body/ids"),
        ({**ACK, "ids": ["1-0"], "up_to": "1-0"}, "invalid_request", "/body/ids"),
        ({**ACK, "ids": ["1-0"] * 10_001}, "invalid_request", "/body/ids"),
        ({**ACK, "ids": ["1-0", 2]}, "invalid_request", "/body/ids/1"),
        ({**ACK, "ids": ["1-0", "x"]}, "invalid_id", "/body/ids/1"),
        ({**ACK, "up_to": "x"}, "invalid_id", "/body/up_to"),
        ({**ACK, "up_to": ""}, "invalid_id", "/body/up_to"),
        ({**NACK, "ids": ["x"]}, "invalid_id", "/body/ids/0"),
        ({**NACK, "mode": "loud"}, "invalid_request", "/body/mode"),
        ({**NACK, "delay_ms": -1}, "invalid_request", "/body/delay_ms"),
        ({**NACK, "delay_ms": "5"}, "invalid_request", "/body/delay_ms"),
        ({"type": "extend", "sub": "g", "ids": ["x"]}, "invalid_id", "/body/ids/0"),
        ({"type": "extend", "sub": "g", "up_to": "1-0"}, "invalid_request", "/body/ids"),
        ({"type": "subscribe", "stream": "orders"}, "invalid_request", "/body/sub"),
        ({"type": "subscribe", "sub": "x"}, "invalid_request", "/body/stream"),
        ({**SUBSCRIBE, "sub": ""}, "invalid_request", "/body/sub"),
        ({**SUBSCRIBE, "sub": "x" * 65}, "invalid_request", "/body/sub"),
        ({**SUBSCRIBE, "sub": "s"}, "invalid_request", "/body/sub"),
        ({**SUBSCRIBE, "stream": ""}, "invalid_request", "/body/stream"),
        ({**SUBSCRIBE, "group": "x" * 257}, "invalid_request", "/body/group"),
        ({**SUBSCRIBE, "group": "g", "consumer": ""}, "invalid_request", "/body/consumer"),
        ({**SUBSCRIBE, "after": "x"}, "invalid_id", "/body/after"),
        ({**SUBSCRIBE, "credit": 0}, "invalid_request", "/body/credit"),
        ({**SUBSCRIBE, "credit": 101}, "invalid_request", "/body/credit"),
        ({**SUBSCRIBE, "credit": "5"}, "invalid_request", "/body/credit"),
        ({**SUBSCRIBE, "auto_credit": "yes"}, "invalid_request", "/body/auto_credit"),
        ({**SUBSCRIBE, "consumer": "me"}, "invalid_request", "/body/consumer"),
        ({**SUBSCRIBE, "claim_idle_ms": 0}, "invalid_request", "/body/claim_idle_ms"),
        ({**SUBSCRIBE, "on_disconnect": "keep"}, "invalid_request", "/body/on_disconnect"),
        ({**SUBSCRIBE, "ack": "none"}, "invalid_request", "/body/ack"),
        ({**SUBSCRIBE, "group": "g", "after": "0"}, "invalid_request", "/body/after"),
        (
            {**SUBSCRIBE, "group": "g", "claim_idle_ms": -1},
            "invalid_request",
            "/body/claim_idle_ms",
        ),
        (
            {**SUBSCRIBE, "group": "g", "on_disconnect": "x"},
            "invalid_request",
            "/body/on_disconnect",
        ),
        ({**SUBSCRIBE, "group": "g", "ack": "later"}, "invalid_request", "/body/ack"),
        ({"type": "unsubscribe"}, "invalid_request", "/body/sub"),
        ({**APPEND, "entries": []}, "invalid_request", "/body/entries"),
        ({**APPEND, "entries": [{"fields": {"k": "v"}}] * 3}, "invalid_request", "/body/entries"),
        ({**APPEND, "entries": [{}]}, "invalid_request", "/body/entries/0"),
        (
            {**APPEND, "entries": [{"fields": {"k": 1}}]},
            "invalid_request",
            "/body/entries/0/fields/k",
        ),
        ({**APPEND, "stream": ""}, "invalid_request", "/body/stream"),
        ({**APPEND, "sub": "s"}, "invalid_request", "/body/sub"),
    ],
)
def test_a_wrong_frame_is_answered_with_a_problem_that_points_at_it(
    frame: Any, code: str, pointer: str
) -> None:
    session = group_session(1)

    _, found, where = problem_of(session, frame)

    assert (found, where) == (code, pointer)
    assert held(session) == ids(1)


@pytest.mark.parametrize("kind", ["unsubscribe", "credit", "ack", "nack", "extend"])
def test_a_subscription_that_is_not_there_is_not_found(kind: str) -> None:
    more = {"unsubscribe": {}, "credit": {"entries": 1}}.get(kind, {"ids": ["1-0"]})
    session = group_session()

    answer = receive(session, {"type": kind, "sub": "x", **more})

    assert isinstance(answer, ProblemFrame)
    assert (answer.sub, answer.problem.code) == ("x", "not_found")
    session.closed("s")
    assert problem_of(session, {"type": kind, "sub": "s", **more})[1:] == ("not_found", "/body/sub")


def test_there_are_no_more_subscriptions_than_were_promised() -> None:
    session = group_session()
    session.opened(STREAM._replace(sub="t"))

    assert problem_of(session, SUBSCRIBE)[1:] == ("invalid_request", "/body/sub")
    session.closed("t")
    assert isinstance(receive(session, SUBSCRIBE), SubscribeIntent)


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "ack", "rid": "r", "sub": "g", "ids": ["x"]},
        {"type": "ack", "rid": "r", "sub": "g", "ids": []},
        {"type": "poll", "rid": "r", "sub": "g"},
        {"type": "subscribe", "rid": "r", "sub": "g", "stream": "orders"},
        {"rid": "r", "sub": "g"},
    ],
)
def test_a_problem_carries_the_rid_and_the_subscription_of_its_frame(frame: dict[str, Any]) -> None:
    answer = receive(group_session(), frame)

    assert isinstance(answer, ProblemFrame)
    assert (answer.rid, answer.sub) == ("r", "g")


@pytest.mark.parametrize("wrong", [5, None, "r" * 65])
def test_a_rid_or_subscription_that_cannot_be_read_is_left_out(wrong: Any) -> None:
    answer = receive(new_session(), {"type": "ping", "rid": wrong, "sub": wrong})

    assert isinstance(answer, ProblemFrame)
    assert (answer.rid, answer.sub) == (None, None)


@pytest.mark.parametrize(
    "text",
    ["", "{", "ping", "[]", "null", "5", '"ping"', '{"rid":"\\ud800"}', "[" * 10_000, "{} {}"],
)
def test_what_is_no_json_object_ends_the_conversation(text: str) -> None:
    with pytest.raises(NotAFrameError):
        group_session().receive(text)


# What becomes of it


def test_what_is_settled_is_held_no_more_and_returns_its_credit() -> None:
    session = group_session(1, 2, 3)

    answer, returned = session.settled(AckIntent("r", "g", ids(2, 1)), [ACKED, ACKED])

    assert held(session) == ids(3)
    assert returned == 2
    assert answer is not None
    assert json.loads("".join(answer)) == {
        "type": "acked",
        "rid": "r",
        "sub": "g",
        "results": [{"id": "2-0", "outcome": "acked"}, {"id": "1-0", "outcome": "acked"}],
    }


def test_without_auto_credit_nothing_returns() -> None:
    session = group_session(1, auto_credit=False)

    assert session.settled(AckIntent(None, "g", ids(1)), [ACKED]) == (None, 0)
    assert held(session) == []


@pytest.mark.parametrize("outcome", [CLAIMED, NOT_PENDING])
def test_what_is_lost_is_held_no_more_and_returns_its_credit(outcome: Outcome) -> None:
    session = group_session(1)

    answer, returned = session.settled(AckIntent(None, "g", ids(1)), [outcome])

    assert (held(session), returned) == ([], 1)
    assert answer is not None  # bad news is told even if nobody asked


def test_what_was_not_held_returns_no_credit() -> None:
    session = group_session(1)

    assert session.settled(AckIntent(None, "g", ids(9, 1, 1)), [ACKED, ACKED, ACKED]) == (None, 1)
    assert session.settled(AckIntent(None, "g", ids(1)), [ACKED]) == (None, 0)


def test_what_is_given_back_is_held_no_more() -> None:
    session = group_session(1, 2)

    nack = NackIntent("r", "g", ids(1), NackMode.FAIL, None)
    answer, returned = session.settled(nack, [Outcome.RELEASED])

    assert (held(session), returned) == (ids(2), 1)
    assert answer is not None
    assert Ok.model_validate_json("".join(answer)).rid == "r"


def test_what_is_extended_is_still_held() -> None:
    session = group_session(1, 2)

    answer, returned = session.settled(
        ExtendIntent("r", "g", ids(1, 2)), [Outcome.EXTENDED, CLAIMED]
    )

    assert (held(session), returned) == (ids(1), 1)
    assert answer is not None
    results = Ok.model_validate_json("".join(answer)).results
    assert [one.outcome for one in results] == [Outcome.EXTENDED, CLAIMED]


def test_a_repeated_ack_returns_credit_once() -> None:
    session = group_session(1)
    ack = AckIntent("r", "g", ids(1))

    first = session.settled(ack, [ACKED])[1]
    second = session.settled(ack, [NOT_PENDING])[1]

    assert (first, second) == (1, 0)


def test_what_is_settled_after_its_subscription_ended_is_answered_and_returns_nothing() -> None:
    session = group_session(1)
    session.closed("g")  # its stream was deleted while the ack was under way

    answer, returned = session.settled(AckIntent("r", "g", ids(1)), [ACKED])

    assert returned == 0
    assert answer is not None
    acked = Acked.model_validate_json("".join(answer))
    assert (acked.rid, acked.results[0].outcome) == ("r", ACKED)


def test_what_another_consumer_took_over_is_held_no_more() -> None:
    session = group_session(1, 2, 3)

    claimed = session.taken_over("g", dict.fromkeys(ids(3, 1, 9), 1), b"thief")

    assert claimed is not None
    assert (claimed.sub, claimed.ids, claimed.by) == ("g", ["3-0", "1-0"], "thief")
    assert session.taken_over("g", dict.fromkeys(ids(1), 1), b"thief") is None
    assert session.settled(AckIntent(None, "g", ids(1)), [CLAIMED])[1] == 0
    assert held(session) == ids(2)


def test_the_end_of_a_subscription_tells_what_was_held_and_how_often_it_was_delivered() -> None:
    session = group_session(1, 2)
    again = Delivery(EntryId(1, 0), (b"k", b"v"), 5, 4, None)
    session.deliver_group("g", delivered()._replace(deliveries=[again]), credit=10)

    assert session.closed("g") == {EntryId(1, 0): 5, EntryId(2, 0): 1}
    assert session.closed("g") == {}
    assert session.closed("s") == {}


# What is sent


def test_entries_of_a_stream_are_sent_and_not_held() -> None:
    session = group_session()

    frame = session.deliver_read("s", stream_read(1, 2, last=2), credit=5)

    assert frame is not None
    assert frame.entry_count == 2
    assert json.loads(frame.text) == {
        "type": "entries",
        "sub": "s",
        "entries": [{"id": f"{ms}-0", "fields": {"k": "/w=="}, "base64": ["k"]} for ms in (1, 2)],
        "credit_left": 3,
    }
    assert session.closed("s") == {}


def test_of_nothing_no_frame_is_made() -> None:
    session = group_session()

    assert session.deliver_read("s", stream_read(last=2), credit=5) is None
    assert session.deliver_group("g", delivered(), credit=5) is None


def test_deliveries_are_held_in_the_order_of_sending() -> None:
    session = group_session()

    sent = session.deliver_group("g", delivered(2, 3), credit=10)
    session.deliver_group("g", delivered(1), credit=8)

    assert sent is not None
    frame = Entries.model_validate_json(sent.text)
    assert (frame.sub, frame.credit_left, frame.lag, frame.deleted_ids) == ("g", 8, 7, None)
    assert [entry.id for entry in frame.entries] == ["2-0", "3-0"]
    assert held(session) == ids(2, 3, 1)


def test_what_needs_no_ack_is_not_held() -> None:
    session = new_session()
    session.opened(GROUP._replace(no_ack=True))

    session.deliver_group("g", delivered(1), credit=10)

    assert held(session) == []


def test_what_is_gone_from_the_stream_is_named_costs_nothing_and_is_not_held() -> None:
    session = group_session()

    sent = session.deliver_group("g", delivered(1, gone=[2]), credit=10)

    assert sent is not None
    frame = Entries.model_validate_json(sent.text)
    assert sent.entry_count == 1
    assert (frame.deleted_ids, frame.credit_left) == (["2-0"], 9)
    assert held(session) == ids(1)


def test_what_is_delivered_again_is_held_once() -> None:
    session = group_session(1, 2)

    session.deliver_group("g", delivered(1), credit=10)

    assert session.settled(AckIntent(None, "g", ids(1)), [ACKED])[1] == 1
    assert held(session) == ids(2)


def test_a_state_is_told_once_when_it_changes() -> None:
    session = group_session()

    def state(*numbers: int, last: int, credit: int = 5) -> str | None:
        told = session.state_after("s", stream_read(*numbers, last=last), credit)
        if told is None:
            return None
        assert told.sub == "s"
        return told.state

    assert state(1, last=9) is None  # a subscription begins live
    assert state(9, last=9) == "caught_up"
    assert state(9, last=9) is None
    assert state(8, last=9, credit=0) == "credit_exhausted"
    assert state(8, last=9, credit=0) is None
    assert state(8, last=9) == "live"


@pytest.mark.parametrize("found", [GroupState.CAUGHT_UP, GroupState.MAX_PENDING])
def test_a_group_says_itself_in_what_state_it_is(found: GroupState) -> None:
    session = group_session()
    read = delivered()._replace(state=found)

    told = session.state_after("g", read, 5)

    assert told is not None
    assert (told.sub, told.state) == ("g", found.value)
    assert session.state_after("g", read, 5) is None
    assert session.state_after("s", stream_read(1, last=2), 5) is None  # each has its own
