"""COMMAND: the commands that exist, with their descriptions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headgate.app.redis_syntax.catalog import (
    CATALOG,
    Described,
    Description,
    docs_of,
    has_arity,
    info_of,
    keys_among,
    statuses,
)
from headgate.app.redis_syntax.command import ANY_RIGHT, CommandTable, SmallReply
from headgate.app.redis_syntax.replies import NULL_ARRAY
from headgate.app.redis_syntax.words import SYNTAX, AnyPlan, CommandError, saying
from headgate.engine.patterns import matcher


class AboutCommands:
    def __init__(self, described: Callable[[], Described]) -> None:
        """`described` returns the commands without their subcommands."""
        self._described = described

    @property
    def _commands(self) -> list[str]:
        """Return the names of the commands, without their subcommands."""
        return [name for name in self._described() if "|" not in name]

    @property
    def table(self) -> CommandTable:
        return {
            b"COUNT": SmallReply(ANY_RIGHT, self._count, only_reads=True),
            b"LIST": SmallReply(ANY_RIGHT, self._list, only_reads=True),
            b"INFO": SmallReply(ANY_RIGHT, self.info, only_reads=True),
            b"DOCS": SmallReply(ANY_RIGHT, self._docs, only_reads=True),
            b"GETKEYS": SmallReply(ANY_RIGHT, self._keys, only_reads=True),
            b"GETKEYSANDFLAGS": SmallReply(ANY_RIGHT, self._keys, only_reads=True),
        }

    def info(self, words: Sequence[bytes]) -> AnyPlan:
        described = self._described()
        names = self._commands if len(words) <= 2 else map(_name, words[2:])
        return saying(
            [info_of(name, described) if name in described else NULL_ARRAY for name in names]
        )

    def _count(self, _: object) -> AnyPlan:
        return saying(len(self._commands))

    def _docs(self, words: Sequence[bytes]) -> AnyPlan:
        described = self._described()
        names = self._commands if len(words) == 2 else map(_name, words[2:])
        return saying(docs_of([name for name in names if name in described], described))

    def _list(self, words: Sequence[bytes]) -> AnyPlan:
        """COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern]."""
        described = self._described()
        if len(words) == 2:
            return saying([name.encode() for name in described])
        if len(words) != 5 or words[2].upper() != b"FILTERBY":
            raise CommandError(SYNTAX)
        fits = _filter(words[3].upper(), words[4])
        return saying([name.encode() for name, each in described.items() if fits(name, each)])

    def _keys(self, words: Sequence[bytes]) -> AnyPlan:
        """COMMAND GETKEYS word ..., COMMAND GETKEYSANDFLAGS word ...."""
        name, asked = self._named(words[2:]), words[2:]
        if name not in self._described():
            raise CommandError("ERR Invalid command specified")
        command = CATALOG[name]
        if not command.keys:
            raise CommandError("ERR The command has no key arguments")
        if not has_arity(asked, name):
            raise CommandError("ERR Invalid number of arguments specified for command")
        keys = keys_among(asked, command)
        if not keys:
            raise CommandError("ERR Invalid arguments specified for command")
        if words[1].upper() == b"GETKEYS":
            return saying([key for key, _ in keys])
        return saying([[key, statuses(place.flags.split())] for key, place in keys])

    def _named(self, words: Sequence[bytes]) -> str:
        """Return the name of the command that words begin with, which need not exist."""
        name = _name(words[0])
        if "|" in name:
            return ""
        has_more = name in CATALOG and CATALOG[name].subcommands and len(words) > 1
        return f"{name}|{_name(words[1])}" if has_more else name


def _filter(kind: bytes, text: bytes) -> Callable[[str, Description], bool]:
    if kind == b"MODULE":
        return lambda *_: False
    if kind == b"ACLCAT":
        category = f"@{_name(text)}"
        return lambda _, command: category in command.all_categories
    if kind == b"PATTERN":
        matches = matcher(text.lower())
        return lambda name, _: matches(name.encode())
    raise CommandError(SYNTAX)


def _name(word: bytes) -> str:
    return word.decode("latin-1").lower()
