"""A standby: it says that it is none that leads, and leads once the other one has ended."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

import headgate
from headgate.app.settings import DurableIn, Settings
from headgate.client.problems import NotLeader
from tests.api.commands.command_line import headgate as command
from tests.api.conftest import Live, problem_in, running
from tests.api.resp.talk import Talk
from tests.conditions import WITHIN_S, eventually

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.embedded("a bucket is behind a data directory"),
]

ENTRIES = "/v1/streams/orders/entries"


def settings(tmp_path: Path, name: str, **chosen: object) -> Settings:
    given = {
        "data_dir": tmp_path / name,
        "bucket": (tmp_path / "bucket").as_uri(),
        "address": f"http://{name}.example",
        "lease_ms": 2_000,
        "ship_ms": 50,
        "standby": True,
        "allow_anonymous": True,
        "redis_port": 0,
        **chosen,
    }
    return Settings.model_validate(given)


async def until_status(live: Live, path: str, status: int) -> httpx.Response:
    """Ask until the answer has this status; returns it."""
    return await eventually(
        lambda: live.http.get(path), lambda answer: answer.status_code == status
    )


async def until_read(live: Live, values: list[str]) -> None:
    async def ask() -> list[str]:
        answer = (await live.http.get(ENTRIES)).json()
        return [entry["fields"]["v"] for entry in answer.get("entries", ())]

    await eventually(ask, lambda shown: shown == values)


async def test_a_standby_can_be_read_and_leads_once_the_leader_has_ended(tmp_path: Path) -> None:
    chosen = settings(tmp_path, "a", durable=DurableIn.BUCKET)
    async with AsyncExitStack() as first, running(chosen) as leader:
        ready = (await until_status(leader, "/readyz", 200)).json()
        assert (ready["role"], ready["durable"], ready["unshipped_bytes"] >= 0) == (
            *("leader", "bucket"),
            True,
        )
        await leader.append("orders", "1", "2")
        standby = await first.enter_async_context(
            running(settings(tmp_path, "b", standby_reads=True))
        )
        await until_read(standby, ["1", "2"])
        assert int((await standby.http.get(ENTRIES)).headers["Headgate-Behind-Ms"]) < 60_000
        assert "Headgate-Behind-Ms" not in (await leader.http.get(ENTRIES)).headers
        refusal = problem_in(await standby.http.get("/readyz"))
        assert (refusal["code"], refusal["leader"]) == ("not_leader", "http://a.example")
        assert (await standby.http.get("/healthz")).status_code == 200
        refused = await standby.http.post(ENTRIES, json={"fields": {"v": "3"}})
        assert (refused.status_code, problem_in(refused)["code"]) == (503, "not_leader")
        assert refused.headers["Retry-After"] == "1"
        talk = await Talk.open(standby.redis_port)
        refusal_of_redis = b"-READONLY You can't write against a read only replica.\r\n"
        await talk.say(b"XADD orders * v 3\r\n", refusal_of_redis)
        await talk.say(b"XLEN orders\r\n", b":2\r\n")
        await talk.close()
        await leader.gateway.backend.close()
        await until_status(standby, "/readyz", 200)
        await standby.append("orders", "3")
        await until_read(standby, ["1", "2", "3"])


async def test_keys_are_changed_at_the_leader(tmp_path: Path) -> None:
    anonymous = [{"streams": ["*"], "do": ["admin"]}]
    key = {"name": "shop", "grants": [{"streams": ["orders"], "do": ["read"]}]}
    async with (
        running(settings(tmp_path, "a", anonymous=anonymous)) as leader,
        running(settings(tmp_path, "b", anonymous=anonymous)) as standby,
    ):
        await until_status(leader, "/readyz", 200)
        refused = problem_in(await standby.http.post("/v1/keys", json=key))
        assert (refused["code"], refused["leader"]) == ("not_leader", "http://a.example")
        assert not (tmp_path / "b" / "keys.json").exists()
        assert (await leader.http.post("/v1/keys", json=key)).status_code == 201


async def test_clients_and_commands_find_the_leader_of_two(tmp_path: Path) -> None:
    async with (
        running(settings(tmp_path, "a")) as leader,
        running(settings(tmp_path, "b", standby_redirect=True)) as standby,
    ):
        await until_status(leader, "/readyz", 200)
        moved = await until_status(standby, f"{ENTRIES}?limit=3", 307)
        assert moved.headers["Location"] == f"http://a.example{ENTRIES}?limit=3"
        assert (await standby.http.get("/readyz")).status_code == 503

        urls = f"{standby.url},{leader.url}"
        ended = await command(urls, "health")
        assert ended.code == 0
        assert ended.output.startswith(f"ok\nleader at {leader.url}; the bucket ")
        alone = await command(standby.url, "health")
        assert (alone.code, "not_leader" in alone.error) == (1, True)
        # A redirect is followed to addresses of the list only.
        async with headgate.AsyncClient([standby.url, leader.url], retry_s=0) as hg:
            await hg.stream("orders").append({"n": "1"})
            assert hg.url == leader.url
        async with headgate.AsyncClient(standby.url, retry_s=0) as hg:
            with pytest.raises(NotLeader, match=r"redirects to http://a\.example"):
                await hg.stream("orders").append({"n": "1"})


async def test_a_second_gateway_that_is_no_standby_does_not_start(tmp_path: Path) -> None:
    async with running(settings(tmp_path, "a")) as leader:
        await until_status(leader, "/readyz", 200)
        async with running(settings(tmp_path, "b", standby=False, redis_port=None)) as second:
            async with asyncio.timeout(WITHIN_S):
                await second.gateway.died.wait()
        assert await leader.append("orders", "1")
