"""The table of commands: their names, their numbers of words, and the functions that parse them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from headgate.app.redis_syntax import groups, info, keys, streams
from headgate.app.redis_syntax.help import help_
from headgate.app.redis_syntax.words import AnyPlan, Bounds, CommandError, shown, wrong_arity


@dataclass(frozen=True)
class Command:
    """A command, and how many words it has, its name included.

    A negative number means at least so many.
    """

    arity: int

    def check_arity(self, words: Sequence[bytes], name: str) -> None:
        """Raise `CommandError` if a command has a wrong number of words."""
        if len(words) != self.arity if self.arity > 0 else len(words) < -self.arity:
            raise wrong_arity(name)


@dataclass(frozen=True)
class SmallReply(Command):
    """A command whose reply is always small, with the function that parses its words."""

    plan: Callable[[Sequence[bytes]], AnyPlan]
    only_reads: bool = False

    def read(self, words: Sequence[bytes], bounds: Bounds) -> AnyPlan:
        """Return the plan of a command."""
        del bounds
        return self.plan(words)


@dataclass(frozen=True)
class LargeReply(Command):
    """A command whose reply may be large, with the function that parses its words."""

    plan: Callable[[Sequence[bytes], Bounds], AnyPlan]
    only_reads: bool = False

    def read(self, words: Sequence[bytes], bounds: Bounds) -> AnyPlan:
        """Return the plan of a command. Its reply keeps within the bounds."""
        return self.plan(words, bounds)


AnyCommand = SmallReply | LargeReply

COMMANDS: dict[bytes, AnyCommand] = {
    b"XADD": SmallReply(-5, streams.xadd),
    b"XTRIM": SmallReply(-4, streams.xtrim),
    b"XLEN": SmallReply(2, streams.xlen, only_reads=True),
    b"XRANGE": LargeReply(-4, streams.xrange, only_reads=True),
    b"XREVRANGE": LargeReply(-4, streams.xrevrange, only_reads=True),
    b"XREAD": LargeReply(-4, streams.xread, only_reads=True),
    b"XDEL": SmallReply(-3, streams.xdel),
    b"XDELEX": SmallReply(-5, streams.xdelex),
    b"XSETID": SmallReply(-3, streams.xsetid),
    b"XCFGSET": SmallReply(-2, streams.xcfgset),
    b"XIDMPRECORD": SmallReply(5, streams.xidmprecord),
    b"XREADGROUP": LargeReply(-7, groups.xreadgroup),
    b"XACK": SmallReply(-4, groups.xack),
    b"XACKDEL": SmallReply(-6, groups.xackdel),
    b"XNACK": SmallReply(-7, groups.xnack),
    b"XPENDING": LargeReply(-3, groups.xpending, only_reads=True),
    b"XCLAIM": SmallReply(-6, groups.xclaim),
    b"XAUTOCLAIM": LargeReply(-6, groups.xautoclaim),
    b"PING": SmallReply(-1, keys.ping, only_reads=True),
    b"ECHO": SmallReply(2, keys.echo, only_reads=True),
    b"TIME": SmallReply(1, keys.time, only_reads=True),
    b"DEL": SmallReply(-2, keys.delete),
    b"UNLINK": SmallReply(-2, keys.delete),
    b"EXISTS": SmallReply(-2, keys.exists, only_reads=True),
    b"TYPE": SmallReply(2, keys.type_, only_reads=True),
    b"KEYS": LargeReply(2, keys.keys, only_reads=True),
    b"SCAN": LargeReply(-2, keys.scan, only_reads=True),
    b"DBSIZE": SmallReply(1, keys.dbsize, only_reads=True),
    b"RENAME": SmallReply(3, keys.rename),
    b"EXPIRE": SmallReply(-3, keys.expire),
    b"PEXPIRE": SmallReply(-3, keys.expire),
    b"TTL": SmallReply(2, keys.ttl, only_reads=True),
    b"PTTL": SmallReply(2, keys.ttl, only_reads=True),
    b"PERSIST": SmallReply(2, keys.persist),
    b"FLUSHALL": SmallReply(-1, keys.flush),
    b"FLUSHDB": SmallReply(-1, keys.flush),
    b"CONFIG": SmallReply(-2, keys.config),
}

SUBCOMMANDS: dict[bytes, dict[bytes, AnyCommand]] = {
    b"XGROUP": {
        b"CREATE": SmallReply(-5, groups.xgroup),
        b"SETID": SmallReply(-5, groups.xgroup),
        b"DESTROY": SmallReply(4, groups.xgroup),
        b"CREATECONSUMER": SmallReply(5, groups.xgroup),
        b"DELCONSUMER": SmallReply(5, groups.xgroup),
        b"HELP": SmallReply(2, help_, only_reads=True),
    },
    b"XINFO": {
        b"STREAM": LargeReply(-3, info.xinfo, only_reads=True),
        b"GROUPS": LargeReply(3, info.xinfo, only_reads=True),
        b"CONSUMERS": LargeReply(4, info.xinfo, only_reads=True),
        b"HELP": SmallReply(2, help_, only_reads=True),
    },
}


def find(words: Sequence[bytes], commands: Mapping[bytes, AnyCommand]) -> tuple[AnyCommand, str]:
    """Return a command and its full name.

    Args:
        words: the name, for some commands a subcommand, and the arguments.
        commands: all commands except those with subcommands.

    Raises:
        CommandError: the command or the subcommand does not exist.
    """
    name = words[0].upper() if words else b""
    if name in SUBCOMMANDS:
        lower = name.decode().lower()
        if len(words) < 2:
            raise wrong_arity(lower)
        entry = SUBCOMMANDS[name].get(words[1].upper())
        if entry is None:
            text = f"unknown subcommand '{shown(words[1])}'. Try {name.decode()} HELP."
            raise CommandError(f"ERR {text}")
        return entry, f"{lower}|{words[1].decode().lower()}"
    if name not in commands:
        args = "".join(f"'{shown(word)}' " for word in words[1:])
        shown_name = shown(words[0]) if words else ""
        raise CommandError(f"ERR unknown command '{shown_name}', with args beginning with: {args}")
    return commands[name], name.decode().lower()
