"""The tables of the guide's page are what the gateway does."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator

import httpx
import jwt
import pytest

from headgate.app.durable_streams.protocol import name_of, path_of
from headgate.app.routes import guide
from tests.processes.gateway import GatewayProcess

JSON = {"Content-Type": "application/json"}
CLOSED = {"Stream-Closed": "true"}
FORK = {"Stream-Forked-From": "/v1/stream/there"}
SECRET = "a secret of the issuer and the gateway"


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    gateway = GatewayProcess.started(":memory:")
    with httpx.Client(base_url=gateway.url) as client:
        yield client
    gateway.terminate()


def rows(first: str) -> list[list[list[str]]]:
    """Return the codes in the cells of the table whose first title is this, row by row."""
    table = re.search(rf"^\| {first} .*\n.*\n((?:\|.*\n)+)", guide.source("durable"), re.MULTILINE)
    assert table is not None
    return [
        [re.findall(r"`([^`]+)`", cell) for cell in line.strip("| ").split(" | ")]
        for line in table[1].splitlines()
    ]


def test_a_path_and_its_name_are_as_the_table_says() -> None:
    table = rows("in the path")
    assert len(table) == 3
    for [in_path], [in_name], [path, *_], [name] in table:
        assert name_of(path).decode() == name
        assert path_of(name.encode()) == path
        assert (in_path in path, in_name in name) == (True, True)


def test_a_message_is_an_entry_as_the_table_says(client: httpx.Client) -> None:
    objects, others, *_ = rows("content type")
    for number, message in enumerate([*objects[1], *others[1]]):
        client.put(f"/v1/stream/m/{number}", headers=JSON, content=f"[{message}]")
        read = client.get(f"/v1/streams/m:{number}/entries", params={"start": "-"}).json()
        [entry] = read["entries"]
        is_object = message in objects[1]
        assert list(entry["fields"]) == (objects[2] if is_object else others[2])
        assert entry["fields"] == (json.loads(message) if is_object else {"json": message})


@pytest.mark.parametrize(
    ("fields", "as_json", "as_text"),
    [
        ({"json": '{"n": 1}'}, {"n": 1}, b'{"json":"{\\"n\\": 1}"}\n'),
        ({"json": "no JSON"}, {"json": "no JSON"}, b'{"json":"no JSON"}\n'),
        ({"data": "as it is"}, {"data": "as it is"}, b"as it is"),
        ({"a": "b", "c": "d"}, {"a": "b", "c": "d"}, b'{"a":"b","c":"d"}\n'),
    ],
)
def test_an_entry_of_others_is_a_message_as_the_table_says(
    client: httpx.Client, fields: dict[str, str], as_json: object, as_text: bytes
) -> None:
    for stream, content_type in [("as-json", "application/json"), ("as-text", "text/plain")]:
        client.delete(f"/v1/stream/{stream}")
        client.put(f"/v1/stream/{stream}", headers={"Content-Type": content_type})
        client.post(f"/v1/streams/{stream}/entries", json={"fields": fields})
    assert client.get("/v1/stream/as-json").json() == [as_json]
    assert client.get("/v1/stream/as-text").content == as_text


@pytest.fixture(scope="module")
def guarded() -> Iterator[httpx.Client]:
    gateway = GatewayProcess.started(":memory:", {"jwt_secret": SECRET})
    with httpx.Client(base_url=f"{gateway.url}/v1/stream/") as client:
        yield client
    gateway.terminate()


def with_rights(*rights: str) -> dict[str, str]:
    """Return the header of somebody who has these rights to all streams."""
    verbs = [right for right in rights if right != "create"]
    grant = {"streams": ["*"], "do": verbs or ["consume"], "create": "create" in rights}
    claims = {"sub": "me", "exp": time.time() + 600, "headgate": [grant]}
    return {"Authorization": f"Bearer {jwt.encode(claims, SECRET, 'HS256')}"}


@pytest.mark.parametrize(
    ("method", "path", "headers", "content", "rights"),
    [
        ("GET", "there", {}, "", ["read"]),
        ("HEAD", "there", {}, "", ["read"]),
        ("POST", "there", JSON, "1", ["append"]),
        ("POST", "there", CLOSED, "", ["manage"]),
        ("POST", "there", JSON | CLOSED, "1", ["manage", "append"]),
        ("PUT", "there", JSON, "", ["append"]),
        ("PUT", "new", JSON, "1", ["append", "create"]),
        ("PUT", "new", JSON, "1", ["append", "manage"]),
        ("PUT", "new", JSON | CLOSED, "1", ["append", "manage"]),
        ("PUT", "new", FORK, "", ["append", "create", "read"]),
        ("PUT", "new", FORK, "", ["append", "manage", "read"]),
        ("DELETE", "there", {}, "", ["manage"]),
    ],
)
def test_a_request_needs_the_rights_that_the_table_says(
    guarded: httpx.Client,
    method: str,
    path: str,
    headers: dict[str, str],
    content: str,
    rights: list[str],
) -> None:
    all_rights = with_rights("read", "append", "manage")
    for stream in ("new", "there"):
        guarded.delete(stream, headers=all_rights)
    guarded.put("there", headers=all_rights | JSON)

    def status_with(*rights: str) -> int:
        sent = headers | with_rights(*rights)
        return guarded.request(method, path, headers=sent, content=content).status_code

    for right in rights:
        assert status_with(*{*rights} - {right}) == 403, f"without {right}"
    assert status_with(*rights) < 300
