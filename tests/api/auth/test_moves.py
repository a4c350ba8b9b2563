"""Moves: what brings entries to another stream needs the right to read them."""

from pathlib import Path

import httpx
import pytest

from headgate.app.auth.grants import Grant, Verb
from tests.api.auth.secured import position, secured


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


_DEAD_LETTERS = {"start": "0", "policy": {"max_deliveries": 1, "dead_letter_stream": "secret"}}
_OWN = Grant(streams=["a*", "b*"], do=list(Verb)[:4])


@pytest.mark.parametrize("move", [["COPY", "a", "b"], ["RENAMENX", "a", "b"]], ids=" ".join)
@pytest.mark.parametrize("way", ["", "/pipeline", "/multi-exec"])
async def test_a_move_takes_no_policy_along_that_its_maker_could_not_set(
    tmp_path: Path, move: list[str], way: str
) -> None:
    async with secured(tmp_path) as gateway:
        await gateway.live.append("a", "1")
        await gateway.admin.put("/v1/streams/a/groups/g", json=_DEAD_LETTERS)
        own, appending, blind = [
            await gateway.key(_OWN),
            await gateway.key(_OWN, Grant(streams=["sec*"], do=[Verb.APPEND])),
            await gateway.key(
                Grant(streams=["*"], do=[Verb.MANAGE]), Grant(streams=["a"], do=[Verb.READ])
            ),
        ]
        replies = []
        for key in (own, blind, appending):
            async with gateway.client(key) as http:
                commands = [["PING"], move] if way else move
                reply = (await http.post(f"/v1/commands{way}", json=commands)).json()
                replies.append(reply[1] if way else reply)
        refused, blindly, allowed = replies

    assert refused["error"].startswith("NOPERM This needs append or manage on 'secret'")
    assert blindly["error"].startswith("NOPERM This needs read on 'b'")
    assert allowed["result"] in (1, "OK")


async def test_a_refused_move_changes_nothing_and_is_in_the_audit_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "headgate.audit")
    async with secured(tmp_path) as gateway:
        await gateway.live.append("a", "1")
        await gateway.admin.put("/v1/streams/a/groups/g", json=_DEAD_LETTERS)
        await gateway.live.append("b", "1", "2")
        key = await gateway.key(_OWN)
        before = position(gateway)
        async with gateway.client(key) as http:
            for move in (["COPY", "a", "b", "REPLACE"], ["RENAME", "a", "b"]):
                assert (await http.post("/v1/commands", json=move)).status_code == 403
        assert position(gateway) == before
    outcomes = [vars(line).get("outcome") for line in caplog.records]
    assert outcomes.count("forbidden") == 2


async def test_a_policy_about_a_stream_of_ones_own_moves_along(tmp_path: Path) -> None:
    policies = [None, {"claim_idle_ms": 5}, {"max_deliveries": 1, "dead_letter_stream": "b.dead"}]
    async with secured(tmp_path) as gateway:
        await gateway.live.append("a", "1")
        async with gateway.client(await gateway.key(_OWN)) as http:
            for at, policy in enumerate(policies):
                made = {"start": "0"} | ({} if policy is None else {"policy": policy})
                answer = await http.put(f"/v1/streams/a/groups/g{at}", json=made)
                assert answer.status_code == 201, answer.text
            for move in (["COPY", "a", "b"], ["RENAME", "a", "b.dead"], ["RENAME", "b.dead", "b"]):
                answer = await http.post("/v1/commands", json=move)
                assert answer.status_code == 200, answer.text


async def test_a_policy_names_no_stream_into_being_that_its_maker_could_not(
    tmp_path: Path,
) -> None:
    async with secured(tmp_path) as gateway:
        await gateway.live.append("secret", "1")
        key = await gateway.key(_OWN, Grant(streams=["sec*", "none*"], do=[Verb.APPEND]))
        creating = await gateway.key(_OWN, Grant(streams=["none*"], do=[Verb.APPEND], create=True))
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
            answers.append(await http.put("/v1/streams/a/groups/g", json=_DEAD_LETTERS))
            answers.append(await http.put("/v1/streams/b/groups/g", json=_DEAD_LETTERS))
    assert [answer.status_code for answer in answers] == [403, 201, 403, 201, 200, 200, 201, 404]
    assert "append by a grant with `create`" in answers[0].json()["detail"]
