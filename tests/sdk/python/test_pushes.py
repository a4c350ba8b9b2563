"""Pushes with the Python client, with asyncio and without."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from standardwebhooks import Webhook

import headgate
from headgate.app.settings import MEMORY, Settings
from headgate.client import problems
from tests.api.conftest import Live
from tests.conditions import eventually
from tests.receiver import Notice, Receiver

NAMES = ("webhook-id", "webhook-timestamp", "webhook-signature")


@pytest.fixture
def settings() -> Settings:
    return Settings(data_dir=MEMORY, push_allow=["127.0.0.0/8"])


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    receiver = Receiver(("200 OK", b""))
    await receiver.open()
    yield receiver
    await receiver.close()


def verify(secret: str, notice: Notice) -> None:
    Webhook(secret).verify(notice.body, {name: notice.header(name) for name in NAMES})


async def test_a_push_is_set_and_deleted(hg: headgate.AsyncClient, receiver: Receiver) -> None:
    group = hg.group("a b", "c d")
    await group.create(start="0")
    await hg.stream("a b").append({"sku": "42"})
    made = await group.push.set(receiver.url, concurrency=2, body="batch", headers={"X-A": "b"})
    assert (made["concurrency"], made["body"], made["header_names"]) == (2, "batch", ["X-A"])
    notice = await receiver.next()
    verify(made["secret"], notice)
    assert [entry["fields"] for entry in notice.json["entries"]] == [{"sku": "42"}]
    assert notice.header("x-a") == "b"
    assert "secret" not in await group.push.set(receiver.url)
    changed = await group.push.info()
    assert (changed["concurrency"], changed["header_names"]) == (10, [])
    secret = await group.push.rotate(overlap_ms=0)
    assert [push["url"] async for push in hg.pushes()] == [receiver.url]
    await hg.stream("a b").append({"sku": "43"})
    verify(secret, await receiver.next())
    await group.push.delete()
    with pytest.raises(problems.NotFound):
        await group.push.info()


async def test_what_failed_is_sent_again(hg: headgate.AsyncClient, receiver: Receiver) -> None:
    receiver.answers = [("500 No", b"no room"), ("200 OK", b"")]
    orders, push = hg.stream("orders"), hg.group("orders", "billing").push
    await hg.group("orders", "billing").create(policy={"backoff_ms": [600_000]})
    await push.set(receiver.url)
    assert (await push.pause())["state"] == "paused"
    assert (await push.resume())["state"] == "active"
    await orders.append({"sku": "42"})
    await receiver.next()
    [answer] = (await eventually(push.info, lambda told: told["answers"]))["answers"]
    assert (answer["status"], answer["excerpt"]) == (500, "no room")
    await eventually(push.retry, bool)
    await receiver.next()


async def test_a_group_over_a_pattern_is_pushed(
    hg: headgate.AsyncClient, receiver: Receiver
) -> None:
    groups = hg.groups("billing", match="orders.*", create={"start": "0"}, weights={"orders.b": 2})
    made = await groups.push.set(receiver.url, concurrency=2)
    assert (made["match"], made["weights"], made["concurrency"]) == ("orders.*", {"orders.b": 2}, 2)
    await hg.stream("orders.a").append({"sku": "42"})
    notice = await receiver.next()
    verify(made["secret"], notice)
    assert (notice.json["stream"], notice.json["fields"]) == ("orders.a", {"sku": "42"})
    assert (await groups.push.pause())["state"] == "paused"
    assert (await groups.push.resume())["state"] == "active"
    assert (await groups.push.retry(), len(await groups.push.rotate())) == (0, len(made["secret"]))
    assert [push.get("match") async for push in hg.pushes()] == ["orders.*"]
    await groups.push.delete()
    with pytest.raises(problems.NotFound):
        await groups.push.info()


async def test_without_asyncio_it_is_the_same(live: Live, receiver: Receiver) -> None:
    def use() -> list[str]:
        with headgate.Client(live.url) as hg:
            group = hg.group("orders", "billing")
            group.create()
            assert group.push.set(receiver.url)["secret"].startswith("whsec_")
            assert group.push.info()["state"] == "active"
            hg.groups("mail", match="ord*").push.set(receiver.url)
            return sorted(push["group"] for push in hg.pushes())

    assert await asyncio.to_thread(use) == ["billing", "mail"]
