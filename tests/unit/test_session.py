"""Session: the WebSocket conversation without a socket. Frames in, frames and intents out."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from app.session import (
    Ack,
    AddCredit,
    Extend,
    Intent,
    Nack,
    NotAFrameError,
    Pong,
    ProblemFrame,
    Session,
)
from engine.decisions.deliveries import NackMode
from engine.entry import Entry, EntryId
from engine.replies import Delivery, GroupRead, GroupState, Outcome, StreamRead

ACKED, CLAIMED, NOT_PENDING = Outcome.ACKED, Outcome.CLAIMED, Outcome.NOT_PENDING


def group_session(*held: int, auto_credit: bool = True) -> Session:
    """Return a conversation with a group that holds `1-0`, `2-0`, …"""
    session = Session(is_group=True, auto_credit=auto_credit)
    session.deliver_group(delivered(*held), credit=64)
    return session


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
        ({"type": "credit", "entries": 32}, AddCredit(32)),
        ({"type": "credit", "sub": "0", "entries": 1}, AddCredit(1)),
        ({"type": "ack", "ids": ["1-0", "2"]}, Ack(None, ids(1, 2))),
        ({"type": "ack", "rid": "r", "sub": "0", "ids": ["9-0"]}, Ack("r", ids(9))),
        ({"type": "nack", "ids": ["1-0"]}, Nack(None, ids(1), NackMode.FAIL)),
        (
            {"type": "nack", "rid": "r", "ids": ["1-0"], "mode": "silent"},
            Nack("r", ids(1), NackMode.SILENT),
        ),
        ({"type": "extend", "rid": "r", "ids": ["1-0"]}, Extend("r", ids(1))),
    ],
)
def test_a_frame_says_what_to_do(frame: dict[str, Any], intent: Intent) -> None:
    assert receive(group_session(1, 2), frame) == intent


@pytest.mark.parametrize("is_group", [True, False])
@pytest.mark.parametrize("rid", [None, "", "r" * 64])
def test_a_ping_is_answered_at_once(is_group: bool, rid: str | None) -> None:
    session = Session(is_group=is_group, auto_credit=True)
    frame = {"type": "ping"} if rid is None else {"type": "ping", "rid": rid}

    assert receive(session, frame) == Pong(rid=rid)


def test_up_to_acknowledges_what_is_held_so_far() -> None:
    session = group_session(1, 2, 3)
    session.deliver_group(delivered(0), credit=1)  # claimed: older than what came before

    assert receive(session, {"type": "ack", "up_to": "2-0"}) == Ack(None, ids(1, 2, 0))
    assert receive(session, {"type": "ack", "up_to": "0-0"}) == Ack(None, ids(0))


def test_up_to_leaves_alone_what_is_settled() -> None:
    session = group_session(1, 2)
    session.settled(Ack(None, ids(1)), [ACKED])

    assert receive(session, {"type": "ack", "up_to": "2-0"}) == Ack(None, ids(2))


def test_credit_is_given_to_plain_subscriptions_too() -> None:
    session = Session(is_group=False, auto_credit=False)

    assert receive(session, {"type": "credit", "entries": 5}) == AddCredit(5)


@pytest.mark.parametrize("kind", ["ack", "nack", "extend"])
def test_without_a_group_there_is_nothing_to_settle(kind: str) -> None:
    session = Session(is_group=False, auto_credit=True)

    problem = problem_of(session, {"type": kind, "rid": "r", "ids": ["1-0"]})

    assert problem == ("r", "invalid_request", "/body/type")


# What a client should not say


@pytest.mark.parametrize(
    ("frame", "code", "pointer"),
    [
        ({}, "invalid_request", "/body"),
        ({"type": "poll"}, "invalid_request", "/body"),
        ({"type": None}, "invalid_request", "/body"),
        ({"type": "ping", "x": 1}, "invalid_request", "/body/x"),
        ({"type": "ping", "rid": 1}, "invalid_request", "/body/rid"),
        ({"type": "ping", "rid": "r" * 65}, "invalid_request", "/body/rid"),
        ({"type": "credit"}, "invalid_request", "/body/entries"),
        ({"type": "credit", "entries": 0}, "invalid_request", "/body/entries"),
        ({"type": "credit", "entries": -1}, "invalid_request", "/body/entries"),
        ({"type": "credit", "entries": "1"}, "invalid_request", "/body/entries"),
        ({"type": "credit", "entries": 1.0}, "invalid_request", "/body/entries"),
        ({"type": "credit", "entries": True}, "invalid_request", "/body/entries"),
        ({"type": "credit", "entries": 1, "sub": "1"}, "invalid_request", "/body/sub"),
        ({"type": "credit", "entries": 1, "rid": "r"}, "invalid_request", "/body/rid"),
        ({"type": "ack"}, "invalid_request", "/body/ids"),
        ({"type": "ack", "ids": []}, "invalid_request", "/body/ids"),
        ({"type": "ack", "ids": "1-0"}, "invalid_request", "/body/ids"),
        ({"type": "ack", "ids": ["1-0"], "up_to": "1-0"}, "invalid_request", "/body/ids"),
        ({"type": "ack", "ids": ["1-0"] * 10_001}, "invalid_request", "/body/ids"),
        ({"type": "ack", "ids": ["1-0", 2]}, "invalid_request", "/body/ids/1"),
        ({"type": "ack", "ids": ["1-0", "x"]}, "invalid_id", "/body/ids/1"),
        ({"type": "ack", "up_to": "x"}, "invalid_id", "/body/up_to"),
        ({"type": "ack", "up_to": ""}, "invalid_id", "/body/up_to"),
        ({"type": "nack", "ids": ["x"]}, "invalid_id", "/body/ids/0"),
        ({"type": "nack", "ids": ["1-0"], "mode": "loud"}, "invalid_request", "/body/mode"),
        ({"type": "nack", "ids": ["1-0"], "delay_ms": 5}, "invalid_request", "/body/delay_ms"),
        ({"type": "extend", "ids": ["x"]}, "invalid_id", "/body/ids/0"),
        ({"type": "extend", "up_to": "1-0"}, "invalid_request", "/body/ids"),
    ],
)
def test_a_wrong_frame_is_answered_with_a_problem_that_points_at_it(
    frame: Any, code: str, pointer: str
) -> None:
    session = group_session(1)

    _, found, where = problem_of(session, frame)

    assert (found, where) == (code, pointer)
    assert list(session.held) == ids(1)


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "ack", "rid": "r", "ids": ["x"]},
        {"type": "ack", "rid": "r", "ids": []},
        {"type": "poll", "rid": "r"},
        {"type": "subscribe", "rid": "r", "sub": "a", "stream": "orders"},
        {"rid": "r"},
    ],
)
def test_a_problem_carries_the_rid_of_its_frame(frame: dict[str, Any]) -> None:
    assert problem_of(group_session(), frame)[0] == "r"


@pytest.mark.parametrize("rid", [5, None, "r" * 65])
def test_a_rid_that_cannot_be_read_is_left_out(rid: Any) -> None:
    assert problem_of(group_session(), {"type": "ping", "rid": rid, "x": 1})[0] is None


@pytest.mark.parametrize("kind", ["subscribe", "unsubscribe", "append"])
def test_frames_of_the_long_form_say_that_they_are_not_served_yet(kind: str) -> None:
    answer = receive(group_session(), {"type": kind, "rid": "r"})

    assert isinstance(answer, ProblemFrame)
    assert "not served by this version yet" in answer.problem.detail


def test_a_delay_is_not_served_yet() -> None:
    answer = receive(group_session(), {"type": "nack", "ids": ["1-0"], "delay_ms": 5})

    assert isinstance(answer, ProblemFrame)
    assert "not served by this version yet" in answer.problem.detail


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

    answer, returned = session.settled(Ack("r", ids(2, 1)), [ACKED, ACKED])

    assert list(session.held) == ids(3)
    assert returned == 2
    assert answer is not None
    assert answer.model_dump(mode="json") == {
        "type": "acked",
        "rid": "r",
        "sub": "0",
        "results": [{"id": "2-0", "outcome": "acked"}, {"id": "1-0", "outcome": "acked"}],
    }


def test_without_auto_credit_nothing_returns() -> None:
    session = group_session(1, auto_credit=False)

    assert session.settled(Ack(None, ids(1)), [ACKED]) == (None, 0)
    assert list(session.held) == []


@pytest.mark.parametrize("outcome", [CLAIMED, NOT_PENDING])
def test_what_is_lost_is_held_no_more_and_returns_its_credit(outcome: Outcome) -> None:
    session = group_session(1)

    answer, returned = session.settled(Ack(None, ids(1)), [outcome])

    assert (list(session.held), returned) == ([], 1)
    assert answer is not None  # bad news is told even if nobody asked


def test_what_was_not_held_returns_no_credit() -> None:
    session = group_session(1)

    assert session.settled(Ack(None, ids(9, 1, 1)), [ACKED, ACKED, ACKED]) == (None, 1)
    assert session.settled(Ack(None, ids(1)), [ACKED]) == (None, 0)


def test_what_is_given_back_is_held_no_more() -> None:
    session = group_session(1, 2)

    answer, returned = session.settled(Nack("r", ids(1), NackMode.FAIL), [Outcome.RELEASED])

    assert (list(session.held), returned) == (ids(2), 1)
    assert answer is not None
    assert answer.type == "ok"


def test_what_is_extended_is_still_held() -> None:
    session = group_session(1, 2)
    extend = Extend("r", ids(1, 2))

    answer, returned = session.settled(extend, [Outcome.EXTENDED, CLAIMED])

    assert (list(session.held), returned) == (ids(1), 1)
    assert answer is not None
    assert [one.outcome for one in answer.results] == [Outcome.EXTENDED, CLAIMED]


def test_a_repeated_ack_returns_credit_once() -> None:
    session = group_session(1)
    ack = Ack("r", ids(1))

    first = session.settled(ack, [ACKED])[1]
    second = session.settled(ack, [NOT_PENDING])[1]

    assert (first, second) == (1, 0)


# What is sent


def test_entries_of_a_stream_are_sent_and_not_held() -> None:
    session = Session(is_group=False, auto_credit=True)
    entries = [Entry(entry_id, (b"k", b"\xff")) for entry_id in ids(1, 2)]
    read = StreamRead(b"orders", entries, EntryId(2, 0), EntryId(2, 0), None, EntryId(0, 0))

    frame = session.deliver_read(read, credit=5)

    assert list(session.held) == []
    assert json.loads(frame.model_dump_json(exclude_none=True)) == {
        "type": "entries",
        "sub": "0",
        "entries": [{"id": f"{ms}-0", "fields": {"k": "/w=="}, "base64": ["k"]} for ms in (1, 2)],
        "credit_left": 3,
    }


def test_deliveries_are_held_in_the_order_of_sending() -> None:
    session = group_session()

    frame = session.deliver_group(delivered(2, 3), credit=10)
    session.deliver_group(delivered(1), credit=8)

    assert list(session.held) == ids(2, 3, 1)
    assert (frame.credit_left, frame.lag, frame.deleted_ids) == (8, 7, None)
    assert [entry.id for entry in frame.entries] == ["2-0", "3-0"]


def test_what_is_gone_from_the_stream_is_named_costs_nothing_and_is_not_held() -> None:
    session = group_session()

    frame = session.deliver_group(delivered(1, gone=[2]), credit=10)

    assert (frame.deleted_ids, frame.credit_left) == (["2-0"], 9)
    assert list(session.held) == ids(1)


def test_what_is_delivered_again_is_held_once() -> None:
    session = group_session(1, 2)

    session.deliver_group(delivered(1), credit=10)

    assert list(session.held) == ids(1, 2)
    assert session.settled(Ack(None, ids(1)), [ACKED])[1] == 1
