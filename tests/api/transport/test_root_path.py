"""Behind a proxy that serves the gateway below a path, whether it takes that path off or not."""

import json
import re

import pytest
from websockets.asyncio.client import connect

from headgate.app.settings import Settings
from tests.api.conftest import Live, problem_in, running

ROOT = "/gate/way"
ENTRIES = "/v1/streams/orders/entries"


@pytest.fixture
def settings() -> Settings:
    return Settings(root_path=ROOT, heartbeat_ms=200)


@pytest.fixture(params=["", ROOT], ids=["taken off", "left in front"])
def front(request: pytest.FixtureRequest) -> str:
    """The front of a path that the proxy leaves."""
    front: str = request.param
    return front


async def test_operations_are_answered_and_locations_have_the_root(live: Live, front: str) -> None:
    appended = await live.http.post(f"{front}{ENTRIES}", json={"fields": {"v": "1"}})

    assert appended.status_code == 201
    entry_id = appended.json()["id"]
    assert appended.headers["location"] == f"{ROOT}{ENTRIES}/{entry_id}"
    entry = await live.http.get(appended.headers["location"])
    assert entry.json()["id"] == entry_id
    assert (await live.http.get(f"{front}/healthz")).status_code == 200


async def test_events_and_sockets_are_served(live: Live, front: str) -> None:
    await live.append("orders", "1")
    url = f"{front}/v1/streams/orders/events?after=0"
    async with live.http.stream("GET", url) as events:
        assert events.headers["content-type"].startswith("text/event-stream")
    async with connect(f"{live.ws_url}{front}/v1/streams/orders/ws?after=0") as socket:
        assert json.loads(await socket.recv())["type"] == "welcome"


async def test_the_first_page_has_links_and_commands_with_the_root(live: Live, front: str) -> None:
    for path in (f"{front}/", front or "/"):
        text = (await live.http.get(path)).text
        assert f"curl {live.url}{ROOT}/v1/streams/orders/entries " in text
        assert f"{live.url}{ROOT}/docs " in text

        page = (await live.http.get(path, headers={"accept": "text/html"})).text
        links = re.findall(r'href="(/[^"]*)"', page)
        assert f"{ROOT}/docs" in links
        assert all(link.startswith(f"{ROOT}/") for link in links)
        for link in links:
            assert (await live.http.get(link)).status_code == 200


async def test_the_documentation_works(live: Live, front: str) -> None:
    page = (await live.http.get(f"{front}/docs")).text

    named = re.findall(r"""(?:href|src)="(/[^"]*)"|url: '([^']*)'""", page)
    paths = [link or url for link, url in named]
    assert f"{ROOT}/openapi.json" in paths
    assert len(paths) >= 3
    for path in paths:
        assert path.startswith(f"{ROOT}/")
        for as_passed in (path, front + path.removeprefix(ROOT)):
            assert (await live.http.get(as_passed)).status_code == 200
    document = (await live.http.get(f"{front}/openapi.json")).json()
    assert document["servers"][0]["url"] == ROOT
    assert "/v1/streams" in document["paths"]
    assert (await live.http.get(f"{front}/asyncapi.json")).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        f"{ROOT}{ROOT}/v1/streams", "/gate/v1/streams", "/gate/wayward/v1/streams",
        "/gate%2Fway/v1/streams", f"{ROOT}//v1/streams", f"/v1{ROOT}/streams",
    ],
)  # fmt: skip
async def test_other_paths_are_not_found(live: Live, path: str) -> None:
    problem = problem_in(await live.http.get(f"{live.url}{path}"))

    assert problem["code"] == "not_found"


async def test_rules_for_names_and_pages_hold_below_the_root(live: Live, front: str) -> None:
    slash = problem_in(await live.http.get(f"{live.url}{front}/v1/streams/orders%2Fentries"))
    assert (slash["code"], slash["instance"]) == ("invalid_request", ENTRIES)

    embedded = await live.http.get(f"{front}{ENTRIES}", headers={"sec-fetch-site": "cross-site"})
    assert problem_in(embedded)["code"] == "origin_refused"
    probe = await live.http.get(f"{front}/healthz", headers={"host": "10.9.9.9"})
    assert probe.status_code == 200


@pytest.mark.parametrize("given", ["/v1", "/v1/x", "/docs", "/metrics/x", "/", "x", "/x/", "/a b"])
def test_a_root_path_that_makes_no_sense_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match="should"):
        Settings(root_path=given)


async def test_without_one_nothing_is_taken_off() -> None:
    async with running(Settings()) as live:
        assert (await live.http.get(f"{ROOT}/v1/streams")).status_code == 404
        appended = await live.http.post(ENTRIES, json={"fields": {"v": "1"}})
        assert appended.headers["location"].startswith(ENTRIES)
