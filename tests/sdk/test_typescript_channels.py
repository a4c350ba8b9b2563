"""`@headgate/client` publishes to channels, hears them, and knows who is there."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from deploy.local_cluster.server import free_ports
from headgate.app.settings import Settings
from tests.api.conftest import Live, running
from tests.conditions import until
from tests.processes.gateway import HOST, Gateway
from tests.sdk.program import Program, running_program
from tests.sdk.typescript import program_folder
from tests.sdk.workshop import tool

Programs = Callable[..., AbstractAsyncContextManager[Program]]


@pytest.fixture
async def live() -> AsyncIterator[Live]:
    async with running(Settings(presence_ttl_ms=1_000)) as live:
        await until(lambda: live.gateway.presence.is_settled)
        yield live


@pytest.fixture
def program(tmp_path: Path) -> Programs:
    folder = program_folder(tmp_path / "programs")

    def start(url: str, transport: str = "socket") -> AbstractAsyncContextManager[Program]:
        return running_program(tool("node"), "channels.mjs", url, transport, folder=folder)

    return start


async def do(program: Program, **what: Any) -> None:
    await program.write_line(json.dumps(what))


async def until_last(program: Program, key: str, value: Any) -> None:
    await program.until(lambda: program.all(key)[-1:] == [value])


async def test_two_programs_hear_each_other_and_know_who_is_there(
    live: Live, program: Programs
) -> None:
    said = {"some_name": 1, "otherName": [None, "x"]}
    async with program(live.url) as anna, program(live.url) as ben:
        await do(anna, enter={"data": {"name": "anna"}})
        await until_last(anna, "members", ["anna"])
        await do(ben, enter={"data": {"name": "ben"}, "key": "tab"})
        await until_last(anna, "members", ["anna", "ben"])
        await until_last(ben, "members", ["anna", "ben"])

        await do(ben, publish=said)
        await until_last(ben, "receivers", 2)
        for each in (anna, ben):
            await until_last(each, "heard", said)
        await do(ben, leave=True)
        await until_last(anna, "members", ["anna"])
        await do(ben, ask=True)
        await until_last(ben, "asked", ["anna"])


async def test_a_program_that_starts_again_under_its_key_is_not_seen_to_leave(
    live: Live, program: Programs
) -> None:
    async with program(live.url) as anna:
        await do(anna, enter={"hidden": True})
        await until_last(anna, "members", [])
        async with program(live.url) as again:
            async with program(live.url) as ben:
                await do(ben, enter={"data": {"name": "ben"}, "key": "tab"})
                await until_last(anna, "members", ["ben"])
            await do(again, enter={"data": {"name": "ben again"}, "key": "tab"})
            await until_last(anna, "members", ["ben again"])
        await until_last(anna, "members", [])
        assert anna.all("members") == [[], ["ben"], ["ben again"], []]


async def test_of_many_changes_the_last_is_told_and_a_wrong_one_is_not(
    live: Live, program: Programs
) -> None:
    async with program(live.url) as anna, program(live.url) as ben:
        await do(anna, enter={"hidden": True})
        await until_last(anna, "members", [])
        await do(ben, enter={"data": {"name": 0}})
        await until_last(ben, "members", [0])
        await do(ben, update=[{"name": number} for number in range(1, 100)])
        await until_last(anna, "members", [99])
        assert len(anna.all("members")) <= 4, "what was overtaken is not sent"
        await do(ben, update=[{"name": "x" * 1_024}])
        await until_last(ben, "told", "invalid_request")
        await do(ben, update=[{"name": "ben"}])
        await until_last(anna, "members", ["ben"])
        assert ben.all("refused") == []


async def test_a_callback_that_throws_ends_nothing(live: Live, program: Programs) -> None:
    async with program(live.url) as anna:
        await do(anna, enter={})
        await until_last(anna, "connection", "live")
        await do(anna, publish="throw")
        await until_last(anna, "told", "a callback has thrown")
        await do(anna, publish="on")
        await until_last(anna, "heard", "on")


async def test_events_carry_messages_where_there_is_no_socket(
    live: Live, program: Programs
) -> None:
    async with program(live.url, "events") as anna:
        await do(anna, enter={"data": {"name": "anna"}})
        await until_last(anna, "connection", "live")
        await do(anna, publish={"some_name": 1})
        await until_last(anna, "receivers", 1)
        await until_last(anna, "heard", {"some_name": 1})
        await do(anna, update=[{"name": "nobody sees it"}])
        await do(anna, ask=True)
        await until_last(anna, "asked", [])


async def test_more_than_a_thousand_messages_do_not_wait_for_their_answers(
    live: Live, program: Programs
) -> None:
    async with program(live.url) as anna:
        await do(anna, enter={})
        await until_last(anna, "connection", "live")
        await do(anna, flood=3_000)
        await until_last(anna, "published", 1_000)
        await do(anna, publish="on")
        await until_last(anna, "heard", "on")


@pytest.mark.long
async def test_who_was_there_stays_while_a_gateway_that_was_killed_starts_again(
    tmp_path: Path, program: Programs
) -> None:
    [port] = free_ports(1)
    settings = {"port": port, "presence_ttl_ms": 10_000}
    gateway = await Gateway.start(tmp_path / "data", settings)
    url = f"http://{HOST}:{port}"
    async with AsyncExitStack() as stack:
        anna, ben, carla = [await stack.enter_async_context(program(url)) for _ in range(3)]
        for each, name in ((anna, "anna"), (ben, "ben"), (carla, "carla")):
            await do(each, enter={"data": {"name": name}})
        await until_last(anna, "members", ["anna", "ben", "carla"])
        await gateway.kill()
        await until_last(anna, "connection", "lost")
        await until_last(ben, "connection", "lost")
        await do(ben, update=[{"name": "ben again"}])
        await carla.end()
        begun = len(anna.lines)

        gateway = await Gateway.start(tmp_path / "data", settings)
        async with httpx.AsyncClient(base_url=url) as http:
            await until_last(anna, "connection", "live")
            assert (await http.get("/v1/channels/room-1/presence")).json()["settled"] is False
        await until_last(anna, "members", ["anna", "ben again"])
        told = [line["members"] for line in anna.lines[begun:] if "members" in line]
        for first, second, *_ in told:
            assert (first, second.split()[0]) == ("anna", "ben"), "nobody was gone meanwhile"
    await gateway.stop()
