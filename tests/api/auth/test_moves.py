"""Moves: what brings entries to another stream needs the right to read them."""

from typing import Any

import httpx
import pytest

from headgate.app.auth.grants import Grant, Verb
from tests.api.auth.secured import Secured

pytestmark = pytest.mark.asyncio(loop_scope="session")

MANAGE = Grant(streams=["*"], do=[Verb.MANAGE])
OWN = Grant(streams=["a*", "b*"], do=list(Verb)[:4])


def dead_letters_to(stream: str) -> dict[str, object]:
    return {"start": "0", "policy": {"max_deliveries": 1, "dead_letter_stream": stream}}


async def test_who_may_not_read_a_stream_gets_its_entries_nowhere_else(gateway: Secured) -> None:
    await gateway.live.append("secret", "1")
    reading = Grant(streams=["news"], do=[Verb.READ])
    async with gateway.client(await gateway.key(MANAGE, reading)) as http:
        refused = await http.post("/v1/commands", json=["RENAME", "secret", "news"])
        assert (refused.status_code, refused.json()["error"].split()[0]) == (403, "NOPERM")
        group = "/v1/streams/secret/groups/g"
        assert (await http.put(group, json=dead_letters_to("news"))).status_code == 403
    reading = Grant(streams=["secret"], do=[Verb.READ])
    async with gateway.client(await gateway.key(MANAGE, reading)) as http:
        assert (await http.put(group, json=dead_letters_to("news"))).status_code == 201


@pytest.mark.parametrize("move", [["COPY", "a", "b"], ["RENAMENX", "a", "b"]], ids=" ".join)
@pytest.mark.parametrize("way", ["", "/pipeline", "/multi-exec"])
async def test_a_move_takes_no_policy_along_that_its_maker_could_not_set(
    gateway: Secured, move: list[str], way: str, caplog: pytest.LogCaptureFixture
) -> None:
    await gateway.live.append("a", "1")
    await gateway.admin.put("/v1/streams/a/groups/g", json=dead_letters_to("secret"))
    before, replies = gateway.live.position, list[dict[str, Any]]()
    for grants in (
        [OWN],
        [MANAGE, Grant(streams=["a"], do=[Verb.READ])],
        [OWN, Grant(streams=["sec*"], do=[Verb.APPEND])],
    ):
        async with gateway.client(await gateway.key(*grants)) as http:
            if len(replies) == 2:
                assert gateway.live.position == before
            commands = [["PING"], move] if way else move
            reply = (await http.post(f"/v1/commands{way}", json=commands)).json()
            replies.append(reply[1] if way else reply)
    refused, blindly, allowed = replies

    assert refused["error"].startswith("NOPERM This needs append or manage on 'secret'")
    assert blindly["error"].startswith("NOPERM This needs read on 'b'")
    assert allowed["result"] in (1, "OK")
    outcomes = [vars(line).get("outcome") for line in caplog.records]
    assert outcomes.count("forbidden") == 2


async def test_a_policy_about_a_stream_of_ones_own_moves_along(gateway: Secured) -> None:
    await gateway.live.append("a", "1")
    made = [{"start": "0"}, {"policy": {"claim_idle_ms": 5}}, dead_letters_to("b.dead")]
    async with gateway.client(await gateway.key(OWN)) as http:
        for at, body in enumerate(made):
            answer = await http.put(f"/v1/streams/a/groups/g{at}", json=body)
            assert answer.status_code == 201, answer.text
        for move in ("COPY a b", "RENAME a b.dead", "RENAME b.dead b"):
            answer = await http.post("/v1/commands", json=move.split())
            assert answer.status_code == 200, answer.text


async def test_a_policy_names_no_stream_into_being_that_its_maker_could_not(
    gateway: Secured,
) -> None:
    await gateway.live.append("secret", "1")
    key = await gateway.key(OWN, Grant(streams=["sec*", "none*"], do=[Verb.APPEND]))
    creating = await gateway.key(OWN, Grant(streams=["none*"], do=[Verb.APPEND], create=True))
    made = {"create_stream": True}
    absent = {"policy": {"max_deliveries": 1, "dead_letter_stream": "none"}}
    answers: list[httpx.Response] = []
    for token in (key, creating):
        async with gateway.client(token) as http:
            group = f"/v1/streams/a/groups/{len(answers)}"
            answers += [
                await http.put(group, json=made | absent),
                await http.put(group, json=made),
                await http.patch(group, json=absent),
            ]
    async with gateway.client(key) as http:
        for stream in ("a", "b"):
            group = f"/v1/streams/{stream}/groups/g"
            answers.append(await http.put(group, json=dead_letters_to("secret")))
    assert [answer.status_code for answer in answers] == [403, 201, 403, 201, 200, 200, 201, 404]
    assert "append by a grant with `create`" in answers[0].json()["detail"]
