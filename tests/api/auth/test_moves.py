"""Moves: what brings entries to another stream needs the right to read them."""

from pathlib import Path

from headgate.app.auth.grants import Grant, Verb
from tests.api.auth.secured import secured


async def test_who_may_not_read_a_stream_cannot_rename_it_to_one_that_it_may_read(
    tmp_path: Path,
) -> None:
    async with secured(tmp_path) as gateway:
        await gateway.live.append("secret", "1")
        key = await gateway.key(
            Grant(streams=["*"], do=[Verb.MANAGE]), Grant(streams=["news"], do=[Verb.READ])
        )
        async with gateway.client(key) as http:
            refused = await http.post("/v1/commands", json=["RENAME", "secret", "news"])
        assert (refused.status_code, refused.json()["error"].split()[0]) == (403, "NOPERM")
        assert (await gateway.live.stream("secret"))["length"] == 1


async def test_who_may_not_read_a_stream_cannot_have_its_dead_letters(tmp_path: Path) -> None:
    policy = {"start": "0", "policy": {"max_deliveries": 1, "dead_letter_stream": "news"}}
    async with secured(tmp_path) as gateway:
        await gateway.live.append("secret", "1")
        manage = Grant(streams=["*"], do=[Verb.MANAGE])
        managing = await gateway.key(manage)
        reading = await gateway.key(manage, Grant(streams=["secret"], do=[Verb.READ]))
        async with gateway.client(managing) as http:
            refused = await http.put("/v1/streams/secret/groups/g", json=policy)
        async with gateway.client(reading) as http:
            allowed = await http.put("/v1/streams/secret/groups/g", json=policy)

    assert (refused.status_code, allowed.status_code) == (403, 201)
