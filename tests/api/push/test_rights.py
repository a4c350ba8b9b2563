"""A push takes `push`, `manage` and `consume` on its group; whoever manages sees and ends it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headgate.app.auth.grants import Grant, Verb
from headgate.app.push import store
from tests.api.auth.secured import Secured, secured

GROUP = "/v1/streams/orders/groups/billing"
PUSH = f"{GROUP}/push"
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
    monkeypatch.setattr(store, "PUSHES_MAX", 4)
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
