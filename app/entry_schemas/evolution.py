"""Evolution: whether every entry that an old schema allows is allowed by a new one, too.

The rules compare keyword by keyword. What they do not understand counts as a change that refuses
entries, unless it is the same in both schemas; so a schema may be compatible and still be refused.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from headgate.app.entry_schemas.bounds import ANNOTATIONS, IN_PLACE, target_of

Place = tuple[str | int, ...]


class Narrowed(NamedTuple):
    """A change by which entries are refused that were allowed before."""

    place: Place  # in the new schema
    text: str


def narrowed(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Narrowed]:
    """Yield the changes from an old schema to a new one by which entries may be refused."""
    yield from _Comparison(old, new).compare(dict(old), dict(new), ())


_LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")

_WIDENS: dict[str, Callable[[Any, Any], bool]] = {
    **dict.fromkeys(_LOWER, lambda old, new: new <= old),
    **dict.fromkeys(_UPPER, lambda old, new: new >= old),
    "required": lambda old, new: set(new) <= set(old),
    "uniqueItems": lambda old, new: old or not new,
    "multipleOf": lambda old, new: isinstance(old, int) and isinstance(new, int) and not old % new,
    "type": lambda old, new: _types(old) <= _types(new),
    "anyOf": lambda old, new: {*map(_text, old)} <= {*map(_text, new)},
}
"""Whether another value of a keyword allows at least as much."""

_TOGETHER = {"if", "then", "else", "contains", "minContains", "maxContains", "prefixItems"}
"""Keywords whose meaning depends on each other: they have to stay as they are."""

_SEEN = {"properties", "additionalProperties", "items", "propertyNames", "enum", "const", "$ref"}


class _Comparison:
    def __init__(self, old_root: Mapping[str, Any], new_root: Mapping[str, Any]) -> None:
        self._old_root, self._new_root = old_root, new_root
        self._has_other_definitions = old_root.get("$defs") != new_root.get("$defs")

    def compare(self, old: Any, new: Any, place: Place) -> Iterator[Narrowed]:
        old, new = _plain(old), _plain(new)
        if old is False or new == {}:
            return
        if new is False:
            yield Narrowed(place, "allows nothing any more")
            return
        for keyword in sorted(old.keys() | new.keys()):
            if keyword not in _SEEN:
                yield from self._compare_keyword(keyword, old, new, place)
        yield from self._compare_values(old, new, place)
        yield from self._compare_references(old, new, place)
        yield from self._compare_properties(old, new, place)
        for keyword in ("items", "propertyNames"):
            if keyword in new:
                yield from self.compare(old.get(keyword, {}), new[keyword], (*place, keyword))

    def _compare_keyword(
        self, keyword: str, old: Any, new: Any, place: Place
    ) -> Iterator[Narrowed]:
        may_go = keyword not in _TOGETHER and keyword != "patternProperties"
        widens = _WIDENS.get(keyword)
        if keyword not in new:
            if not may_go:
                yield Narrowed(place, f"{keyword} is missing")
        elif keyword not in old:
            yield Narrowed((*place, keyword), "is a new condition")
        elif _text(old[keyword]) == _text(new[keyword]):
            may_refer = keyword in IN_PLACE | _TOGETHER | {"patternProperties"}
            if may_refer and self._has_other_definitions and '"$ref"' in _text(new[keyword]):
                yield Narrowed((*place, keyword), "refers to definitions that have changed")
        elif widens is None or not widens(old[keyword], new[keyword]):
            yield Narrowed((*place, keyword), "allows less than before, or it cannot be told")

    def _compare_values(self, old: Any, new: Any, place: Place) -> Iterator[Narrowed]:
        for keyword in ("enum", "const"):
            if keyword in new:
                before = _values(old)
                gone = None if before is None else before - _listed(new, keyword)
                if gone is None:
                    yield Narrowed((*place, keyword), "is a new condition")
                elif gone:
                    yield Narrowed((*place, keyword), f"lacks {', '.join(sorted(gone)[:3])}")

    def _compare_references(self, old: Any, new: Any, place: Place) -> Iterator[Narrowed]:
        if "$ref" not in new:
            return
        at = (*place, "$ref")
        if "$ref" not in old:
            yield Narrowed(at, "is a new condition")
        else:
            targets = target_of(self._old_root, old["$ref"]), target_of(self._new_root, new["$ref"])
            yield from self.compare(*targets, at)

    def _compare_properties(self, old: Any, new: Any, place: Place) -> Iterator[Narrowed]:
        old_named, new_named = old.get("properties", {}), new.get("properties", {})
        old_others, new_others = (each.get("additionalProperties", {}) for each in (old, new))
        for name in sorted(old_named.keys() | new_named.keys()):
            before, after = old_named.get(name, old_others), new_named.get(name, new_others)
            at = (*place, "properties", name)
            yield from self.compare(before, after, at)
            if not place and _reads_otherwise(before, after):
                yield Narrowed(at, "has values that are read as text now, and not as JSON")
        yield from self.compare(old_others, new_others, (*place, "additionalProperties"))


def _plain(schema: Any) -> Any:
    """Return a schema without what allows anything; False if it allows nothing."""
    if isinstance(schema, bool):
        return {} if schema else False
    return {
        keyword: value
        for keyword, value in schema.items()
        if keyword not in ANNOTATIONS | {"$defs", "$id"} and not keyword.startswith("x-")
    }


def _reads_otherwise(old: Any, new: Any) -> bool:
    """Tell whether texts of a field are compared with values, which were compared as JSON."""
    return (
        isinstance(old, dict)
        and isinstance(new, dict)
        and not _may_be_text(old)
        and _may_be_text(new)
        and ("enum" in new or "const" in new)
    )


def _may_be_text(schema: Mapping[str, Any]) -> bool:
    values = schema.get("enum", [schema.get("const", "")])
    return "string" in _types(schema.get("type", "string")) and any(
        isinstance(value, str) for value in values
    )


def _types(value: Any) -> set[str]:
    types = {value} if isinstance(value, str) else set(value)
    return types | {"integer"} if "number" in types else types


def _values(schema: Mapping[str, Any]) -> set[str] | None:
    """Return the values that a schema allows, as JSON; None: it does not list them."""
    for keyword in ("const", "enum"):
        if keyword in schema:
            return _listed(schema, keyword)
    return None


def _listed(schema: Mapping[str, Any], keyword: str) -> set[str]:
    value = schema[keyword]
    return {*map(_text, value if keyword == "enum" else [value])}


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
