"""Entries come in requests, in order, in the form that was chosen."""

from __future__ import annotations

import json

import pytest
from cloudevents.core.bindings import http
from cloudevents.core.formats.json import JSONFormat

from headgate.app.push.bodies import BODY_BYTES_MAX, Bodies, PushRequest, requests_of
from headgate.app.wire.pushes import PushBody
from headgate.engine.entry import EntryId
from headgate.engine.replies import Delivery


def delivery(number: int, *flat: bytes, before: int = 0) -> Delivery:
    return Delivery(EntryId(number, 0), flat or (b"n", b"%d" % number), 0, before, None)


def sizes(deliveries: list[Delivery], entries_max: int) -> list[list[int]]:
    requests = requests_of(deliveries, entries_max)
    return [[each.id.ms for each in request.deliveries] for request in requests]


def test_a_batch_has_so_many_bytes_and_a_larger_entry_comes_alone() -> None:
    half = b"x" * (BODY_BYTES_MAX // 2)
    large = b"x" * (2 * BODY_BYTES_MAX)
    deliveries = [delivery(1, b"v", half), delivery(2, b"v", half), delivery(3, b"v", large)]
    assert sizes([*deliveries, delivery(4)], 100) == [[1], [2], [3], [4]]


@pytest.mark.parametrize(
    "value", [b"v" * 100, b"\x01" * 50_000, b'"' * 90_000, b"\xff" * 90_000, "é".encode() * 50_000]
)
def test_the_body_of_a_batch_has_so_many_bytes_as_it_is_sent(value: bytes) -> None:
    deliveries = [delivery(number, b"v", value) for number in range(1, 51)]
    content_of = Bodies(PushBody.BATCH, b"orders", b"g").content_of

    bodies = [content_of(request).body for request in requests_of(deliveries, 100)]

    assert sum(body.count(b'"id"') for body in bodies) == 50
    assert max(map(len, bodies)) < 1.1 * BODY_BYTES_MAX


def test_an_entry_that_has_failed_twice_comes_alone() -> None:
    deliveries = [delivery(1), delivery(2, before=2), delivery(3, before=1), delivery(4)]
    assert sorted(sizes(deliveries, 100)) == [[1, 3, 4], [2]]


def test_an_entry_that_is_gone_is_left_out() -> None:
    gone = Delivery(EntryId(2, 0), None, 0, 1, None)
    assert sizes([delivery(1), gone, delivery(3)], 10) == [[1, 3]]


def test_the_same_entries_have_the_same_name_and_others_another() -> None:
    names = {
        PushRequest([delivery(number) for number in numbers], 0).key
        for numbers in ([1], [1, 2], [1, 3], [1, 2, 3], [12, 3])
    }
    assert len(names) == 5
    assert PushRequest([delivery(1), delivery(2)], 0).key in names
    assert PushRequest([delivery(1)], 0).key == "1-0"


def test_an_entry_comes_as_a_read_has_it() -> None:
    content = Bodies(PushBody.ENTRY, b"orders", b"g").content_of(
        PushRequest([delivery(1, b"v", b"\xff", before=1)], 2)
    )
    assert json.loads(content.body) == {
        "stream": "orders",
        "group": "g",
        "id": "1-0",
        "fields": {"v": "/w=="},
        "base64": ["v"],
        "deliveries": 2,
        "idle_ms": 0,
    }
    assert content.headers == {"Content-Type": "application/json"}


EVENT = (
    *(b"ce-id", b"7", b"ce-source", b"/shop", b"ce-specversion", b"1.0", b"ce-type", b"sold"),
    *(b"ce-note", "f\u00fcr 5%".encode(), b"content-type", b"application/json"),
    *(b"data", b'{"a":1}'),
)


@pytest.mark.parametrize("kind", [PushBody.CLOUDEVENTS, PushBody.CLOUDEVENTS_BINARY])
def test_an_event_is_read_by_the_library_of_cloudevents(kind: PushBody) -> None:
    content = Bodies(kind, b"orders", b"g").content_of(PushRequest([delivery(1, *EVENT)], 9))
    event = http.from_http(http.HTTPMessage(content.headers, content.body), JSONFormat())
    assert (event.get_id(), event.get_source(), event.get_type()) == ("7", "/shop", "sold")
    assert (event.get_extension("note"), event.get_data()) == ("f\u00fcr 5%", {"a": 1})
