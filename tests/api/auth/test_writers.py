"""Writers and producers: what one principal has written hides nothing of another."""

import pytest

from headgate.app.auth.grants import Grant, Verb
from tests.api.auth.secured import Secured

pytestmark = pytest.mark.asyncio(loop_scope="session")

APPEND = Grant(streams=["orders"], do=[Verb.APPEND])
URL = "/v1/streams/orders/entries"


async def test_a_key_of_an_append_belongs_to_its_principal(gateway: Secured) -> None:
    await gateway.live.append("orders", "0")
    mine, other = [await gateway.key(APPEND, name=name) for name in ("me", "me/a")]
    key = {"Idempotency-Key": "1", "Idempotency-Producer": "a/b"}
    shorter = {"Idempotency-Key": "1", "Idempotency-Producer": "b"}
    async with gateway.client(mine) as http, gateway.client(other) as thief:
        for headers in (key, shorter, {"Idempotency-Key": "1"}):
            taken = await thief.post(URL, json={"fields": {"v": "x"}}, headers=headers)
            assert taken.status_code == 201
            first = await http.post(URL, json={"fields": {"v": "1"}}, headers=headers)
            assert first.status_code == 201
            again = await http.post(URL, json={"fields": {"v": "1"}}, headers=headers)
            assert (again.status_code, again.json()) == (200, first.json())


async def test_nobody_takes_the_name_of_a_producer_of_another(gateway: Secured) -> None:
    await gateway.live.append("orders", "0")
    mine = await gateway.key(APPEND, name="me")
    everywhere = await gateway.key(Grant(streams=["*"], do=[Verb.APPEND]), name="you")
    async with gateway.client(mine) as http, gateway.client(everywhere) as thief:
        for producer, client in (("2:me/a", thief), ("a", http)):
            key = {"Idempotency-Key": "1", "Idempotency-Producer": producer}
            answer = await client.post(URL, json={"fields": {"v": "1"}}, headers=key)
            assert answer.status_code == 201, answer.text


async def test_nobody_marks_an_append_of_another_as_done(gateway: Secured) -> None:
    mine, other = [await gateway.key(APPEND, name=name) for name in ("me", "you")]
    for path in ("", "/multi-exec"):
        append = ["XADD", "orders", "IDMP", "p", path or "1", "*", "v", "1"]
        async with gateway.client(mine) as http, gateway.client(other) as thief:
            entry = (await gateway.live.append("orders", "x"))[0]
            mark = ["XIDMPRECORD", "orders", "p", append[4], entry]
            body = [mark] if path else mark
            assert '"OK"' in (await thief.post(f"/v1/commands{path}", json=body)).text
            appended = (await http.post("/v1/commands", json=append)).json()["result"]
            assert appended != entry
            assert (await http.post("/v1/commands", json=append)).json()["result"] == appended


async def test_two_principals_with_a_writer_of_one_name_have_two(gateway: Secured) -> None:
    mine, other = [await gateway.key(APPEND, name=name) for name in ("me", "you")]
    url = "/v1/bulk/writers/nightly"
    async with gateway.client(mine) as http, gateway.client(other) as thief:
        done = await thief.post(f"{url}/batches/7/commit", json={"attempts": []})
        assert done.status_code == 200, done.text
        assert (await thief.get(url)).json()["last_batch"] == 7
        assert (await http.get(url)).json()["last_batch"] is None
