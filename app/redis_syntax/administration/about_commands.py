"""COMMAND: the commands that exist, with their descriptions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from headgate.app.redis_syntax.catalog import (
    Described,
    DescribedCommand,
    docs_of_all,
    info_of,
    keys_among,
    statuses,
)
from headgate.app.redis_syntax.command import ANY_RIGHT, CommandTable, SmallReply
from headgate.app.redis_syntax.replies import NULL_ARRAY
from headgate.app.redis_syntax.words import SYNTAX, AnyPlan, CommandError, has_arity, saying
from headgate.engine.patterns import matcher


class AboutCommands:
    """Answers COMMAND."""

    def __init__(self, described: Callable[[], Described]) -> None:
        """Tell about commands.

        Args:
            described: returns the commands that there are, without their subcommands.
        """
        self._described = described

    @property
    def _commands(self) -> Described:
        return self._described()

    def _find(self, name: str) -> DescribedCommand | None:
        command = self._commands.get(name.partition("|")[0])
        return None if command is None else command.find(name)

    def _all(self) -> Iterable[DescribedCommand]:
        return (each for command in self._commands.values() for each in command.walk())

    @property
    def table(self) -> CommandTable:
        """Return the subcommands."""
        return {
            b"COUNT": SmallReply(2, ANY_RIGHT, self._count, only_reads=True),
            b"LIST": SmallReply(-2, ANY_RIGHT, self._list, only_reads=True),
            b"INFO": SmallReply(-2, ANY_RIGHT, self.info, only_reads=True),
            b"DOCS": SmallReply(-2, ANY_RIGHT, self._docs, only_reads=True),
            b"GETKEYS": SmallReply(-3, ANY_RIGHT, self._keys, only_reads=True),
            b"GETKEYSANDFLAGS": SmallReply(-3, ANY_RIGHT, self._keys, only_reads=True),
        }

    def info(self, words: Sequence[bytes]) -> AnyPlan:
        """COMMAND, COMMAND INFO [name ...]."""
        if len(words) <= 2:
            return saying([info_of(each) for each in self._commands.values()])
        named = (self._find(_name(word)) for word in words[2:])
        return saying([NULL_ARRAY if each is None else info_of(each) for each in named])

    def _count(self, _: object) -> AnyPlan:
        """COMMAND COUNT."""
        return saying(len(self._commands))

    def _docs(self, words: Sequence[bytes]) -> AnyPlan:
        """COMMAND DOCS [name ...]."""
        if len(words) == 2:
            return saying(docs_of_all(self._commands.values()))
        named = (self._find(_name(word)) for word in words[2:])
        return saying(docs_of_all(each for each in named if each is not None))

    def _list(self, words: Sequence[bytes]) -> AnyPlan:
        """COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern]."""
        if len(words) == 2:
            return saying([each.name.encode() for each in self._all()])
        if len(words) != 5 or words[2].upper() != b"FILTERBY":
            raise CommandError(SYNTAX)
        fits = _filter(words[3].upper(), words[4])
        return saying([each.name.encode() for each in self._all() if fits(each)])

    def _keys(self, words: Sequence[bytes]) -> AnyPlan:
        """COMMAND GETKEYS word ..., COMMAND GETKEYSANDFLAGS word ...."""
        command, asked = self._named(words[2:]), words[2:]
        if command is None:
            raise CommandError("ERR Invalid command specified")
        if not command.description.keys:
            raise CommandError("ERR The command has no key arguments")
        if not has_arity(asked, command.arity):
            raise CommandError("ERR Invalid number of arguments specified for command")
        keys = keys_among(asked, command.description)
        if not keys:
            raise CommandError("ERR Invalid arguments specified for command")
        if words[1].upper() == b"GETKEYS":
            return saying([key for key, _ in keys])
        return saying([[key, statuses(place.flags.split())] for key, place in keys])

    def _named(self, words: Sequence[bytes]) -> DescribedCommand | None:
        command = self._commands.get(_name(words[0]))
        if command is None or not command.subcommands or len(words) == 1:
            return command
        return self._find(f"{command.name}|{_name(words[1])}")


def _filter(kind: bytes, text: bytes) -> Callable[[DescribedCommand], bool]:
    if kind == b"MODULE":
        return lambda _: False
    if kind == b"ACLCAT":
        category = f"@{_name(text)}"
        return lambda command: category in command.description.all_categories
    if kind == b"PATTERN":
        matches = matcher(text.lower())
        return lambda command: matches(command.name.encode())
    raise CommandError(SYNTAX)


def _name(word: bytes) -> str:
    return word.decode("latin-1").lower()
