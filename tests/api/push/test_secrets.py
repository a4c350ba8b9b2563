"""Pushes: their secrets are shown once, and they take rights on their group."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from headgate.app.auth.grants import Grant, Verb
from headgate.app.automation import pushes
from headgate.app.settings import Settings
from tests.api.auth.secured import Secured, secured
from tests.api.conftest import running
from tests.conditions import WITHIN_S
from tests.receiver import Receiver

GROUP = "/v1/streams/orders/groups/billing"
PUSH = f"{GROUP}/push"
TOKEN = "a-token-of-the-receiver"
PART = "a-secret-part-of-the-url"


def settings_of(folder: Path, **more: Any) -> Settings:
    return Settings(data_dir=folder, push_allow=["127.0.0.0/8"], **more)


def all_bytes(folder: Path) -> bytes:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert folder / "push.key" in files
    return b"".join(path.read_bytes() for path in files)


async def test_no_secret_is_in_a_file_of_the_streams_a_dump_or_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    receiver = Receiver(("500 No", b""))
    await receiver.open()
    async with running(settings_of(tmp_path)) as live:
        await live.create_group("orders", "billing")
        push = {"url": f"{receiver.url}?k={PART}", "headers": {"Authorization": TOKEN}}
        secrets = [(await live.http.put(PUSH, json=push)).json()["secret"]]
        secrets.append((await live.http.post(f"{PUSH}/rotate")).json()["secret"])
        await live.append("orders", "1")
        await receiver.next()
        listed = (await live.http.get("/v1/streams?prefix=__push:")).json()["streams"]
        dump = await live.http.post("/v1/commands", json=["XRANGE", listed[0]["name"], "-", "+"])
        shown = dump.text + (await live.http.get(PUSH)).text.replace(f"?k={PART}", "")
        await live.http.post("/v1/admin/rewrite")
        for answer in ((await live.http.get("/v1/pushes")), (await live.http.get(PUSH))):
            assert "whsec_" not in answer.text
            assert TOKEN not in answer.text
    await receiver.close()
    kept = all_bytes(tmp_path)
    output = caplog.text + "".join(str(vars(record)) for record in caplog.records)
    for secret in (*secrets, *(each.removeprefix("whsec_") for each in secrets), TOKEN, PART):
        assert secret.encode() not in kept
        assert secret not in output
        assert secret not in shown


async def test_a_push_outlives_the_gateway_and_needs_its_key(tmp_path: Path) -> None:
    receiver = Receiver(("200 OK", b""))
    await receiver.open()
    async with running(settings_of(tmp_path)) as live:
        await live.create_group("orders", "billing")
        await live.http.put(PUSH, json={"url": receiver.url})
    async with running(settings_of(tmp_path)) as live:
        await live.append("orders", "1")
        assert (await receiver.next()).json["fields"] == {"v": "1"}
    key = (tmp_path / "push.key").read_bytes()
    (tmp_path / "push.key").unlink()
    async with running(settings_of(tmp_path)) as live:
        push = (await live.http.get(PUSH)).json()
        assert (push["state"], push["url"]) == ("unreadable", None)
        answer = await live.http.post(f"{PUSH}/rotate")
        assert (answer.status_code, answer.json()["code"]) == (501, "not_supported")
        await live.append("orders", "2")
        (tmp_path / "push.key").write_bytes(key)  # it is looked for again
        await live.http.post(f"{PUSH}/retry")
        async with asyncio.timeout(WITHIN_S):
            assert (await receiver.next()).json["fields"] == {"v": "2"}
        (tmp_path / "push.key").unlink()
        assert "secret" in await live.ask(f"PUT {PUSH}", {"url": receiver.url})
    await receiver.close()


async def test_a_push_that_is_renamed_or_copied_sends_nothing(tmp_path: Path) -> None:
    receiver = Receiver(("200 OK", b""))
    await receiver.open()
    async with running(settings_of(tmp_path)) as live:
        await live.create_group("orders", "billing")
        await live.create_group("orders", "other")
        for group in ("billing", "other"):
            await live.http.put(
                f"/v1/streams/orders/groups/{group}/push", json={"url": receiver.url}
            )
            await live.http.post(f"/v1/streams/orders/groups/{group}/push/pause")
        first, second = (
            each["name"]
            for each in (await live.http.get("/v1/streams?prefix=__push:")).json()["streams"]
        )
        await live.http.post("/v1/commands", json=["DEL", second])
        await live.http.post("/v1/commands", json=["COPY", first, second])
        assert len((await live.http.get("/v1/pushes")).json()["pushes"]) == 1
    await receiver.close()


BODY = {"url": "https://hooks.example/"}
ALL = {Verb.PUSH, Verb.MANAGE, Verb.CONSUME}


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Secured]:
    async with secured(tmp_path) as gateway:
        await gateway.admin.put(GROUP, json={"create_stream": True})
        yield gateway


async def key(gateway: Secured, *verbs: Verb, groups: list[str] | None = None) -> str:
    return await gateway.key(Grant(streams=["orders"], do=list(verbs), groups=groups))


@pytest.mark.parametrize("lacking", sorted(ALL))
async def test_each_of_the_three_rights_is_needed(gateway: Secured, lacking: Verb) -> None:
    async with gateway.client(await key(gateway, *(ALL - {lacking}))) as http:
        answer = await http.put(PUSH, json=BODY)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    async with gateway.client(await key(gateway, *ALL)) as http:
        assert (await http.put(PUSH, json=BODY)).status_code == 201


async def test_a_grant_for_one_group_is_enough_for_it_and_for_no_other(gateway: Secured) -> None:
    await gateway.admin.put("/v1/streams/orders/groups/other")
    async with gateway.client(await key(gateway, *ALL, groups=["billing"])) as http:
        assert (await http.put(PUSH, json=BODY)).status_code == 201
        other = await http.put("/v1/streams/orders/groups/other/push", json=BODY)
        assert other.status_code == 403
        await gateway.admin.put("/v1/streams/orders/groups/other/push", json=BODY)
        listed = (await http.get("/v1/pushes")).json()["pushes"]
        assert [push["group"] for push in listed] == ["billing"]


async def test_who_manages_ends_a_push_and_does_not_begin_one(gateway: Secured) -> None:
    await gateway.admin.put(PUSH, json=BODY)
    async with gateway.client(await key(gateway, Verb.MANAGE)) as http:
        assert (await http.get(PUSH)).json()["url"] == BODY["url"]
        assert (await http.post(f"{PUSH}/pause")).status_code == 200
        assert (await http.post(f"{PUSH}/resume")).status_code == 403
        assert (await http.delete(PUSH)).status_code == 204
    async with gateway.client(await key(gateway, Verb.READ, Verb.CONSUME)) as http:
        assert (await http.get(PUSH)).status_code == 403
        assert (await http.get("/v1/pushes")).status_code == 403


async def test_each_act_leaves_a_line_that_names_the_group(
    gateway: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "headgate.audit")
    caplog.clear()
    async with gateway.client(await key(gateway, *ALL)) as http:
        await http.put(PUSH, json=BODY)
        for act in ("pause", "resume", "retry", "rotate"):
            assert (await http.post(f"{PUSH}/{act}")).status_code == 200
        await http.delete(PUSH)
    lines = [vars(record) for record in caplog.records if record.message == "act"]
    assert [(line["what"], line["stream"], line["group"], line["outcome"]) for line in lines] == [
        (f"{act}Push", "orders", "billing", "ok") for act in ("set", "pause", "resume", "retry")
    ] + [("rotatePushSecret", "orders", "billing", "ok"), ("deletePush", "orders", "billing", "ok")]


async def test_one_principal_leaves_pushes_to_others(
    gateway: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pushes, "PUSHES_MAX", 4)
    grant = Grant(streams=["s*"], do=list(ALL))
    for name in ("s1", "s2", "s3", "s4"):
        await gateway.admin.put(f"/v1/streams/{name}/groups/g", json={"create_stream": True})
    ann, bob = [await gateway.key(grant, name=name) for name in ("ann", "bob")]
    async with gateway.client(ann) as http, gateway.client(bob) as other:
        for client, name, status in (
            (http, "s1", 201),
            (http, "s2", 201),
            (http, "s3", 409),
            (other, "s3", 201),
            (http, "s1", 200),
        ):
            answer = await client.put(f"/v1/streams/{name}/groups/g/push", json=BODY)
            assert answer.status_code == status, answer.text
