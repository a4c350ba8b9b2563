"""Secrets of pushes are shown once, and are nowhere in clear."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from headgate.app.settings import Settings
from tests.api.conftest import running
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
        async with asyncio.timeout(20):
            assert (await receiver.next()).json["fields"] == {"v": "2"}
        (tmp_path / "push.key").unlink()
        answer = await live.http.put(PUSH, json={"url": receiver.url})
        assert answer.status_code == 200
        assert "secret" in answer.json()
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
