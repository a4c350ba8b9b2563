"""The client's side of the conversation, without a socket."""

import json
from typing import Any

import pytest

from headgate.client import problems
from headgate.client.conversation import Conversation
from headgate.client.subscription import Nack, Subscription


class Talk:
    """A conversation and what it has sent."""

    def __init__(self) -> None:
        self.wishes = 0
        self.conversation = Conversation(self._wish, lambda: None)

    def _wish(self) -> None:
        self.wishes += 1

    def hear(self, **frame: Any) -> None:
        self.conversation.receive(json.dumps(frame))

    def sent(self, *kinds: str) -> list[dict[str, Any]]:
        frames = [json.loads(text) for text in self.conversation.frames_to_send()]
        return [frame for frame in frames if not kinds or frame["type"] in kinds]

    def consume(self, credit: int = 10) -> Subscription:
        """Begin a subscription of a group on an open connection."""
        subscription = self.conversation.add({"stream": "s", "group": "g"}, credit=credit)
        self.connect()
        return subscription

    def connect(self) -> None:
        self.conversation.begin()
        self.sent()
        for name in self.conversation.subscriptions:
            self.hear(type="subscribed", sub=name, position="0-0", consumer="c-1", pending=0)

    def deliver(self, *ids: str, deliveries: int = 1) -> None:
        entries = [{"id": id_, "fields": {}, "deliveries": deliveries, "idle_ms": 0} for id_ in ids]
        self.hear(type="entries", sub="1", entries=entries, credit_left=0)


@pytest.fixture
def talk() -> Talk:
    return Talk()


def test_settlements_of_a_turn_are_one_frame_and_are_answered_once(talk: Talk) -> None:
    jobs, quiet = talk.consume(), list[bool]()
    talk.deliver("1-0", "2-0", "3-0", "4-0")
    ids = [jobs.next_item()["id"] for _ in range(4)]
    for entry_id in ids[:2]:
        jobs.settle(entry_id, None)
    jobs.settle(ids[2], Nack())
    jobs.settle(ids[3], Nack(delay_ms=500, error="KeyError: 'sku'"))
    ack, nack, later = talk.sent()
    assert (ack["type"], ack["ids"]) == ("ack", ["1-0", "2-0"])
    assert (nack["type"], nack["ids"]) == ("nack", ["3-0"])
    assert not nack.keys() & {"delay_ms", "error"}
    assert (later["ids"], later["mode"], later["delay_ms"]) == (["4-0"], "fail", 500)
    assert later["error"] == "KeyError: 'sku'"
    talk.conversation.when_quiet(jobs, lambda: quiet.append(True))
    results = [{"id": id_, "outcome": "acked"} for id_ in ids[:2]]
    talk.hear(type="acked", rid=ack["rid"], sub="1", results=results)
    assert not jobs.held
    for frame in (nack, later):
        assert not quiet
        results = [{"id": frame["ids"][0], "outcome": "released"}]
        talk.hear(type="ok", rid=frame["rid"], sub="1", results=results)
    assert quiet == [True]


def test_what_is_in_work_is_not_begun_again_after_a_loss(talk: Talk) -> None:
    jobs = talk.consume()
    talk.deliver("1-0", "2-0", "3-0")
    assert [jobs.next_item()["id"] for _ in range(2)] == ["1-0", "2-0"]
    jobs.settle("1-0", None)  # done, and nobody hears it
    talk.conversation.lost()
    assert not jobs.items
    talk.connect()
    talk.deliver("1-0", "2-0", "3-0", deliveries=2)
    assert [item["id"] for item in jobs.items] == ["3-0"]
    [ack] = talk.sent("ack")
    assert ack["ids"] == ["1-0"]
    jobs.settle("2-0", None)  # it was in work all the time
    [ack] = talk.sent("ack")
    assert ack["ids"] == ["2-0"]


def test_a_failed_entry_that_comes_again_is_begun_again(talk: Talk) -> None:
    jobs = talk.consume()
    talk.deliver("1-0")
    jobs.settle(jobs.next_item()["id"], Nack())
    talk.conversation.lost()
    talk.connect()
    talk.deliver("1-0", deliveries=2)
    assert jobs.next_item()["deliveries"] == 2


def test_a_failed_entry_may_come_again_before_its_nack_is_answered(talk: Talk) -> None:
    jobs = talk.consume()
    talk.deliver("1-0")
    jobs.settle(jobs.next_item()["id"], Nack())
    [nack] = talk.sent("nack")
    talk.deliver("1-0", deliveries=2)
    results = [{"id": "1-0", "outcome": "released"}]
    talk.hear(type="ok", rid=nack["rid"], sub="1", results=results)
    jobs.settle(jobs.next_item()["id"], None)
    [ack] = talk.sent("ack")
    assert ack["ids"] == ["1-0"]


def test_what_was_claimed_is_not_given_to_the_program(talk: Talk) -> None:
    jobs, lost = talk.consume(), list[tuple[str, str]]()
    jobs.on_claimed = lambda entry_id, by: lost.append((entry_id, by))
    talk.deliver("1-0", "2-0", "3-0")
    assert jobs.next_item()["id"] == "1-0"
    talk.hear(type="claimed", sub="1", ids=["1-0", "2-0", "9-0"], by="thief")
    assert [item["id"] for item in jobs.items] == ["3-0"]
    assert lost == [("1-0", "thief"), ("2-0", "thief")]
    jobs.settle("1-0", None)
    assert talk.sent("ack") == []


def test_a_follower_goes_on_after_what_it_has_received(talk: Talk) -> None:
    entries = talk.conversation.add({"stream": "s", "after": "$"}, credit=4)
    talk.conversation.begin()
    [frame] = talk.sent("subscribe")
    assert (frame["after"], frame["credit"]) == ("$", 4)
    talk.hear(type="subscribed", sub="1", position="7-0")
    talk.conversation.lost()
    talk.conversation.begin()
    [frame] = talk.sent("subscribe")
    assert frame["after"] == "7-0"
    talk.hear(type="subscribed", sub="1", position="7-0", gap={"from": "7-1", "to": "7-9"})
    talk.hear(type="entries", sub="1", entries=[{"id": "8-0", "fields": {}}], credit_left=3)
    assert (entries.gap, entries.next_item()["id"]) == (("7-1", "7-9"), "8-0")
    assert talk.sent("credit") == []
    talk.hear(type="entries", sub="1", entries=[{"id": "9-0", "fields": {}}], credit_left=2)
    entries.next_item()
    assert [frame["entries"] for frame in talk.sent("credit")] == [2]


def test_a_problem_ends_a_subscription_or_puts_it_off(talk: Talk) -> None:
    jobs = talk.consume()
    draining = {"code": "draining", "status": 503, "retryable": True, "retry_after_ms": 250}
    talk.hear(type="problem", sub="1", problem=draining)
    assert talk.conversation.refused == [(jobs, 0.25)]
    talk.conversation.resubscribe(jobs)
    assert len(talk.sent("subscribe")) == 1
    gone = {"code": "group_not_found", "status": 404, "retryable": False}
    talk.hear(type="problem", sub="1", problem=gone)
    assert jobs.has_ended
    assert isinstance(jobs.failure, problems.GroupNotFound)
    assert not talk.conversation.subscriptions


def test_a_gateway_that_does_not_lead_is_noted_until_the_next_connection(talk: Talk) -> None:
    talk.consume()
    problem = {
        "code": "not_leader",
        "retryable": True,
        "retry_after_ms": 1000,
        "leader": "http://b",
    }
    talk.hear(type="problem", sub="1", problem=problem)

    not_leader = talk.conversation.not_leader
    assert isinstance(not_leader, problems.NotLeader)
    assert not_leader.leader == "http://b"
    assert "1" in talk.conversation.subscriptions  # it is tried again
    talk.conversation.lost()
    talk.connect()
    assert talk.conversation.not_leader is None
