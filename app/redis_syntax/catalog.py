"""Descriptions of commands (`commands.json`), and the replies of COMMAND made from them."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from pathlib import Path

import msgspec

from headgate.app.redis_syntax.replies import Members, Pairs, Reply, Status

# Usage: the arguments of a command, read from a short text (COMMAND DOCS).
#
# key [NOMKSTREAM@6.2.0] [trim(strategy(MAXLEN | MINID@6.2.0) threshold)] [LIMIT/count:integer]
#
# - `NAME` is a word that stands as it is. It is called `name`; `called=NAME` gives it another
#   name.
# - `name` is a value, a text; `name:type` has another type. A `key` is a key, and so is
#   `name:key`.
# - `WORD/name` is a value behind a word.
# - `name(a b)` are arguments that belong together, `name(a | b)` is one of several.
# - `[…]` may be left out, `…...` may come several times, `…....` with its word each time.
# - `@6.2.0` is since when it is there.

_PARTS = re.compile(r"\.{3,4}|[\[\]()|]|(?:(?!\.{3})[^\s\[\]()|])+")
_ATOM = re.compile(
    r"(?:(?P<token>[A-Z0-9-]+)/)?(?P<name>[^@=]+?)"
    r"(?::(?P<kind>string|integer|key|pattern|unix-time))?(?:=(?P<value>[^@]+))?"
    r"(?:@(?P<since>[0-9.]+))?"
)


@dataclass(frozen=True)
class Argument:
    name: str
    kind: str  # string, integer, key, pattern, unix-time, pure-token, block, oneof
    token: str | None = None  # the word that stands before it, or that it is
    since: str | None = None
    key_spec: int | None = None  # of the command, for a key
    is_optional: bool = False
    is_multiple: bool = False
    repeats_token: bool = False
    parts: tuple[Argument, ...] = ()


def arguments_of(usage: str) -> tuple[Argument, ...]:
    arguments, _ = _sequence(deque([*_PARTS.findall(usage), ""]), count())
    return arguments


def _sequence(parts: deque[str], key_specs: Iterator[int]) -> tuple[tuple[Argument, ...], bool]:
    """Read arguments up to a closing bracket or the end; tell whether they are alternatives."""
    arguments, is_oneof = [], False
    while parts[0] not in ("", ")", "]"):
        if parts[0] == "|":
            parts.popleft()
            is_oneof = True
        else:
            arguments.append(_argument_of(parts, key_specs))
    return tuple(arguments), is_oneof


def _argument_of(parts: deque[str], key_specs: Iterator[int]) -> Argument:
    part = parts.popleft()
    if part == "[":
        [argument], _ = _sequence(parts, key_specs)
        assert parts.popleft() == "]"
        argument = replace(argument, is_optional=True)
    else:
        argument = _atom(part, parts, key_specs)
    if parts[0].startswith("..."):
        repeats_token = parts.popleft() == "...."
        argument = replace(argument, is_multiple=True, repeats_token=repeats_token)
    return argument


def _atom(text: str, parts: deque[str], key_specs: Iterator[int]) -> Argument:
    matched = _ATOM.fullmatch(text)
    assert matched is not None, text
    token, name, kind, value, since = matched.group("token", "name", "kind", "value", "since")
    if parts[0] == "(":
        parts.popleft()
        inner, is_oneof = _sequence(parts, key_specs)
        assert parts.popleft() == ")"
        return Argument(name, "oneof" if is_oneof else "block", token, since, parts=inner)
    if value is not None or (token is None and kind is None and name.isupper()):
        return Argument(name.lower(), "pure-token", value or name, since)
    kind = kind or ("key" if name == "key" else "string")
    return Argument(name, kind, token, since, next(key_specs) if kind == "key" else None)


@dataclass(frozen=True)
class KeyPlaces:
    """Where a command's keys are, and how it uses them.

    The keys begin at a position, or after a keyword that is searched from a position on. They go on
    to the last one, in steps.
    """

    flags: str  # RO, RW, OW or RM, and access, update, insert or delete
    begin: int = 1  # the place of the first one; with `keyword` where the search begins
    keyword: str | None = None
    last: int = 0  # counted from the first one; negative: from the end
    step: int = 1
    limit: int = 0  # with `last` -1: the keys end where 1/limit of the words is over


CATEGORIES = (
    *("keyspace", "read", "write", "stream", "pubsub", "admin", "fast", "slow", "blocking"),
    "dangerous",
    *("connection", "transaction", "scripting"),
)
"""All categories of commands that there are here, in the order of Redis."""


@dataclass(frozen=True)
class Description:
    arity: int  # the number of words, the name included; negative: at least so many
    summary: str
    since: str  # the version of Redis that has it first
    group: str
    usage: str = ""  # see `usage`
    flags: str = ""
    keys: tuple[KeyPlaces, ...] = ()
    categories: str = ""  # besides those that follow from the flags
    tips: str = ""
    complexity: str = "O(1)"
    subcommands: dict[str, str] = field(default_factory=dict)  # what HELP says of each

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        return arguments_of(self.usage)

    @cached_property
    def all_flags(self) -> list[str]:
        are_movable = any(keys.keyword is not None for keys in self.keys)
        return [*self.flags.split(), *(["movablekeys"] if are_movable else [])]

    @cached_property
    def all_categories(self) -> list[str]:
        flags = self.flags.split()
        of_flags = {
            "write": "write" in flags,
            "read": "readonly" in flags,
            "admin": "admin" in flags,
            "dangerous": "admin" in flags,
            "fast": "fast" in flags,
            "slow": "fast" not in flags,
            "blocking": "blocking" in flags,
        }
        names = {*self.categories.split(), *(name for name, has in of_flags.items() if has)}
        return [f"@{name}" for name in CATEGORIES if name in names]

    @property
    def place(self) -> tuple[int, int, int]:
        """Return the first key, the last key and the step, as old clients want them."""
        placed = [keys for keys in self.keys if keys.keyword is None]
        if not placed:
            return 0, 0, 0
        first = min(keys.begin for keys in placed)
        last = max(keys.last if keys.last < 0 else keys.begin + keys.last for keys in placed)
        if any(keys.last < 0 for keys in placed):
            last = min(keys.last for keys in placed)
        return first, last, placed[0].step


CATALOG = msgspec.json.decode(
    Path(__file__).with_name("commands.json").read_bytes(), type=dict[str, Description]
)
"""Descriptions by name: in lower case, a subcommand as `container|subcommand`."""

Described = Mapping[str, Description]
"""Descriptions of commands, in the order of their names; subcommands stand behind their command."""


def has_arity(words: Sequence[bytes], name: str) -> bool:
    """Tell whether a command has a right number of words."""
    arity = CATALOG[name].arity
    return len(words) == arity if arity > 0 else len(words) >= -arity


def described_commands(
    commands: Iterable[bytes], subcommands: Mapping[bytes, Iterable[bytes]]
) -> Described:
    """Return the commands with their descriptions, ordered by name."""
    below = (b"%b|%b" % (name, each) for name, names in subcommands.items() for each in names)
    names = {each.decode().lower() for each in (*commands, *subcommands, *below)}
    return {name: CATALOG[name] for name in sorted(names)}


def _below(name: str, described: Described) -> list[str]:
    """Return the names of the subcommands of a command."""
    if not described[name].subcommands:
        return []
    return [each for each in described if each.startswith(f"{name}|")]


def info_of(name: str, described: Described) -> Reply:
    description = described[name]
    subcommands = [info_of(each, described) for each in _below(name, described)]
    return [
        name.encode(),
        description.arity,
        statuses(description.all_flags),
        *description.place,
        statuses(description.all_categories),
        Members(tip.encode() for tip in description.tips.split()),
        Members(_key_spec(keys) for keys in description.keys),
        subcommands or Members(),
    ]


def docs_of(names: Iterable[str], described: Described) -> Reply:
    return Pairs.of({name.encode(): _docs_of(name, described) for name in names})


def _docs_of(name: str, described: Described) -> Reply:
    description = described[name]
    facts: dict[bytes, Reply] = {
        b"summary": description.summary.encode(),
        b"since": description.since.encode(),
        b"group": description.group.encode(),
        b"complexity": description.complexity.encode(),
    }
    if description.usage:
        facts[b"arguments"] = [_argument(each) for each in description.arguments]
    if below := _below(name, described):
        facts[b"subcommands"] = docs_of(below, described)
    return Pairs.of(facts)


def statuses(names: Iterable[str]) -> Reply:
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


def keys_among(words: Sequence[bytes], description: Description) -> list[tuple[bytes, KeyPlaces]]:
    """Return the keys and their use; none if the arguments do not fit the command."""
    result: list[tuple[bytes, KeyPlaces]] = []
    for keys in description.keys:
        places = _places(words, keys)
        if places is None:
            return []
        result += [(words[place], keys) for place in places]
    return result


def _places(words: Sequence[bytes], keys: KeyPlaces) -> range | None:
    first = keys.begin
    if keys.keyword is not None:
        keyword = keys.keyword.encode()
        places = range(keys.begin, len(words) - 1)  # a word at the end has no key behind it
        first = next((place + 1 for place in places if words[place].upper() == keyword), 0)
        if not first:
            return None
    last = first + keys.last
    if keys.last < 0:
        last = len(words) + keys.last
        if keys.limit:
            last = first + (len(words) - first) // keys.limit + keys.last
    return range(first, last + 1, keys.step) if last < len(words) else None
