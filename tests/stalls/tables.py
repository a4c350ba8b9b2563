"""Tables: rows whose entries lie far from each other, and tables that are built."""

from __future__ import annotations

from typing import Any

from tests.stalls.case import Case, destructive, request
from tests.stalls.keyspace import BIG, TABLE

_STREAM = f"/v1/streams/{TABLE}"
_ROWS = f"{_STREAM}/table"


def _build(stream: str, name: str, config: dict[str, Any]) -> Case:
    return destructive("updateStream", f"PATCH /v1/streams/{stream}", config, name=name)


HARMLESS: list[Case] = [
    request("readTable", f"GET {_ROWS}?limit=10000"),
    request("readTable", f"GET {_ROWS}?limit=10000&filter=%7B%22exact%22:%7B%22n%22:%222%22%7D%7D"),
    request("readRow", f"GET {_ROWS}/0000001"),
]

DESTRUCTIVE: list[Case] = [
    destructive("putRow", f"PUT {_ROWS}/0000001", {"fields": {"n": "2"}}),
    destructive("deleteRow", f"DELETE {_ROWS}/0000001"),
    _build(TABLE, "no table any more", {"key_field": None}),
    _build(TABLE, "another table", {"key_field": "n"}),
    _build(BIG, "a large table", {"key_field": "site"}),
]
