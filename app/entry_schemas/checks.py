"""Checks of entries by the JSON Schema of their stream.

A schema describes the object of an entry's fields. The text of a field is taken as it is if the
schema of the field allows a text, and is read as JSON otherwise: with `{"type": "integer"}`, `5` is
the number 5, and with `{"type": "string"}` it is the text "5". A text that is no JSON stays a text,
and so does not match. Which schema belongs to a field is said by `properties` and
`additionalProperties` of the schema itself; other keywords see the values that came of it. A field
that may be any text is not looked at; all others have to be UTF-8. No field may repeat.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from itertools import islice
from typing import Any

import jsonschema_rs
import msgspec

from headgate.app.entry_schemas.bounds import (
    ANNOTATIONS,
    IN_PLACE,
    SCHEMA_BYTES_MAX,
    SchemaRefused,
    Survey,
    target_of,
)
from headgate.engine.entry import Fields
from headgate.engine.errors import FieldFault

FAULTS_MAX = 10
_TEXT_MAX = 300
"""Characters of what is said of a fault: it may quote the value."""

_STEPS_MAX = 250_000
_READ_BYTES_MAX = 256 * 1024
"""What is looked at of one entry, and so how long its check takes, about 20 ms at most: values on
all levels by the subschemas that are applied to one, and the bytes that are read."""

_STEPS_TO_READ = 4  # of a value within JSON
_BYTES_A_STEP = 3  # for a pattern

_STEPS_OF_ALL_FAULTS = 500
"""To tell all faults takes time and memory for each of them, so it is for small entries."""

_PATTERNS = jsonschema_rs.RegexOptions(size_limit=2**16, dfa_size_limit=2**18)
"""Of the engine that does not backtrack: it takes linear time, whatever the pattern is."""

_TOO_MUCH = "too much to be checked"
_NOT_UTF8 = "is not UTF-8"


class _Kind(Enum):
    ANY_TEXT = 0  # it is not looked at
    TEXT = 1
    JSON = 2


def read_schema(text: bytes) -> dict[str, Any]:
    """Read a schema; raises SchemaRefused if no stream may have it."""
    if len(text) > SCHEMA_BYTES_MAX:
        raise SchemaRefused(f"a schema has at most {SCHEMA_BYTES_MAX} bytes")
    try:
        schema: dict[str, Any] = msgspec.json.decode(text, type=dict)
    except (msgspec.DecodeError, RecursionError) as error:
        raise SchemaRefused(f"not a JSON object: {error}") from None
    return schema


class CompiledSchema:
    """The check of the entries of a stream (`engine.state.schemas.EntrySchema`)."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Compile a schema; raises SchemaRefused if no stream may have it."""
        survey = Survey(schema)
        self._costs = survey.cost, survey.cost + _STEPS_TO_READ, survey.pattern_count
        self._effort = survey.cost + survey.pattern_count
        try:
            self._validator = jsonschema_rs.Draft202012Validator(
                dict(schema), validate_formats=True, pattern_options=_PATTERNS, offline=True
            )
        except jsonschema_rs.ValidationError as error:
            raise SchemaRefused(_short(error.message), tuple(error.instance_path)) from None
        except ValueError as error:
            raise SchemaRefused(_short(str(error))) from None
        # Other keywords of the root may look at any field.
        is_whole = not IN_PLACE.isdisjoint(schema) or "$ref" in schema
        kinds = _Kinds(schema, is_whole=is_whole)
        self._fields = {
            name.encode(errors="surrogatepass"): (name, kinds.of(child))
            for name, child in schema.get("properties", {}).items()
        }
        others = kinds.of(schema.get("additionalProperties", True))
        may_match = "patternProperties" in schema and others is _Kind.ANY_TEXT
        self._others = _Kind.TEXT if may_match else others

    def effort_us(self, fields: Fields) -> int:
        size_bytes = sum(map(len, fields))
        return 5 + len(fields) // 2 + (size_bytes * self._effort >> 4)

    def faults(self, fields: Fields) -> Sequence[FieldFault]:
        instance: dict[str, Any] = {}
        known, others = self._fields, self._others
        cost, inner_cost, pattern_count = self._costs
        steps, read_bytes = len(fields) // 2 * cost, 0
        for at in range(0, len(fields) - 1, 2):
            field = known.get(fields[at])
            name, kind = field or (fields[at].decode(errors="replace"), others)
            if name in instance:
                return [FieldFault(name, "repeats")]
            if kind is _Kind.ANY_TEXT:
                instance[name] = ""
                continue
            value = fields[at + 1]
            read_bytes += len(value)
            if kind is _Kind.JSON:
                inner = value.count(b",") + value.count(b"[") + value.count(b"{")
                steps += inner * inner_cost
            if pattern_count:
                steps += len(value) * pattern_count // _BYTES_A_STEP
            if steps > _STEPS_MAX or read_bytes > _READ_BYTES_MAX:
                return [FieldFault(name, _TOO_MUCH)]
            try:
                instance[name] = value.decode() if kind is _Kind.TEXT else _json(value)
            except UnicodeDecodeError:
                return [FieldFault(name, _NOT_UTF8)]
        if steps > _STEPS_MAX:
            return [FieldFault("", _TOO_MUCH)]
        if self._validator.is_valid(instance):
            return ()
        return self._faults_of(instance, are_few=steps <= _STEPS_OF_ALL_FAULTS)

    def _faults_of(self, instance: Any, *, are_few: bool) -> list[FieldFault]:
        if are_few:
            errors = self._validator.iter_errors(instance)
            return list(islice((fault for each in errors for fault in _faults(each)), FAULTS_MAX))
        try:
            self._validator.validate(instance)
        except jsonschema_rs.ValidationError as error:
            return list(islice(_faults(error), FAULTS_MAX))
        raise AssertionError("it was not valid a moment ago")


class _Kinds:
    def __init__(self, root: Mapping[str, Any], *, is_whole: bool) -> None:
        self._root = root
        self._is_whole = is_whole

    def of(self, schema: Any) -> _Kind:
        if not self._allows_text(schema):
            return _Kind.JSON
        said = () if isinstance(schema, bool) else schema.keys() - ANNOTATIONS
        is_any = all(keyword == "type" or keyword.startswith("x-") for keyword in said)
        return _Kind.ANY_TEXT if is_any and not self._is_whole else _Kind.TEXT

    def _allows_text(self, schema: Any) -> bool:
        if isinstance(schema, bool):
            return schema
        types = schema.get("type", "string")
        values = schema.get("enum", [""])
        alternatives = (schema[each] for each in ("anyOf", "oneOf") if each in schema)
        return (
            "string" in ([types] if isinstance(types, str) else types)
            and any(isinstance(value, str) for value in values)
            and isinstance(schema.get("const", ""), str)
            and all(any(map(self._allows_text, each)) for each in alternatives)
            and all(map(self._allows_text, schema.get("allOf", ())))
            and ("$ref" not in schema or self._allows_text(target_of(self._root, schema["$ref"])))
        )


def _json(text: bytes) -> Any:
    """Return the value of a text; what is no JSON is a text, and raises UnicodeDecodeError."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text.decode()


def _faults(error: jsonschema_rs.ValidationError) -> Iterator[FieldFault]:
    path = list(error.instance_path)
    kind = error.kind
    if not path and isinstance(kind, jsonschema_rs.ValidationErrorKind.Required):
        yield FieldFault(str(kind.property), "is required")
        return
    if not path and isinstance(kind, jsonschema_rs.ValidationErrorKind.AdditionalProperties):
        for name in kind.unexpected[:FAULTS_MAX]:
            yield FieldFault(name, "unknown field")
        return
    inner = "".join(f"/{part}" for part in path[1:])
    text = _short(error.message)
    yield FieldFault(str(path[0]) if path else "", f"{inner}: {text}" if inner else text)


def _short(text: str) -> str:
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}…"


def compile_schema(text: bytes) -> CompiledSchema:
    """Compile the schema of a stream, which was accepted when it was set."""
    return CompiledSchema(read_schema(text))
