"""The SDK of CloudEvents for Python sends events, and reads the same."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from cloudevents.core.base import BaseCloudEvent
from cloudevents.core.bindings import http
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from tests.api.cloud_events.sent import AS_EVENT, BATCH, ENTRIES, events_in
from tests.api.conftest import Live

pytestmark = pytest.mark.asyncio(loop_scope="session")

FORMAT = JSONFormat()
NOON = datetime(2018, 4, 5, 12, 0, 0, 123456, UTC)


def event(data: Any = None, **attributes: Any) -> CloudEvent:
    named = {"id": "1", "source": "/shop", "type": "sold", "time": NOON, **attributes}
    return CloudEvent(named, data)


EVENTS = {
    "no data": event(),
    "JSON": event({"sku": "42", "ä€😀": [1, 2.5, None, {"a": True}]}),
    "JSON by its type": event({"n": 1}, datacontenttype="application/json"),
    "JSON of another type": event({"n": 1}, datacontenttype="application/vnd.shop+json"),
    "text": event("käse, \x01 and 😀\n", datacontenttype="text/plain"),
    "XML": event("<a>ä</a>", datacontenttype="application/xml"),
    "bytes": event(bytes(range(256)), datacontenttype="application/octet-stream"),
    "unicode": event({"n": 1}, subject='Euro € 😀 "quoted" 100%', source="/käse?a=b#c"),
    "extensions": event({"n": 1}, traceparent="00-0af7-b7ad-01", partitionkey="ä b", empty=""),
    "a zone": event(time=datetime(2024, 2, 29, 23, 59, 59, tzinfo=timezone(timedelta(hours=-9)))),
    "a schema": event({"n": 1}, dataschema="https://example.org/sold.json"),
}


def same(read: BaseCloudEvent, sent: BaseCloudEvent) -> bool:
    """Tell whether two events are the same, but for the id of the entry."""
    attributes = dict(read.get_attributes())
    added = {
        name: attributes.pop(name)
        for name in ("headgateid", "headgatedeliveries")
        if name in attributes
    }
    return bool(added) and (attributes, read.get_data()) == (sent.get_attributes(), sent.get_data())


async def read_one(live: Live, place: str) -> BaseCloudEvent:
    answer = await live.http.get(place, headers=AS_EVENT)
    assert answer.status_code == 200, answer.text
    return http.from_structured(http.HTTPMessage(dict(answer.headers), answer.content), FORMAT)


@pytest.mark.parametrize("mode", [http.to_binary, http.to_structured])
@pytest.mark.parametrize("sent", EVENTS.values(), ids=EVENTS)
async def test_an_event_is_read_as_it_was_sent(shared: Live, mode: Any, sent: CloudEvent) -> None:
    message = mode(sent, FORMAT)
    answer = await shared.http.post(ENTRIES, content=message.body, headers=message.headers)

    assert answer.status_code == 201, answer.text
    assert same(await read_one(shared, answer.headers["Location"]), sent)


async def test_a_batch_is_read_as_it_was_sent(shared: Live) -> None:
    sent = [
        CloudEvent({**each.get_attributes(), "id": str(number)}, each.get_data())
        for number, each in enumerate(EVENTS.values())
    ]
    content = b"[%b]" % b",".join(FORMAT.write(each) for each in sent)
    answer = await shared.http.post(ENTRIES, content=content, headers={"Content-Type": BATCH})

    assert answer.status_code == 201, answer.text
    read = [FORMAT.read(None, json.dumps(members)) for members in await events_in(shared)]
    assert len(read) == len(sent)
    assert all(map(same, read, sent))
