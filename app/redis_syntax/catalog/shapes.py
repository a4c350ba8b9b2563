"""Shapes: descriptions of commands as COMMAND INFO and COMMAND DOCS reply with them."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.app.redis_syntax.catalog.described import DescribedCommand
from headgate.app.redis_syntax.catalog.description import KeyPlaces
from headgate.app.redis_syntax.catalog.usage import Argument
from headgate.app.redis_syntax.replies import Members, Pairs, Reply, Status


def info_of(command: DescribedCommand) -> Reply:
    """Return the facts of a command for clients."""
    description = command.description
    subcommands = [info_of(each) for each in command.subcommands]
    return [
        command.name.encode(),
        command.arity,
        statuses(description.all_flags),
        *description.place,
        statuses(description.all_categories),
        Members(tip.encode() for tip in description.tips.split()),
        Members(_key_spec(keys) for keys in description.keys),
        subcommands or Members(),
    ]


def docs_of(command: DescribedCommand) -> Reply:
    """Return the facts of a command for people."""
    description = command.description
    facts: dict[bytes, Reply] = {
        b"summary": description.summary.encode(),
        b"since": description.since.encode(),
        b"group": description.group.encode(),
        b"complexity": description.complexity.encode(),
    }
    if description.usage:
        facts[b"arguments"] = [_argument(each) for each in description.arguments]
    if command.subcommands:
        facts[b"subcommands"] = docs_of_all(command.subcommands)
    return Pairs.of(facts)


def docs_of_all(commands: Iterable[DescribedCommand]) -> Reply:
    """Return the facts of commands for people, by name."""
    return Pairs.of({each.name.encode(): docs_of(each) for each in commands})


def statuses(names: Iterable[str]) -> Reply:
    """Return a set of words."""
    return Members(Status(name) for name in names)


def _key_spec(keys: KeyPlaces) -> Reply:
    if keys.keyword is None:
        begin = Pairs([b"type", b"index", b"spec", Pairs([b"index", keys.begin])])
    else:
        where = Pairs([b"keyword", keys.keyword.encode(), b"startfrom", keys.begin])
        begin = Pairs([b"type", b"keyword", b"spec", where])
    span = Pairs([b"lastkey", keys.last, b"keystep", keys.step, b"limit", keys.limit])
    return Pairs(
        [
            *(b"flags", statuses(keys.flags.split())),
            *(b"begin_search", begin),
            *(b"find_keys", Pairs([b"type", b"range", b"spec", span])),
        ]
    )


def _argument(argument: Argument) -> Reply:
    facts: Pairs = Pairs([b"name", argument.name.encode(), b"type", argument.kind.encode()])
    if argument.key_spec is not None:
        facts += (b"key_spec_index", argument.key_spec)
    if argument.token is not None:
        facts += (b"token", argument.token.encode())
    if argument.since is not None:
        facts += (b"since", argument.since.encode())
    flags = [
        name
        for name, is_set in (
            ("optional", argument.is_optional),
            ("multiple", argument.is_multiple),
            ("multiple_token", argument.repeats_token),
        )
        if is_set
    ]
    if flags:
        facts += (b"flags", statuses(flags))
    if argument.parts:
        facts += (b"arguments", [_argument(each) for each in argument.parts])
    return facts
