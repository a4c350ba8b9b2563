"""Types of entries, for TypeScript and Python."""

import ast
from typing import Any, get_type_hints

from headgate.app.entry_schemas.types import types_of

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "count": {"type": "integer"},
        "unit price": {"type": ["number", "null"]},
        "status": {"enum": ["open", 'say "done"', None, 1, True]},
        "kind": {"const": "a"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "buyer": {"$ref": "#/$defs/people~1person"},
        "sizes": {"type": "object", "additionalProperties": {"type": "number"}},
        "box": {"type": "object", "properties": {"a": {"anyOf": [{"type": "boolean"}, {}]}}},
        "any": True,
    },
    "required": ["count", "buyer"],
    "$defs": {
        "people/person": {
            "type": "object",
            "properties": {"name": {"type": "string"}},
            "required": ["name"],
        }
    },
}

TYPESCRIPT = """\
// From the schema of stream "shop-orders", by `headgate types`: values as the schema reads them.
export type PeoplePerson = {
  name: string;
};

export type ShopOrdersBox = {
  a?: boolean | unknown;
};

export type ShopOrders = {
  count: number;
  "unit price"?: number | null;
  status?: "open" | "say \\"done\\"" | null | 1 | true;
  kind?: "a";
  tags?: Array<string>;
  buyer: PeoplePerson;
  sizes?: Record<string, number>;
  box?: ShopOrdersBox;
  any?: unknown;
};
"""


def test_typescript() -> None:
    assert types_of({"shop-orders": SCHEMA}, "typescript") == TYPESCRIPT


def test_python() -> None:
    text = types_of({"shop-orders": SCHEMA, "2": {}}, "python")
    module: dict[str, Any] = {}
    exec(compile(ast.parse(text), "types", "exec"), module)
    entry = module["ShopOrders"]
    assert entry.__required_keys__ == {"count", "buyer"}
    hints = get_type_hints(entry)
    assert hints["unit price"] == float | None
    assert hints["buyer"] is module["PeoplePerson"]
    assert module["T2"] is Any
