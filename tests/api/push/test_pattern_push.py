"""A group over a pattern is pushed: the streams take turns, and each entry says its stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from headgate.app.auth.grants import Grant, Verb
from headgate.app.automation import pusher, pushes
from headgate.app.settings import Settings
from tests.api.auth.secured import Secured, secured
from tests.api.conftest import Live, refusal_of, running
from tests.api.push.conftest import OK
from tests.conditions import eventually
from tests.receiver import Notice, Receiver

PUSH = "/v1/groups/billing/push?match=orders.*"
CREATE = {"create": {"start": "0"}}
FAILED = "500 No", b"no room"


def act(name: str) -> str:
    return PUSH.replace("?", f"/{name}?")


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    receiver = Receiver(OK)
    await receiver.open()
    yield receiver
    await receiver.close()


async def put(live: Live, receiver: Receiver, **more: Any) -> Any:
    return await live.ask(f"PUT {PUSH}", {"url": receiver.url, **CREATE, **more})


def value(notice: Notice) -> tuple[str, str]:
    return notice.json["stream"], notice.json["fields"]["v"]


async def came(receiver: Receiver, count: int) -> list[tuple[str, str]]:
    return sorted([value(await receiver.next()) for _ in range(count)])


async def until_settled(live: Live, stream: str, count: int) -> None:
    """Wait until the group of a stream has nothing pending and has read so many entries."""
    await eventually(
        lambda: live.group(stream, "billing"),
        lambda group: (group.get("pending"), group.get("entries_read")) == (0, count),
    )


async def until_left(live: Live, stream: str) -> None:
    """Wait until nobody reads the group of a stream any more."""
    await eventually(
        lambda: live.group(stream, "billing"), lambda group: group.get("consumers") == 0
    )


async def test_entries_of_all_streams_come_and_are_acknowledged_there(
    live: Live, receiver: Receiver
) -> None:
    eu = await live.append("orders.eu", "1", "2")
    await live.append("orders.us", *map(str, range(40)))
    await live.append("other", "x")
    made = await put(live, receiver, weights={"orders.us": 3})
    assert (made["match"], made["stream"], made["group"]) == ("orders.*", "orders.*", "billing")
    assert (made["weights"], made["create"]) == ({"orders.us": 3}, {"start": "0-0", "policy": None})
    notices = [await receiver.next() for _ in range(42)]
    assert Counter(notice.json["stream"] for notice in notices) == {"orders.eu": 2, "orders.us": 40}
    assert {notice.json["group"] for notice in notices} == {"billing"}
    first = next(notice for notice in notices if notice.json["id"] == eu[0])
    assert first.header("webhook-id").endswith(f"_{eu[0]}")
    await until_settled(live, "orders.eu", 2)
    await until_settled(live, "orders.us", 40)
    push = await eventually(
        lambda: live.ask(f"GET {PUSH}"), lambda push: push["delivered_count"] == 42
    )
    assert "secret" not in push
    assert (await live.group("other", "billing"))["code"] == "group_not_found"


async def test_what_fails_in_one_stream_comes_again_and_holds_up_no_other(
    live: Live, receiver: Receiver
) -> None:
    fails = Counter[str]()

    def respond(notice: Notice) -> tuple[str, bytes]:
        stream = notice.json["stream"]
        fails[stream] += 1
        return FAILED if stream == "orders.bad" and fails[stream] < 4 else OK

    receiver.respond = respond
    policy = {"backoff_ms": [5, 5, 5], "key_field": "v"}
    await live.append("orders.bad", "x")
    for name in ("a", "b", "c"):
        await live.append(f"orders.{name}", *map(str, range(5)))
    await put(live, receiver, create={"start": "0", "policy": policy})
    for name in ("a", "b", "c"):
        await until_settled(live, f"orders.{name}", 5)
    await until_settled(live, "orders.bad", 1)
    notices = [await receiver.next() for _ in range(19)]
    bad = [notice for notice in notices if notice.json["stream"] == "orders.bad"]
    assert [notice.json["deliveries"] for notice in bad] == [1, 2, 3, 4]
    assert len({notice.header("webhook-id") for notice in bad}) == 1
    assert bad[-1].json["last_error"] == "answered 500"


async def test_a_batch_is_of_one_stream_and_the_window_holds_for_all(
    live: Live, receiver: Receiver
) -> None:
    receiver.may_answer.clear()
    names = [f"orders.{number}" for number in range(20)]
    for name in names:
        await live.append(name, "1", "2", "3")
    await put(live, receiver, body="batch", concurrency=1)
    sent = list[tuple[str, str]]()
    while len(sent) < 60:
        batch = (await receiver.next()).json
        assert receiver.notices.empty()
        sent += [(batch["stream"], entry["fields"]["v"]) for entry in batch["entries"]]
        receiver.may_answer.set()
    assert sorted(sent) == sorted((name, v) for name in names for v in "123")
    for name in names:
        await until_settled(live, name, 3)


async def test_nothing_is_held_while_the_receiver_wants_nothing(
    live: Live, receiver: Receiver
) -> None:
    names = [f"orders.{number}" for number in range(9)]
    for name in names:
        await live.append(name, "1")
    receiver.answers = [("429 Slow\r\nRetry-After: 3600", b""), OK]
    await put(live, receiver, body="batch")
    await receiver.next()

    async def released() -> list[Any]:
        groups = [await live.group(name, "billing") for name in names]
        return [group for group in groups if group.get("pending") == group.get("released") == 1]

    await eventually(released, lambda groups: len(groups) == 9)
    assert receiver.notices.empty()
    assert (await live.ask(f"POST {act('retry')}")) == {"entries": 1}
    for name in names:
        await until_settled(live, name, 1)


async def test_streams_that_come_later_are_pushed_whole(live: Live, receiver: Receiver) -> None:
    await live.append("orders.old", "before")
    await put(live, receiver, create={"start": "$"})
    await live.append("orders.new", "1")
    assert await came(receiver, 1) == [("orders.new", "1")]
    await live.ask(f"POST {act('pause')}")
    await until_left(live, "orders.new")
    await live.append("orders.newer", "2")
    await live.append("orders.old", "after")
    await put(live, receiver, create={"start": "$"}, concurrency=3)
    await live.ask(f"POST {act('resume')}")
    assert await came(receiver, 2) == [("orders.newer", "2"), ("orders.old", "after")]


async def test_streams_without_the_group_are_left_out_unless_it_is_created(
    live: Live, receiver: Receiver
) -> None:
    await live.append("orders.none", "1")
    await put(live, receiver, create=None)
    await live.create_group("orders.some", "billing")
    await live.append("orders.some", "2")
    assert await came(receiver, 1) == [("orders.some", "2")]
    assert (await live.group("orders.none", "billing"))["code"] == "group_not_found"


async def test_it_leaves_streams_of_which_it_holds_nothing(
    live: Live, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pusher, "_STREAMS_MAX", 2)
    await put(live, receiver)
    names = [f"orders.{number}" for number in range(6)]
    for name in [*names, *names]:
        await live.append(name, name)
        assert await came(receiver, 1) == [(name, name)]

    async def known() -> int:
        return sum([(await live.group(name, "billing"))["consumers"] for name in names])

    await eventually(known, lambda count: count <= 3)
    for name in names:
        await until_settled(live, name, 2)


async def test_it_outlives_its_groups_and_a_stream_of_the_same_name_is_another(
    live: Live, receiver: Receiver
) -> None:
    await put(live, receiver)
    await live.append_at("orders.eu", "9999999999999-1")
    first = await receiver.next()
    await until_settled(live, "orders.eu", 1)
    await live.ask("DELETE /v1/streams/orders.eu")
    await live.append_at("orders.eu", "9999999999999-1")
    second = await receiver.next()
    assert first.header("webhook-id") != second.header("webhook-id")
    await live.ask("DELETE /v1/streams/orders.eu/groups/billing")
    await eventually(lambda: live.http.get(PUSH), lambda got: got.json()["state"] == "active")


async def test_a_stream_that_is_deleted_while_its_entry_is_sent_ends_nothing(
    live: Live, receiver: Receiver
) -> None:
    receiver.may_answer.clear()
    await put(live, receiver)
    await live.append("orders.gone", "1")
    await receiver.next()
    await live.ask("DELETE /v1/streams/orders.gone")
    receiver.may_answer.set()
    await live.append("orders.eu", "2")
    assert await came(receiver, 1) == [("orders.eu", "2")]
    await until_settled(live, "orders.eu", 1)


async def test_a_deleted_push_leaves_no_consumer_behind(live: Live, receiver: Receiver) -> None:
    receiver.may_answer.clear()
    await put(live, receiver, timeout_ms=60_000)
    for name in ("orders.eu", "orders.us"):
        await live.create_group(name, "billing")
        await live.append(name, "1")
    await receiver.next()  # the window is of one request
    assert (await live.http.delete(PUSH)).status_code == 204
    receiver.may_answer.set()
    for name in ("orders.eu", "orders.us"):
        await until_left(live, name)
    groups = [await live.group(name, "billing") for name in ("orders.eu", "orders.us")]
    assert sum(group["lag"] + group["released"] for group in groups) == 1
    assert refusal_of(await live.http.get(PUSH))[:2] == (404, "not_found")
    assert (await live.ask("GET /v1/pushes"))["pushes"] == []


async def test_it_is_listed_beside_the_push_of_a_stream_of_that_name(
    live: Live, receiver: Receiver
) -> None:
    await live.create_group("orders.*", "billing")  # a name, too
    single = "/v1/streams/orders.*/groups/billing/push"
    await live.ask(f"PUT {single}", {"url": receiver.url})
    await put(live, receiver)
    listed = (await live.ask("GET /v1/pushes"))["pushes"]
    names = {(push.get("stream"), push.get("match")) for push in listed}
    assert names == {("orders.*", None), ("orders.*", "orders.*")}
    secrets = {
        (await live.ask(f"POST {each}"))["secret"] for each in (act("rotate"), f"{single}/rotate")
    }
    assert len(secrets) == 2
    await live.ask(f"DELETE {single}")
    assert [push["match"] for push in (await live.ask("GET /v1/pushes"))["pushes"]] == ["orders.*"]


async def test_failed_entries_of_all_streams_are_retried_at_once(
    live: Live, receiver: Receiver
) -> None:
    receiver.answers = [FAILED, FAILED, FAILED, OK]
    create = {"start": "0", "policy": {"backoff_ms": [600_000]}}
    await put(live, receiver, create=create)
    for name in "abc":
        await live.append(f"orders.{name}", name)
        await receiver.next()
    await eventually(lambda: live.ask(f"POST {act('retry')}"), lambda answer: answer["entries"])
    for name in "abc":
        await eventually(lambda: live.ask(f"POST {act('retry')}"), lambda answer: answer)
        await until_settled(live, f"orders.{name}", 1)


def settings_of(folder: Path) -> Settings:
    return Settings(data_dir=folder, push_allow=["127.0.0.0/8"])


async def test_it_goes_on_after_a_restart_with_the_same_ids(
    tmp_path: Path, receiver: Receiver
) -> None:
    receiver.answers = [FAILED, OK]
    policy = {"backoff_ms": [1]}
    async with running(settings_of(tmp_path)) as live:
        receiver.may_answer.clear()
        await put(live, receiver, create={"start": "0", "policy": policy})
        await live.append("orders.eu", "1")
        before = await receiver.next()
    receiver.may_answer.set()
    receiver.answers = [OK]
    async with running(settings_of(tmp_path)) as live:
        after = await receiver.next()
        assert after.header("webhook-id") == before.header("webhook-id")
        await until_settled(live, "orders.eu", 1)
        await live.append("orders.later", "2")
        assert await came(receiver, 1) == [("orders.later", "2")]


@pytest.mark.parametrize(
    ("url", "body", "refusal"),
    [
        ("/v1/groups/billing/push", {}, (422, "invalid_request", "/query/match")),
        (
            f"/v1/groups/billing/push?match={'a' * 1025}",
            {},
            (422, "invalid_request", "/query/match"),
        ),
        (PUSH, {"url": "https://10.0.0.1/"}, (422, "invalid_request", "/body/url")),
        (PUSH, {"weights": {"a/b": 1}}, (422, "invalid_request", "/body/weights")),
        (PUSH, {"weights": {"a": 0}}, (422, "invalid_request", "/body/weights/a")),
        (PUSH, {"create": {"start": "x"}}, (400, "invalid_id", "/body/create/start")),
        (
            PUSH,
            {"create": {"policy": {"max_deliveries": 1}}},
            (422, "invalid_request", "/body/create/policy"),
        ),
    ],
)
async def test_bad_requests_name_the_field(
    live: Live, receiver: Receiver, url: str, body: Any, refusal: tuple[int, str, str]
) -> None:
    before = live.position
    answer = await live.http.put(url, json={"url": receiver.url, **body})
    assert refusal_of(answer) == refusal
    assert live.position == before


# Rights


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Secured]:
    async with secured(tmp_path, push_allow=["127.0.0.0/8"]) as gateway:
        yield gateway


ALL = [Verb.PUSH, Verb.MANAGE, Verb.CONSUME]


async def test_it_reads_what_whoever_set_it_might_push(
    gateway: Secured, receiver: Receiver
) -> None:
    live = gateway.live
    grants = [
        Grant(streams=["orders.eu.*"], do=ALL),
        Grant(streams=["orders.us"], do=[Verb.CONSUME, Verb.MANAGE]),
    ]
    key = await gateway.key(*grants)
    async with gateway.client(key) as http:
        answer = await http.put(PUSH, json={"url": receiver.url, **CREATE})
        assert answer.status_code == 201, answer.text
    for name in ("orders.us", "orders.eu.a", "orders.asia"):
        await live.append(name, name)
    assert await came(receiver, 1) == [("orders.eu.a", "orders.eu.a")]
    await gateway.revoke(key)  # the push stays, and reads no more than before
    await live.append("orders.eu.b", "later")
    assert await came(receiver, 1) == [("orders.eu.b", "later")]
    for name in ("orders.us", "orders.asia"):
        assert (await live.group(name, "billing"))["code"] == "group_not_found"


@pytest.mark.parametrize("lacking", sorted(ALL))
async def test_each_of_the_three_rights_is_needed(gateway: Secured, lacking: Verb) -> None:
    verbs = [verb for verb in ALL if verb != lacking]
    async with gateway.client(await gateway.key(Grant(streams=["orders.*"], do=verbs))) as http:
        answer = await http.put(PUSH, json={"url": "https://hooks.example/"})
        assert refusal_of(answer)[:2] == (403, "forbidden")


@pytest.mark.parametrize("match", ["bills.*", "__*"])
async def test_a_push_that_could_read_nothing_is_refused(gateway: Secured, match: str) -> None:
    key = await gateway.key(Grant(streams=["orders.*"], do=ALL))
    async with gateway.client(key) as http:
        url = f"/v1/groups/billing/push?match={match}"
        answer = await http.put(url, json={"url": "https://hooks.example/"})
        assert refusal_of(answer)[:2] == (403, "forbidden")


async def test_whoever_manages_all_that_it_reads_manages_it_and_others_see_none(
    gateway: Secured,
) -> None:
    body = {"url": "https://hooks.example/"}
    await gateway.admin.put(PUSH, json=body)
    wide = await gateway.key(Grant(streams=["ord*"], do=[Verb.MANAGE]))
    narrow = await gateway.key(Grant(streams=["orders.eu*"], do=ALL))
    async with gateway.client(wide) as http:
        assert (await http.get(PUSH)).json()["url"] == body["url"]
        assert len((await http.get("/v1/pushes")).json()["pushes"]) == 1
        assert (await http.post(act("pause"))).status_code == 200
        assert (await http.post(act("resume"))).status_code == 403
    async with gateway.client(narrow) as http:
        for method, url in (("GET", PUSH), ("DELETE", PUSH), ("POST", act("pause"))):
            assert (await http.request(method, url)).status_code == 404
        assert (await http.get("/v1/pushes")).json()["pushes"] == []
        assert (await http.put(PUSH, json=body)).status_code == 403
    async with gateway.client(wide) as http:
        assert (await http.delete(PUSH)).status_code == 204
    async with gateway.client(narrow) as http:
        assert (await http.put(PUSH, json=body)).status_code == 201
        assert (await http.delete(PUSH)).status_code == 204


async def test_the_policy_of_new_groups_writes_only_where_one_may(gateway: Secured) -> None:
    key = await gateway.key(Grant(streams=["orders.*"], do=[*ALL, Verb.READ]))
    policy = {"max_deliveries": 1, "dead_letter_stream": "secret"}
    async with gateway.client(key) as http:
        body = {"url": "https://hooks.example/", "create": {"policy": policy}}
        assert refusal_of(await http.put(PUSH, json=body))[:2] == (403, "forbidden")


async def test_each_act_leaves_a_line(gateway: Secured, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "headgate.audit")
    caplog.clear()
    await gateway.admin.put(PUSH, json={"url": "https://hooks.example/"})
    for name in ("pause", "resume", "retry", "rotate"):
        assert (await gateway.admin.post(act(name))).status_code == 200
    await gateway.admin.delete(PUSH)
    lines = [vars(record) for record in caplog.records if record.message == "act"]
    assert [(line["what"], line["match"], line["group"]) for line in lines] == [
        (f"{name}PatternPush{tail}", "orders.*", "billing")
        for name, tail in (
            *(("set", ""), ("pause", ""), ("resume", ""), ("retry", "")),
            *(("rotate", "Secret"), ("delete", "")),
        )
    ]


async def test_one_principal_leaves_pushes_over_patterns_to_others(
    gateway: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pushes, "PATTERN_PUSHES_MAX", 4)
    grant = Grant(streams=["orders.*"], do=ALL)
    ann, bob = [await gateway.key(grant, name=name) for name in ("ann", "bob")]
    async with gateway.client(ann) as http, gateway.client(bob) as other:
        for client, group, status in (
            (http, "a", 201),
            (http, "b", 201),
            (http, "c", 409),
            (other, "c", 201),
            (gateway.admin, "d", 201),
            (gateway.admin, "e", 409),
            (http, "a", 200),
        ):
            url = PUSH.replace("billing", group)
            answer = await client.put(url, json={"url": "https://hooks.example/"})
            assert answer.status_code == status, answer.text
