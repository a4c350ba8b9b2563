"""Arguments of functions: the fields of a request by name, as Lua can read them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import asdict

from headgate.app.backends.redis.arguments import arguments
from headgate.engine.config import GroupPolicy, Patch, StreamConfig
from headgate.engine.entry import EntryId
from headgate.engine.requests import Request
from headgate.engine.requests.deliveries import Ack, Nack, NackMode
from headgate.engine.requests.entries import Trim, TrimTo
from headgate.engine.requests.groups import CreateGroup, GroupStart
from headgate.engine.requests.keyspace import RenameStream
from headgate.engine.requests.names import NameFilter
from headgate.engine.requests.streams import UpdateStream

BIG = 2**63 - 1
ID = EntryId(BIG, BIG)
ID_TEXT = f"{BIG}-{BIG}"


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (
            Ack(b"s", b"", [ID], consumer=None),
            {"stream": "s", "group": "", "ids": [ID_TEXT]},
        ),
        (
            Nack(b"s", b"g", (), NackMode.FAIL, delay_ms=0, retry_count=BIG),
            {
                "stream": "s",
                "group": "g",
                "ids": [],
                "mode": "fail",
                "delay_ms": 0,
                "retry_count": str(BIG),
                "force": False,
                "by_policy": True,
            },
        ),
        (
            Trim(b"s", TrimTo(min_id=ID)),
            {
                "stream": "s",
                "to": {"min_id": ID_TEXT, "approximate": False, "references": "keep"},
            },
        ),
        (
            UpdateStream(b"s", Patch.of(StreamConfig, max_length=5, max_age_ms=None)),
            {"stream": "s", "config": {"max_age_ms": "", "max_length": "5"}},
        ),
        (
            RenameStream(b"s", b"t", reach=NameFilter(frozenset({b"a"}), (b"b",))),
            {
                "stream": "s",
                "to": "t",
                "replace": True,
                "reach": {"names": ["a"], "prefixes": ["b"]},
            },
        ),
    ],
)
def test_a_request_is_a_map_of_what_its_fields_say(
    request_: Request[Any], expected: dict[str, object]
) -> None:
    assert msgspec.msgpack.decode(arguments(asdict(request_))) == expected


def test_a_policy_says_which_settings_it_lacks() -> None:
    request = CreateGroup(b"s", b"g", GroupStart(None, BIG), policy=GroupPolicy(max_pending=3))
    facts = msgspec.msgpack.decode(arguments(asdict(request)))
    assert facts["start"] == {"entries_read": str(BIG)}
    assert facts["policy"].pop("max_pending") == "3"
    assert set(facts["policy"].values()) == {""}


@pytest.mark.parametrize("size", [0, 31, 32, 255, 256, 65_535, 65_536])
def test_bytes_of_any_length_are_text(size: int) -> None:
    encoded = arguments({"error": b"x" * size})
    assert msgspec.msgpack.decode(encoded) == {"error": "x" * size}
