"""Sent: requests with events, as clients of CloudEvents send them."""

import json
from typing import Any

import httpx

from tests.api.conftest import Live

ORDERS = "/v1/streams/orders"
ENTRIES = f"{ORDERS}/entries"
STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
AS_EVENT = {"Accept": STRUCTURED}
AS_BATCH = {"Accept": BATCH}


def event(event_id: str = "1", **members: Any) -> dict[str, Any]:
    """Return an event in the JSON format."""
    return {"specversion": "1.0", "id": event_id, "source": "/shop", "type": "sold", **members}


def binary(event_id: str = "1", **attributes: str) -> dict[str, str]:
    """Return the headers of an event in the binary mode."""
    return {f"ce-{name}": value for name, value in event(event_id, **attributes).items()}


async def send(
    live: Live, content: Any, media_type: str = STRUCTURED, url: str = ENTRIES, **headers: str
) -> httpx.Response:
    """Append a body: bytes, or a value that becomes JSON."""
    if not isinstance(content, bytes):
        content = json.dumps(content).encode()
    sent = {"Content-Type": media_type, **headers}
    return await live.http.post(url, content=content, headers=sent)


async def events_in(live: Live, **params: str | int) -> list[dict[str, Any]]:
    """Read the stream as events."""
    answer = await live.http.get(ENTRIES, params=params, headers=AS_BATCH)
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"] == BATCH
    events: list[dict[str, Any]] = answer.json()
    return events


async def fields_in(live: Live) -> list[dict[str, str]]:
    """Return the fields of each entry of the stream."""
    answer = await live.http.get(ENTRIES)
    if answer.status_code == 404:
        return []
    return [entry["fields"] for entry in answer.json()["entries"]]
