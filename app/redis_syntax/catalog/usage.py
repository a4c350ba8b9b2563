"""Usage: the arguments of a command, read from a short text (COMMAND DOCS).

    key [NOMKSTREAM@6.2.0] [trim(strategy(MAXLEN | MINID@6.2.0) threshold)] [LIMIT/count:integer]

- `NAME` is a word that stands as it is. It is called `name`; `called=NAME` gives it another name.
- `name` is a value, a text; `name:type` has another type. A `key` is a key, and so is `name:key`.
- `WORD/name` is a value behind a word.
- `name(a b)` are arguments that belong together, `name(a | b)` is one of several.
- `[…]` may be left out, `…...` may come several times, `…....` with its word each time.
- `@6.2.0` is since when it is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

_PARTS = re.compile(r"\.{3,4}|[\[\]()|]|(?:(?!\.{3})[^\s\[\]()|])+")
_ATOM = re.compile(
    r"(?:(?P<token>[A-Z0-9-]+)/)?(?P<name>[^@=]+?)"
    r"(?::(?P<kind>string|integer|key|pattern|unix-time))?(?:=(?P<value>[^@]+))?"
    r"(?:@(?P<since>[0-9.]+))?"
)


@dataclass(frozen=True)
class Argument:
    """An argument, or several that belong together."""

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
    """Return the arguments that a text describes."""
    parser = _Parser(usage)
    arguments, _ = parser.sequence()
    return arguments


class _Parser:
    def __init__(self, usage: str) -> None:
        self._parts: Iterator[str] = iter([*_PARTS.findall(usage), ""])
        self._part = next(self._parts)
        self._key_count = 0

    def _take(self) -> str:
        part, self._part = self._part, next(self._parts, "")
        return part

    def sequence(self) -> tuple[tuple[Argument, ...], bool]:
        """Read arguments up to a closing bracket or the end; tell whether they are alternatives."""
        arguments, is_oneof = [], False
        while self._part not in ("", ")", "]"):
            if self._part == "|":
                self._take()
                is_oneof = True
            else:
                arguments.append(self._argument())
        return tuple(arguments), is_oneof

    def _argument(self) -> Argument:
        if self._part == "[":
            self._take()
            [argument], _ = self.sequence()
            assert self._take() == "]"
            argument = replace(argument, is_optional=True)
        else:
            argument = self._atom(self._take())
        if self._part.startswith("..."):
            repeats_token = self._take() == "...."
            argument = replace(argument, is_multiple=True, repeats_token=repeats_token)
        return argument

    def _atom(self, text: str) -> Argument:
        matched = _ATOM.fullmatch(text)
        assert matched is not None, text
        token, name, kind, value, since = matched.group("token", "name", "kind", "value", "since")
        if self._part == "(":
            self._take()
            parts, is_oneof = self.sequence()
            assert self._take() == ")"
            return Argument(name, "oneof" if is_oneof else "block", token, since, parts=parts)
        if value is not None or (token is None and kind is None and name.isupper()):
            return Argument(name.lower(), "pure-token", value or name, since)
        kind = kind or ("key" if name == "key" else "string")
        key_spec = None
        if kind == "key":
            key_spec = self._key_count
            self._key_count += 1
        return Argument(name, kind, token, since, key_spec)
