"""Which JSON Schemas a stream may have: 2020-12 without what takes too long, or looks elsewhere.

A schema comes from somebody who manages a stream, and is applied on the event loop that all streams
share. So the keywords are a closed list, and each of them has a known cost. Neither recursion nor
backtracking is possible, and nothing is fetched.
"""

from collections.abc import Iterator, Mapping
from typing import Any

SCHEMA_BYTES_MAX = 64 * 1024
SUBSCHEMAS_MAX = 300
"""Each takes about 50 µs to compile."""

DEPTH_MAX = 24
VALUES_MAX = 1_000
"""Of all enums together."""

PATTERNS_MAX, PATTERN_LENGTH_MAX = 16, 256
COST_MAX = 100
"""Subschemas that are applied to one value."""

DIALECT = "https://json-schema.org/draft/2020-12/schema"
REF = "#/$defs/"

FORMATS = frozenset(
    {"date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uuid"}
)
ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"}
    | {"$comment", "$schema", "contentEncoding", "contentMediaType"}
)
ASSERTIONS = frozenset(
    {"type", "enum", "const", "required", "dependentRequired", "uniqueItems", "pattern", "format"}
    | {"minProperties", "maxProperties", "minItems", "maxItems", "minContains", "maxContains"}
    | {"minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
    | {"multipleOf"}
)
IN_PLACE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"})
"""Keywords whose subschemas are applied to the value itself."""

INNER = frozenset(
    {"properties", "patternProperties", "additionalProperties", "propertyNames"}
    | {"items", "prefixItems", "contains"}
)
"""Keywords whose subschemas are applied to parts of the value."""

_BY_NAME = {"properties", "patternProperties", "dependentSchemas", "$defs"}
_LISTS = {"allOf", "anyOf", "oneOf", "prefixItems"}
_SHAPES: dict[str, Any] = {
    **dict.fromkeys(_BY_NAME | {"dependentRequired"}, dict),
    **dict.fromkeys(_LISTS | {"enum", "required"}, list),
    **dict.fromkeys(("pattern", "format", "$ref", "$schema"), str),
}
_SHAPE_NAMES: dict[Any, str] = {dict: "an object", list: "an array", str: "a text"}
_KNOWN = ANNOTATIONS | ASSERTIONS | IN_PLACE | INNER | {"$ref"}

_UNIQUE_COST = 16
_LOOKUPS_COST = 8  # names that are looked up in the time of a subschema


class SchemaRefused(ValueError):
    """A schema that a stream cannot have; `place` is where it is wrong, as names and indexes."""

    def __init__(self, text: str, place: tuple[str | int, ...] = ()) -> None:
        super().__init__(text)
        self.place = place


def children_of(schema: Mapping[str, Any], keyword: str) -> Iterator[tuple[str | int, Any]]:
    """Yield the subschemas of a keyword, each with its name or index; "" if there is one alone."""
    value = schema.get(keyword)
    if value is None:
        return
    if keyword in _BY_NAME:
        yield from value.items()
    elif keyword in _LISTS:
        yield from enumerate(value)
    else:
        yield "", value


def name_of(ref: str) -> str:
    """Return the name of the definition that a `$ref` is for."""
    return ref.removeprefix(REF).replace("~1", "/").replace("~0", "~")


def target_of(root: Mapping[str, Any], ref: str) -> Any:
    """Return the schema that a `$ref` names."""
    return root["$defs"][name_of(ref)]


def _check_shape(keyword: str, value: Any, place: tuple[str | int, ...]) -> None:
    shape = _SHAPES.get(keyword, object)
    if not isinstance(value, shape):
        kind = _SHAPE_NAMES[shape]
        raise SchemaRefused(f"should be {kind}", place)


def _is_known(keyword: str, *, is_root: bool) -> bool:
    is_of_root = is_root and keyword in {"$defs", "$id"}
    return keyword in _KNOWN or is_of_root or keyword.startswith("x-")


class Survey:
    """What a schema costs. Raises SchemaRefused if it is none that a stream may have."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.pattern_count = 0
        self._root = root
        self._subschema_count = self._value_count = self._regex_count = 0
        self._costs: dict[str, int] = {}  # by the name of a definition
        self._open: list[str] = []  # definitions whose cost is being told
        self._look(root, ())
        for name, definition in children_of(root, "$defs"):
            self._look(definition, ("$defs", name))
        self.cost = self._cost(root, is_root=True)
        if self.cost > COST_MAX:
            text = f"it applies more than {COST_MAX} subschemas to one value"
            raise SchemaRefused(text)

    def _look(self, schema: Any, place: tuple[str | int, ...]) -> None:
        self._subschema_count += 1
        if self._subschema_count > SUBSCHEMAS_MAX:
            raise SchemaRefused(f"it has more than {SUBSCHEMAS_MAX} subschemas", place)
        if len(place) > 2 * DEPTH_MAX:
            raise SchemaRefused(f"it is nested deeper than {DEPTH_MAX} subschemas", place)
        if isinstance(schema, bool):
            return
        if not isinstance(schema, dict):
            raise SchemaRefused("a schema is an object or a boolean", place)
        for keyword, value in schema.items():
            _check_shape(keyword, value, (*place, keyword))
            if keyword in IN_PLACE or keyword in INNER:
                for name, child in children_of(schema, keyword):
                    self._look(child, (*place, keyword, *([] if name == "" else [name])))
            elif not _is_known(keyword, is_root=not place):
                raise SchemaRefused(f"the keyword {keyword[:64]} is not known here", place)
            self._look_at(keyword, value, (*place, keyword))

    def _look_at(self, keyword: str, value: Any, place: tuple[str | int, ...]) -> None:
        if keyword == "$schema" and value.rstrip("#") != DIALECT:
            raise SchemaRefused(f"only {DIALECT} is known", place)
        if keyword == "$ref" and not value.startswith(REF):
            raise SchemaRefused(f"a $ref begins with {REF}, and names what is there", place)
        if keyword == "format" and value not in FORMATS:
            raise SchemaRefused(f"the formats are {', '.join(sorted(FORMATS))}", place)
        if keyword in {"enum", "const"}:
            self._count_values(value if keyword == "enum" else [value], place)
        patterns = [value] if keyword == "pattern" else ()
        for pattern in value if keyword == "patternProperties" else patterns:
            self._regex_count += 1
            if self._regex_count > PATTERNS_MAX:
                raise SchemaRefused(f"a schema has at most {PATTERNS_MAX} patterns", place)
            if len(pattern) > PATTERN_LENGTH_MAX:
                raise SchemaRefused(f"a pattern has at most {PATTERN_LENGTH_MAX} characters", place)
        self.pattern_count += keyword in {"pattern", "format"}

    def _count_values(self, values: list[Any], place: tuple[str | int, ...]) -> None:
        self._value_count += len(values)
        if any(isinstance(each, dict | list) for each in values):
            raise SchemaRefused("the values are texts, numbers, booleans or null", place)
        if self._value_count > VALUES_MAX:
            raise SchemaRefused(f"all enums have at most {VALUES_MAX} values", place)

    def _cost(self, schema: Any, *, is_root: bool = False) -> int:
        """Return how many subschemas are applied to one value, on any level, at most."""
        if isinstance(schema, bool):
            return 1
        own = 1
        if not is_root:  # a root is applied once
            names = sum(len(schema.get(keyword, ())) for keyword in ("properties", "required"))
            own += (names + len(schema.get("dependentRequired", ()))) // _LOOKUPS_COST
        own += len(schema.get("patternProperties", ()))
        own += _UNIQUE_COST * bool(schema.get("uniqueItems"))
        inner = 0
        for keyword in INNER:
            costs = [self._cost(child) for _, child in children_of(schema, keyword)]
            is_one_of_them = keyword in {"properties", "prefixItems"}
            inner += max(costs, default=0) if is_one_of_them else sum(costs)
        in_place = sum(
            self._cost(child) for keyword in IN_PLACE for _, child in children_of(schema, keyword)
        )
        if "$ref" in schema:
            in_place += self._cost_of_definition(schema["$ref"])
        return max(own, inner) + in_place

    def _cost_of_definition(self, ref: str) -> int:
        if ref in self._open:
            raise SchemaRefused(f"{ref} contains itself: a schema has no recursion")
        if ref not in self._costs:
            self._open.append(ref)
            try:
                target = target_of(self._root, ref)
            except KeyError:
                raise SchemaRefused(f"there is no {ref}") from None
            self._costs[ref] = self._cost(target)
            self._open.pop()
        return self._costs[ref]
