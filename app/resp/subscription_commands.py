"""The commands with which a Redis client subscribes to channels."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from headgate.app.auth.grants import Verb
from headgate.app.redis_syntax.replies import PushMessage, PushMessages, Reply
from headgate.app.redis_syntax.words import check_names
from headgate.app.resp.session import OwnCommand, OwnCommands, RespSession
from headgate.engine.threads import this_turn


def subscribing(*, is_pattern: bool) -> Callable[[RespSession, Sequence[bytes]], Awaitable[Reply]]:
    """Return the command SUBSCRIBE, or PSUBSCRIBE.

    Of the channels that match a pattern, only the messages of those come that the client may
    subscribe to.
    """
    kind = b"psubscribe" if is_pattern else b"subscribe"

    async def carry_out(session: RespSession, words: Sequence[bytes]) -> Reply:
        names, turn = words[1:], this_turn()
        check_names(*names)
        if is_pattern:
            session.access.check({Verb.SUBSCRIBE})
        else:
            await session.access.require_each(Verb.SUBSCRIBE, names)
        replies = PushMessages()
        for name in names:
            await session.subscriptions.add(name, is_pattern=is_pattern)
            replies.append(PushMessage([kind, name, session.subscriptions.count]))
            await turn.pause()
        return replies

    return carry_out


def ending(*, is_pattern: bool) -> Callable[[RespSession, Sequence[bytes]], Awaitable[Reply]]:
    """Return the command UNSUBSCRIBE, or PUNSUBSCRIBE."""
    kind = b"punsubscribe" if is_pattern else b"unsubscribe"

    async def carry_out(session: RespSession, words: Sequence[bytes]) -> Reply:
        subscriptions, replies, turn = session.subscriptions, PushMessages(), this_turn()
        for name in words[1:] or list(subscriptions.names[is_pattern]):
            subscriptions.remove(name, is_pattern=is_pattern)
            replies.append(PushMessage([kind, name, subscriptions.count]))
            await turn.pause()
        if not replies:
            replies.append(PushMessage([kind, None, subscriptions.count]))
        return replies

    return carry_out


COMMANDS: OwnCommands = {
    b"SUBSCRIBE": OwnCommand(subscribing(is_pattern=False), in_transactions=False),
    b"PSUBSCRIBE": OwnCommand(subscribing(is_pattern=True), in_transactions=False),
    b"UNSUBSCRIBE": OwnCommand(ending(is_pattern=False), in_transactions=False),
    b"PUNSUBSCRIBE": OwnCommand(ending(is_pattern=True), in_transactions=False),
}
