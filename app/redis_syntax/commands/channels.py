"""Commands about channels: PUBLISH and PUBSUB."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from headgate.app.auth.grants import Verb
from headgate.app.auth.principal import Need
from headgate.app.channels.channels import Channels
from headgate.app.redis_syntax.command import CommandTable, SmallReply
from headgate.app.redis_syntax.replies import Reply
from headgate.app.redis_syntax.words import AnyPlan, CommandError, check_names, saying, shown
from headgate.app.wire.problems import GatewayError


class ChannelCommands:
    """The commands over the channels of this process."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels

    @property
    def commands(self) -> CommandTable:
        return {b"PUBLISH": SmallReply({Verb.PUBLISH}, self._publish)}

    @property
    def subcommands(self) -> CommandTable:
        """Return the subcommands of PUBSUB."""
        verbs = {Verb.SUBSCRIBE}
        return {
            b"CHANNELS": SmallReply(verbs, self._names, only_reads=True),
            b"NUMSUB": SmallReply(verbs, self._counts, only_reads=True),
            b"NUMPAT": SmallReply(verbs, self._pattern_count, only_reads=True),
        }

    def _publish(self, words: Sequence[bytes]) -> AnyPlan:
        """PUBLISH channel message."""
        channel, data = words[1:]
        check_names(channel)

        async def publish() -> Reply:
            try:
                return await self._channels.publish(channel, data)
            except GatewayError as error:
                raise CommandError(f"ERR {error}") from None

        return _after(publish, Need((Verb.PUBLISH,), channel))

    def _names(self, words: Sequence[bytes]) -> AnyPlan:
        """PUBSUB CHANNELS [pattern]."""
        if len(words) > 3:
            name = shown(words[1])
            text = f"unknown subcommand or wrong number of arguments for '{name}'"
            raise CommandError(f"ERR {text}. Try PUBSUB HELP.")
        pattern = words[2] if len(words) == 3 else None

        async def names() -> Reply:
            return list(await self._channels.names(pattern))

        return _after(names)

    def _counts(self, words: Sequence[bytes]) -> AnyPlan:
        """PUBSUB NUMSUB [channel ...]."""

        async def counts() -> Reply:
            counted = await self._channels.counts(words[2:])
            return [part for pair in zip(words[2:], counted, strict=True) for part in pair]

        return _after(counts)

    def _pattern_count(self, _: Sequence[bytes]) -> AnyPlan:
        async def pattern_count() -> Reply:
            return await self._channels.pattern_count()

        return _after(pattern_count)


def _after(tell: Callable[[], Awaitable[Reply]], *needs: Need) -> AnyPlan:
    """Return a plan whose reply is made once the commands before it are carried out."""

    async def finish(_: Reply) -> Reply:
        return await tell()

    return replace(saying(None), finish=finish, needs=needs)
