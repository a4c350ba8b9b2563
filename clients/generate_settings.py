"""Writes `headgate.client.shapes.settings` from the OpenAPI document.

python -m clients.generate_settings
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap
from typing import Any

from clients.generate_blocking import formatted

_ROOT = Path(__file__).parent
TARGET = _ROOT / "python" / "shapes" / "settings.py"

_SETTINGS = ("StreamConfig", "Policy")
_HEADER = '''"""Settings of streams and groups, each with what it says.

`clients/generate_settings.py` writes this file.
"""

from typing import Annotated, Any, Literal, TypedDict
'''
_TYPES = {"integer": "int", "string": "str", "boolean": "bool", "null": "None"}


def generated() -> str:
    document = json.loads((_ROOT.parent / "openapi" / "openapi.json").read_text())
    schemas = document["components"]["schemas"]
    parts = [part for name in _SETTINGS for part in _parts(name, schemas)]
    return formatted("\n".join([_HEADER, "\n\n".join(parts)]))


def _parts(name: str, schemas: dict[str, Any]) -> Iterator[str]:
    properties = schemas[name]["properties"]
    for schema in properties.values():
        for choice in filter(None, map(_reference, schema["anyOf"])):
            words = ", ".join(map(repr, schemas[choice]["enum"]))
            yield f"{choice} = Literal[{words}]"
    lines = [
        f"class {name}(TypedDict, total=False):",
        f'    """{schemas[name]["description"]}"""',
        "",
    ]
    for field, schema in properties.items():
        kinds = " | ".join(map(_type, schema["anyOf"]))
        lines.append(f"    {field}: Annotated[{kinds}, {_literal(schema['description'])}]")
    yield "\n".join(lines)


def _literal(text: str) -> str:
    lines = wrap(text, 80, drop_whitespace=False)
    return " ".join(map(repr, lines))


def _type(schema: dict[str, Any]) -> str:
    if schema.get("type") == "array":
        return f"list[{_type(schema['items'])}]"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties")
        return f"dict[str, {_type(values) if isinstance(values, dict) else 'Any'}]"
    return _reference(schema) or _TYPES[schema["type"]]


def _reference(schema: dict[str, Any]) -> str | None:
    name = schema.get("$ref")
    return None if name is None else name.rpartition("/")[2]


if __name__ == "__main__":
    TARGET.write_text(generated())
