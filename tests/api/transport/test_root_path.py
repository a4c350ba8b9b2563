"""Behind a proxy that serves the gateway below a path, whether it takes that path off or not."""

import json
import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from websockets.asyncio.client import connect

from headgate.app.settings import Settings
from tests.api.conftest import Live, problem_in, running

pytestmark = pytest.mark.asyncio(loop_scope="session")

ROOT = "/gate/way"
ENTRIES = "/v1/streams/orders/entries"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def rooted() -> AsyncIterator[Live]:
    async with running(Settings(root_path=ROOT, heartbeat_ms=200)) as gateway:
        yield gateway


@pytest.fixture(params=["", ROOT], ids=["taken off", "left in front"])
def front(request: pytest.FixtureRequest) -> str:
    """The front of a path that the proxy leaves."""
    front: str = request.param
    return front


async def test_operations_are_answered_with_the_root_in_locations(rooted: Live, front: str) -> None:
    appended = await rooted.http.post(f"{front}{ENTRIES}", json={"fields": {"v": "1"}})

    assert appended.status_code == 201
    entry_id = appended.json()["id"]
    assert appended.headers["location"] == f"{ROOT}{ENTRIES}/{entry_id}"
    assert (await rooted.http.get(appended.headers["location"])).json()["id"] == entry_id
    assert (await rooted.http.get(f"{front}/healthz")).status_code == 200


async def test_events_and_sockets_are_served(rooted: Live, front: str) -> None:
    await rooted.append("orders", "1")
    url = f"{front}/v1/streams/orders/events?after=0"
    async with rooted.http.stream("GET", url) as events:
        assert events.headers["content-type"].startswith("text/event-stream")
    async with connect(f"{rooted.ws_url}{front}/v1/streams/orders/ws?after=0") as socket:
        assert json.loads(await socket.recv())["type"] == "welcome"


async def test_the_first_page_has_the_root_in_links_and_commands(
    console_bundle: None, rooted: Live, front: str
) -> None:
    for path in (f"{front}/", front or "/"):
        text = (await rooted.http.get(path)).text
        assert f"curl {rooted.url}{ROOT}/v1/streams/orders/entries " in text
        assert f"{rooted.url}{ROOT}/docs " in text

        page = (await rooted.http.get(path, headers={"accept": "text/html"})).text
        links = re.findall(r'href="(/[^"]*)"', page)
        assert f"{ROOT}/docs" in links
        assert all(link.startswith(f"{ROOT}/") for link in links)
        for link in links:
            assert (await rooted.http.get(link)).status_code == 200


async def test_the_documentation_works(rooted: Live, front: str) -> None:
    page = (await rooted.http.get(f"{front}/docs")).text

    named = re.findall(r"""(?:href|src)="(/[^"]*)"|url: '([^']*)'""", page)
    paths = [link or url for link, url in named]
    assert f"{ROOT}/openapi.json" in paths
    assert len(paths) >= 3
    for path in paths:
        assert path.startswith(f"{ROOT}/")
        for as_passed in (path, front + path.removeprefix(ROOT)):
            assert (await rooted.http.get(as_passed)).status_code == 200
    document = (await rooted.http.get(f"{front}/openapi.json")).json()
    assert document["servers"][0]["url"] == ROOT
    assert "/v1/streams" in document["paths"]
    assert (await rooted.http.get(f"{front}/asyncapi.json")).status_code == 200


async def test_other_paths_are_not_found(rooted: Live) -> None:
    for path in (
        *(f"{ROOT}{ROOT}/v1/streams", "/gate/v1/streams", "/gate/wayward/v1/streams"),
        *("/gate%2Fway/v1/streams", f"{ROOT}//v1/streams", f"/v1{ROOT}/streams"),
    ):
        assert problem_in(await rooted.http.get(f"{rooted.url}{path}"))["code"] == "not_found", path


async def test_rules_for_names_and_pages_hold_below_the_root(rooted: Live, front: str) -> None:
    slash = problem_in(await rooted.http.get(f"{rooted.url}{front}/v1/streams/orders%2Fentries"))
    assert (slash["code"], slash["instance"]) == ("invalid_request", ENTRIES)

    embedded = await rooted.http.get(f"{front}{ENTRIES}", headers={"sec-fetch-site": "cross-site"})
    assert problem_in(embedded)["code"] == "origin_refused"
    probe = await rooted.http.get(f"{front}/healthz", headers={"host": "10.9.9.9"})
    assert probe.status_code == 200


async def test_a_root_path_that_makes_no_sense_is_refused() -> None:
    for given in ("/v1", "/v1/x", "/docs", "/metrics/x", "/", "x", "/x/", "/a b"):
        with pytest.raises(ValueError, match="should"):
            Settings(root_path=given)


async def test_without_one_nothing_is_taken_off() -> None:
    async with running(Settings()) as live:
        assert (await live.http.get(f"{ROOT}/v1/streams")).status_code == 404
        appended = await live.http.post(ENTRIES, json={"fields": {"v": "1"}})
        assert appended.headers["location"].startswith(ENTRIES)


async def test_durable_streams_have_it_in_urls(rooted: Live, front: str) -> None:
    root, own = f"{front}/v1/stream", f"{rooted.url}{ROOT}/v1/stream"
    text, name = {"Content-Type": "text/plain"}, f"a/b{len(front)}"
    made = await rooted.http.put(f"{root}/{name}", headers=text, content=b"a")
    assert made.headers["location"] == f"{own}/{name}"
    for number, source in enumerate((f"{ROOT}/v1/stream/{name}", f"/v1/stream/{name}")):
        place = f"{root}/fork{len(front)}-{number}"
        fork = await rooted.http.put(place, headers={"Stream-Forked-From": source})
        assert fork.status_code == 201, fork.text
        assert (await rooted.http.get(place)).text == "a"
    wanted = {"type": "webhook", "pattern": "*", "webhook": {"url": "https://example.com/hook"}}
    answer = await rooted.http.put(f"{root}/__ds/subscriptions/s", json=wanted)
    url = answer.json()["webhook"]["signing"]["jwks_url"]
    assert url == f"{own}/__ds/jwks.json"
    assert len((await rooted.http.get(url)).json()["keys"]) == 1
