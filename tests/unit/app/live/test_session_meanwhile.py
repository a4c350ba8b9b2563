"""Session: what happens while something is under way at the backend."""

from headgate.app.live.frames import Acked
from headgate.app.live.session import AckIntent, Session, SubscribeIntent
from headgate.engine.entry import EntryId
from headgate.engine.replies import Delivery, GroupRead, GroupState, Outcome
from headgate.engine.requests import From

ONE = EntryId(1, 0)


def group_session() -> Session:
    """Return a conversation with a subscription `s` to a group."""
    session = Session(subscriptions_max=1, credit_max=64, batch_entries_max=1)
    names = b"orders", b"billing", b"me"
    session.opened(
        SubscribeIntent(
            "1",
            "s",
            *names,
            after=From.NOW,
            credit=64,
            auto_credit=True,
            claim_idle_ms=None,
            on_disconnect=None,
            no_ack=False,
        )
    )
    return session


def delivered(delivered_before: int) -> GroupRead:
    delivery = Delivery(ONE, (b"k", b"v"), 0, delivered_before, None)
    return GroupRead(b"orders", [delivery], True, 0, 1, GroupState.LIVE)


def test_an_ack_is_answered_though_its_subscription_has_ended_meanwhile() -> None:
    session = group_session()
    session.deliver_group("s", delivered(0), credit=64)
    intent = AckIntent("2", "s", [ONE])
    session.closed("s")

    answer, returned = session.settled(intent, [Outcome.ACKED])

    assert answer is not None
    assert (Acked.model_validate_json("".join(answer)).rid, returned) == ("2", 0)


def test_what_another_took_and_gave_back_meanwhile_is_still_held() -> None:
    session = group_session()
    session.deliver_group("s", delivered(0), credit=64)
    # `other` claims it: that is told once it is durable. By then it is ours again.
    session.deliver_group("s", delivered(1), credit=64)

    assert session.taken_over("s", {ONE: 1}, b"other") is None
    assert session.closed("s") == {ONE: 2}


def test_what_another_took_before_it_was_sent_is_lost() -> None:
    session = group_session()
    # `other` claims it while its first delivery is not durable yet, and so not sent.
    session.deliver_group("s", delivered(0), credit=64)

    claimed = session.taken_over("s", {ONE: 1}, b"other")

    assert claimed is not None
    assert claimed.ids == ["1-0"]
    assert session.closed("s") == {}
