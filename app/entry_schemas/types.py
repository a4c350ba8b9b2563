"""Types of the entries of streams, for TypeScript and Python, from their schemas.

They are the types of values as a schema reads them: `{"type": "integer"}` is a number, though the
field of an entry has its text. What has no counterpart is `unknown`, or `Any`.
"""

import json
import keyword
import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from headgate.app.entry_schemas.bounds import name_of, target_of

_NOTE = "From the schema of stream {stream}, by `headgate types`: values as the schema reads them."


class _Language:
    """How types are written."""

    unknown: ClassVar[str]
    null: ClassVar[str]
    names: ClassVar[Mapping[str, str]]  # of simple types

    def literal(self, value: Any) -> str:
        raise NotImplementedError

    def array(self, item: str) -> str:
        raise NotImplementedError

    def record(self, item: str) -> str:
        raise NotImplementedError

    def declared(self, name: str, text: str) -> str:
        raise NotImplementedError

    def declared_object(self, name: str, fields: list[tuple[str, str, bool]]) -> str:
        """Declare the type of an object: the name, type and presence of each field."""
        raise NotImplementedError


class _TypeScript(_Language):
    unknown, null = "unknown", "null"
    names: ClassVar = {
        "string": "string",
        "integer": "number",
        "number": "number",
        "boolean": "boolean",
    }

    def literal(self, value: Any) -> str:
        return json.dumps(value, ensure_ascii=False)

    def array(self, item: str) -> str:
        return f"Array<{item}>"

    def record(self, item: str) -> str:
        return f"Record<string, {item}>"

    def declared(self, name: str, text: str) -> str:
        return f"export type {name} = {text};\n"

    def declared_object(self, name: str, fields: list[tuple[str, str, bool]]) -> str:
        lines = [
            f"  {field if field.isidentifier() and field.isascii() else json.dumps(field)}"
            f"{'' if is_required else '?'}: {text};\n"
            for field, text, is_required in fields
        ]
        return f"export type {name} = {{\n{''.join(lines)}}};\n"


class _Python(_Language):
    unknown, null = "Any", "None"
    names: ClassVar = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}

    def literal(self, value: Any) -> str:
        return "Any" if isinstance(value, float) else f"Literal[{value!r}]"

    def array(self, item: str) -> str:
        return f"list[{item}]"

    def record(self, item: str) -> str:
        return f"dict[str, {item}]"

    def declared(self, name: str, text: str) -> str:
        return f"{name} = {text}\n"

    def declared_object(self, name: str, fields: list[tuple[str, str, bool]]) -> str:
        typed = [
            (field, text if is_required else f"NotRequired[{text}]")
            for field, text, is_required in fields
        ]
        if all(field.isidentifier() and not keyword.iskeyword(field) for field, _ in typed):
            lines = [f"    {field}: {text}\n" for field, text in typed]
            return f"class {name}(TypedDict):\n{''.join(lines) or '    pass' + chr(10)}"
        items = "".join(f"        {field!r}: {text},\n" for field, text in typed)
        return f"{name} = TypedDict(\n    {name!r},\n    {{\n{items}    }},\n)\n"


LANGUAGES: Mapping[str, _Language] = {"typescript": _TypeScript(), "python": _Python()}

_HEADS = {"typescript": "", "python": "from typing import Any, Literal, NotRequired, TypedDict\n\n"}


def types_of(schemas: Mapping[str, Mapping[str, Any]], language: str) -> str:
    """Return a module with a type for the entries of each stream."""
    taken: set[str] = set()
    comment = "//" if language == "typescript" else "#"
    modules = [
        f"{comment} {_NOTE.format(stream=json.dumps(stream))}\n"
        + "\n".join(_Types(LANGUAGES[language], schema, taken).declared(stream))
        for stream, schema in schemas.items()
    ]
    return _HEADS[language] + "\n".join(modules)


class _Types:
    def __init__(self, language: _Language, root: Mapping[str, Any], taken: set[str]) -> None:
        self._language, self._root, self._taken = language, root, taken
        self._texts: list[str] = []
        self._definitions: dict[str, str] = {}

    def declared(self, stream: str) -> Iterator[str]:
        name = self._name(stream)
        text = self._of(self._root, name, is_named=True)
        if text != name:
            self._texts.append(self._language.declared(name, text))
        return iter(self._texts)

    def _name(self, text: str) -> str:
        words = re.split(r"[^A-Za-z0-9]+", text)
        made = "".join(word[:1].upper() + word[1:] for word in words) or "Entry"
        made = made if not made[0].isdigit() else f"T{made}"
        name, number = made, 2
        while name in self._taken:
            name, number = f"{made}{number}", number + 1
        self._taken.add(name)
        return name

    def _of(self, schema: Any, name: str, *, is_named: bool = False) -> str:
        """Return the type of a schema; `name` is for an object that has to be declared."""
        language = self._language
        if not isinstance(schema, Mapping):
            return language.unknown
        if "$ref" in schema:
            return self._definition(schema["$ref"])
        if "const" in schema or "enum" in schema:
            values = schema.get("enum", [schema.get("const")])
            return _union([language.literal(v) if v is not None else language.null for v in values])
        for alternatives in ("anyOf", "oneOf"):
            if alternatives in schema:
                options = enumerate(schema[alternatives], 1)
                return _union([self._of(each, f"{name}{at}") for at, each in options])
        kinds = schema.get("type", "object" if "properties" in schema else [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        texts = [self._simple(kind, schema, name, is_named=is_named) for kind in kinds]
        return _union(texts) if texts else language.unknown

    def _simple(self, kind: str, schema: Mapping[str, Any], name: str, *, is_named: bool) -> str:
        language = self._language
        if kind == "null":
            return language.null
        if kind == "array":
            return language.array(self._of(schema.get("items"), f"{name}Item"))
        if kind != "object":
            return language.names[kind]
        if not schema.get("properties"):
            return language.record(self._of(schema.get("additionalProperties"), f"{name}Value"))
        own = name if is_named else self._name(name)
        required = schema.get("required", ())
        fields = [
            (field, self._of(child, f"{own} {field}"), field in required)
            for field, child in schema["properties"].items()
        ]
        self._texts.append(language.declared_object(own, fields))
        return own

    def _definition(self, ref: str) -> str:
        if ref not in self._definitions:
            name = self._definitions[ref] = self._name(name_of(ref))
            text = self._of(target_of(self._root, ref), name, is_named=True)
            if text != name:
                self._texts.append(self._language.declared(name, text))
        return self._definitions[ref]


def _union(texts: list[str]) -> str:
    return " | ".join(dict.fromkeys(texts))
