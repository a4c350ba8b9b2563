"""Pushes as they are kept: those of the last release, and what a pattern reads."""

import msgspec

from headgate.app.automation.pushes import PushedGroups, PushPlace, PushRecord
from headgate.app.automation.signing import PushSecrets
from headgate.app.wire.pushes import PushBody
from headgate.engine.entry import MIN_ID
from headgate.engine.requests.deliveries import MissingGroups
from headgate.engine.requests.groups import GroupStart
from headgate.engine.requests.keyspace import UNRESERVED, NameFilter

RECORD = b"""{"stream":"b3JkZXJz","group":"YmlsbGluZw==","definition":{"concurrency":10,
"timeout_ms":10000,"body":"batch","batch_max":100,"signature":"v1","disable_after_ms":432000000},
"sealed":"x","created_at_ms":1,"retry_count":0,"is_paused":false,"failing_since_ms":null,
"failures":0,"disabled_at_ms":null,"disabled_reason":null,"maker":"ann"}"""
SECRETS = b"""{"stream":"b3JkZXJz","group":"YmlsbGluZw==","url":"https://hooks.example/",
"secret":"whsec_x","headers":{},"previous":null,"previous_until_ms":0}"""


def test_what_the_last_release_wrote_is_the_push_of_one_stream() -> None:
    push = msgspec.json.decode(RECORD, type=PushRecord)
    assert (push.place, push.definition.body) == ((b"orders", b"billing", False), PushBody.BATCH)
    assert push.name == b"__push:5d448f3b1560a90aa0e5881d0d77e3d1"
    held = msgspec.json.decode(SECRETS, type=PushSecrets)
    assert (held.stream, held.group, held.is_pattern) == push.place


def test_a_pattern_is_no_stream_of_that_name() -> None:
    names = {PushPlace(b"a*", b"g").name, PushPlace(b"a*", b"g", is_pattern=True).name}
    assert len(names) == 2


def over(pattern: bytes, groups: PushedGroups) -> PushRecord:
    push = msgspec.json.decode(RECORD, type=PushRecord)
    return msgspec.structs.replace(push, stream=pattern, groups=groups)


def test_what_is_read_is_kept_as_it_was() -> None:
    create = MissingGroups(GroupStart(MIN_ID), only=NameFilter(frozenset({b"a"})), since_ms=5)
    push = over(b"a*", PushedGroups(UNRESERVED, {b"a": 2}, create))
    assert msgspec.json.decode(msgspec.json.encode(push), type=PushRecord) == push


def test_it_may_read_what_begins_as_the_pattern_and_is_shown() -> None:
    groups = PushedGroups(NameFilter(frozenset({b"orders.a", b"b"}), (b"o",)))
    names, streams = (b"orders.a", b"b", b"orders.x", b"other"), groups.names_for(b"orders.*.new")
    assert [name for name in names if streams.shows(name)] == [b"orders.a", b"orders.x"]


def test_a_push_that_is_set_anew_reads_streams_whole_that_came_since_it_was_set_first() -> None:
    first, later = [
        PushedGroups(UNRESERVED, create=MissingGroups(GroupStart(None), since_ms=since_ms))
        for since_ms in (1, 9)
    ]
    assert later.since(first) == first
    assert later.since(None) == later
    assert PushedGroups(UNRESERVED).since(first) == PushedGroups(UNRESERVED)
