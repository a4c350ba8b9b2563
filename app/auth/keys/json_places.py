"""JSON places: takes a JSON text apart, and knows in which line each member or item begins."""

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

_SPACE = re.compile(r"[ \t\r\n]*")


class JsonFault(ValueError):
    """The text is no JSON, or not the JSON that it should be."""

    def __init__(self, text: str, line: int) -> None:
        """Describe the fault, with the line of its beginning."""
        super().__init__(text)
        self.line = line


class Place(NamedTuple):
    """A member of an object, or an item of an array."""

    name: str
    text: str  # of its value
    line: int


class Outline(NamedTuple):
    """An object, and one of its members, an array, item by item."""

    members: list[Place]
    items: list[Place]


def outline_of(text: str, array: str) -> Outline:
    """Return the outline of a text that is a JSON object.

    Args:
        text: the JSON.
        array: name of the member whose items are wanted; without it there are none.

    Raises:
        JsonFault: the text is no JSON object, the member is no array, an object has a member twice,
            or something is nested too deep.
    """
    reader = _Reader(text)
    outline = Outline([], [])
    names: set[str] = set()
    reader.expect("{")
    is_open = not reader.takes("}")
    while is_open:
        line = reader.line
        name = reader.name()
        if name in names:
            raise JsonFault(_twice(name), line)
        names.add(name)
        reader.expect(":")
        if name == array:
            outline.items.extend(_items(reader, name))
            outline.members.append(Place(name, "", line))
        else:
            outline.members.append(Place(name, reader.value(), line))
        is_open = reader.takes(",")
        if not is_open:
            reader.expect("}")
    reader.expect("")
    return outline


def _items(reader: "_Reader", name: str) -> list[Place]:
    items: list[Place] = []
    reader.expect("[")
    is_open = not reader.takes("]")
    while is_open:
        line = reader.line
        items.append(Place(f"{name}[{len(items)}]", reader.value(), line))
        is_open = reader.takes(",")
        if not is_open:
            reader.expect("]")
    return items


class _DuplicateError(ValueError):
    pass


def _twice(name: str) -> str:
    return f"the member {name!r} is there twice"


def _unique(pairs: Sequence[tuple[str, Any]]) -> None:
    """Refuse an object that has a member twice; nobody needs the object itself."""
    names: set[str] = set()
    for name, _ in pairs:
        if name in names:
            raise _DuplicateError(_twice(name))
        names.add(name)


_DECODER = json.JSONDecoder(object_pairs_hook=_unique)


class _Reader:
    """A place in a text, before something that is no space, and its line."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.line = 1
        self._go_to(0)

    def takes(self, character: str) -> bool:
        """Go behind a character, if it is here."""
        if self._text[self._at : self._at + 1] != character:
            return False
        self._go_to(self._at + 1)
        return True

    def expect(self, character: str) -> None:
        """Go behind a character; the empty one is the end of the text."""
        if not self.takes(character):
            raise JsonFault(
                f"expected {character!r}" if character else "expected the end", self.line
            )

    def name(self) -> str:
        """Go behind a string, and return it."""
        if self._text[self._at : self._at + 1] != '"':
            raise JsonFault("expected the name of a member", self.line)
        name: str = json.loads(self.value())
        return name

    def value(self) -> str:
        """Go behind a value of any kind, and return its text."""
        start = self._at
        try:
            _, end = _DECODER.raw_decode(self._text, start)
        except json.JSONDecodeError as error:
            raise JsonFault(error.msg, error.lineno) from None
        except RecursionError:
            raise JsonFault("this is nested too deep", self.line) from None
        except ValueError as error:
            raise JsonFault(str(error), self.line) from None
        self._go_to(end)
        return self._text[start:end]

    def _go_to(self, position: int) -> None:
        """Go to a position, and behind the space there."""
        space = _SPACE.match(self._text, position)
        end = position if space is None else space.end()
        self.line += self._text.count("\n", self._at, end)
        self._at = end
