"""Patterns: only streams that may be read are followed, with whichever credential there is now."""

from pathlib import Path

from headgate.app.auth.grants import Grant, Verb
from tests.api.auth.secured import secured
from tests.api.live.frames import frames_of

PREFIXED = Grant(streams=["orders.ann.*"], do=[Verb.READ])
APPENDING = Grant(streams=["orders.*"], do=[Verb.APPEND])


async def test_only_streams_that_may_be_read_are_followed(tmp_path: Path) -> None:
    async with secured(tmp_path) as gateway:
        headers = {"Authorization": f"Bearer {await gateway.key(PREFIXED)}"}
        async with frames_of(gateway.live, "/v1/ws", additional_headers=headers) as frames:
            await frames.send(type="subscribe", rid="p", sub="p", match="*")
            await frames.next("subscribed")
            await gateway.live.append("orders.ben.1", "secret")
            await gateway.live.append("orders.ann.1", "mine")
            [entry] = await frames.entries(1)
            assert (entry["stream"], entry["fields"]) == ("orders.ann.1", {"v": "mine"})


async def test_a_principal_that_may_not_read_follows_nothing(tmp_path: Path) -> None:
    async with secured(tmp_path) as gateway:
        headers = {"Authorization": f"Bearer {await gateway.key(APPENDING)}"}
        answer = await gateway.live.http.get("/v1/events?match=*", headers=headers)
        assert answer.status_code == 403
