"""Mailboxes: what a slow listener keeps, and what it loses."""

import pytest

from headgate.app.channels import channels as module
from headgate.app.channels.channels import KEPT_BYTES_MAX, KEPT_MAX, Channels, Mailbox
from headgate.app.channels.message import ChannelMessage
from tests.conditions import until


async def all_of(channels: Channels, mailbox: Mailbox) -> list[tuple[bytes, int]]:
    """Take everything that is kept; returns the data, and how many were dropped before it."""
    await until(lambda: not channels._is_delivering)
    taken = []
    while mailbox.has_more:
        message, _, dropped = await mailbox.next()
        assert message is not None
        taken.append((message.data, dropped))
    return taken


async def test_the_oldest_messages_make_room_and_are_counted() -> None:
    channels = Channels()
    mailbox = Mailbox(channels)
    await channels.listen(mailbox, b"c")

    for number in range(KEPT_MAX + 3):
        assert channels.deliver(ChannelMessage(b"c", b"%d" % number)) == 1

    taken = await all_of(channels, mailbox)
    assert taken[0] == (b"3", 3)
    assert [dropped for _, dropped in taken[1:]] == [0] * (KEPT_MAX - 1)
    assert taken[-1][0] == b"%d" % (KEPT_MAX + 2)
    assert channels.kept_bytes == 0


async def test_large_messages_make_room_sooner() -> None:
    channels = Channels()
    mailbox = Mailbox(channels)
    await channels.listen(mailbox, b"c")

    for number in range(3):
        channels.deliver(ChannelMessage(b"c", b"%d" % number * KEPT_BYTES_MAX))

    [(data, dropped)] = await all_of(channels, mailbox)
    assert (data[:1], dropped) == (b"2", 2)


async def test_what_all_keep_together_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KEPT_TOGETHER_BYTES_MAX", 10_000)
    channels = Channels()
    boxes = [Mailbox(channels) for _ in range(10)]
    for box in boxes:
        await channels.listen(box, b"c")

    for _ in range(20):
        channels.deliver(ChannelMessage(b"c", b"x" * 1_000))

    await until(lambda: not channels._is_delivering)
    assert channels.kept_bytes <= 10_000 + len(boxes) * 1_500
    for box in boxes:
        assert sum(1 + dropped for _, dropped in await all_of(channels, box)) == 20
    for box in boxes:
        box.close()
    assert channels.kept_bytes == 0


async def test_a_listener_to_several_patterns_gets_a_message_for_each() -> None:
    channels = Channels()
    heard: list[bytes | None] = []

    class Hearing:
        def take(self, message: ChannelMessage, pattern: bytes | None) -> None:
            heard.append(pattern)

    listener = Hearing()
    await channels.listen(listener, b"news")
    assert not await channels.listen(listener, b"news")
    for pattern in (b"n*", b"?ews", b"old*"):
        await channels.listen(listener, pattern, is_pattern=True)

    assert await channels.publish(b"news", b"x") == 3
    assert heard == [None, b"n*", b"?ews"]
    assert await channels.pattern_count() == 3
    channels.leave(listener, b"n*", is_pattern=True)
    assert await channels.publish(b"news", b"x") == 2


async def test_a_listener_that_fails_keeps_nobody_else_from_a_message() -> None:
    channels = Channels()

    class Failing:
        def take(self, message: ChannelMessage, pattern: bytes | None) -> None:
            raise ValueError

    mailbox = Mailbox(channels)
    for listener in (Failing(), mailbox):
        await channels.listen(listener, b"c")
    for data in (b"1", b"2"):
        channels.deliver(ChannelMessage(b"c", data))
    assert await all_of(channels, mailbox) == [(b"1", 0), (b"2", 0)]


async def test_what_comes_after_the_end_is_not_kept() -> None:
    channels = Channels()
    mailbox = Mailbox(channels)
    mailbox.close()
    mailbox.take(ChannelMessage(b"c", b"x"), None)  # as one that was on its way
    assert (mailbox.has_more, channels.kept_bytes) == (False, 0)
