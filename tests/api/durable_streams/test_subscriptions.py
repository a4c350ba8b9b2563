"""Workers are woken: by webhooks that are signed and tried again, or by a stream of wakes."""

import asyncio
import base64
import socket
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from headgate.app.automation.webhooks import Sender
from headgate.app.durable_streams.subscriptions import runner, store
from headgate.app.durable_streams.subscriptions.runner import SubscriptionRunner
from headgate.app.settings import Settings
from headgate.engine.clock import SystemClock
from headgate.engine.requests.streams import (
    AttributeChange,
    ChangeAttributes,
    CreateStream,
    DeleteStream,
    DescribeStream,
    ListStreams,
)
from tests.api.conftest import Live
from tests.conditions import WITHIN_S, eventually, moment
from tests.receiver import Notice, Receiver

ROOT = "/v1/stream"
SUBSCRIPTION = f"{ROOT}/__ds/subscriptions/s"
JSON = {"Content-Type": "application/json"}
PULL = {"type": "pull-wake", "pattern": "events/*", "wake_stream": "wakes", "lease_ttl_ms": 1000}


@pytest.fixture
def settings() -> Settings:
    return Settings(heartbeat_ms=200, push_allow=["127.0.0.0/8"])


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    receiver = Receiver(("200 OK", b'{"done": true}'))
    await receiver.open()
    yield receiver
    await receiver.close()


async def subscribe(live: Live, receiver: Receiver, **more: Any) -> Any:
    wanted = {"type": "webhook", "pattern": "events/*", "webhook": {"url": receiver.url}, **more}
    return await live.ask(f"PUT {SUBSCRIPTION}", wanted)


async def append(live: Live, path: str) -> str:
    place = f"{ROOT}/{path}"
    await live.http.put(place, headers=JSON)
    answer = await live.http.post(place, json={"n": "1"})
    offset: str = answer.headers["stream-next-offset"]
    return offset


async def state(live: Live) -> Any:
    return await live.ask(f"GET {SUBSCRIPTION}")


async def until_acked(live: Live, path: str, offset: str) -> None:
    link = path, offset
    await eventually(
        lambda: state(live),
        lambda told: link in [(each["path"], each["acked_offset"]) for each in told["streams"]],
    )


async def test_a_webhook_is_signed_and_tells_what_is_new(live: Live, receiver: Receiver) -> None:
    before = await append(live, "events/old")
    made = await subscribe(live, receiver, pattern="events/**")
    assert made["streams"] == [{"path": "events/old", "link_type": "glob", "acked_offset": before}]
    offset = await append(live, "events/new")
    await append(live, "other/new")
    notice = await receiver.next()
    assert [
        (each["path"], each["has_pending"], each["tail_offset"]) for each in notice.json["streams"]
    ] == [("events/new", True, offset), ("events/old", False, before)]
    parts = dict(each.split("=", 1) for each in notice.header("webhook-signature").split(","))
    jwks = (await live.http.get(made["webhook"]["signing"]["jwks_url"])).json()
    [key] = [key for key in jwks["keys"] if key["kid"] == parts["kid"]]
    public = Ed25519PublicKey.from_public_bytes(unpadded(key["x"]))
    public.verify(unpadded(parts["ed25519"]), f"{parts['t']}.".encode() + notice.body)
    assert abs(int(parts["t"]) - live.gateway.auth.now_ms() / 1000) < 60
    await until_acked(live, "events/new", offset)
    await live.append("events:by:rest", "1")  # whoever appends, a worker is woken
    assert "events/by/rest" in {each["path"] for each in (await receiver.next()).json["streams"]}


def unpadded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


async def test_what_fails_is_tried_again_as_another_wake(live: Live, receiver: Receiver) -> None:
    receiver.answers = [("500 No", b""), ("200 OK", b'{"done": true}')]
    await subscribe(live, receiver)
    offset = await append(live, "events/a")
    first = await receiver.next()
    await eventually(lambda: state(live), lambda told: told["status"] == "failed")
    second = await receiver.next()
    assert first.json["generation"] < second.json["generation"]
    assert first.json["wake_id"] != second.json["wake_id"]
    await until_acked(live, "events/a", offset)
    assert (await state(live))["status"] == "active"
    metrics = (await live.http.get("/metrics")).text
    assert "headgate_subscriptions 1.0\n" in metrics
    for outcome in ("delivered", "failed"):
        assert f'headgate_subscription_wakes_total{{outcome="{outcome}"}} 1.0\n' in metrics


async def test_a_dead_worker_is_fenced_by_another_wake(live: Live, receiver: Receiver) -> None:
    receiver.answers = [("202 Later", b"")]
    await subscribe(live, receiver, lease_ttl_ms=1000)
    offset = await append(live, "events/a")
    first, second = await receiver.next(), await receiver.next()
    assert second.json["generation"] == first.json["generation"] + 1
    late = await call_back(live, first, offset)
    assert (late.status_code, late.json()["error"]["code"]) == (409, "FENCED")
    assert (await call_back(live, second, offset)).json() == {"ok": True, "next_wake": False}


async def call_back(live: Live, notice: Notice, offset: str, **more: Any) -> Any:
    wake = notice.json
    report = {
        "wake_id": wake["wake_id"],
        "generation": wake["generation"],
        "acks": [{"stream": "events/a", "offset": offset}],
        "done": True,
        **more,
    }
    headers = {"Authorization": f"Bearer {wake['callback_token']}"}
    return await live.http.post(wake["callback_url"], json=report, headers=headers)


@pytest.mark.long
async def test_a_heartbeat_keeps_the_lease(live: Live, receiver: Receiver) -> None:
    receiver.answers = [("202 Later", b"")]
    await subscribe(live, receiver, lease_ttl_ms=1000)
    offset = await append(live, "events/a")
    notice = await receiver.next()
    for _ in range(4):
        await asyncio.sleep(0.5)  # half of the lease
        assert (await call_back(live, notice, offset, done=False)).json()["ok"] is True
    assert receiver.notices.empty()
    assert (await state(live))["streams"][0]["acked_offset"] == offset
    beyond = await call_back(live, notice, f"{10**19}_0")
    assert (beyond.status_code, beyond.json()["error"]["code"]) == (409, "INVALID_OFFSET")
    assert (await call_back(live, notice, offset)).json() == {"ok": True, "next_wake": False}


async def test_nothing_of_a_deleted_subscription_goes_on(live: Live, receiver: Receiver) -> None:
    receiver.answers = [("202 Later", b"")]
    await subscribe(live, receiver)
    offset = await append(live, "events/a")
    notice = await receiver.next()
    assert (await live.http.delete(SUBSCRIPTION)).status_code == 204
    assert (await call_back(live, notice, offset)).status_code == 404
    assert (await live.http.get(SUBSCRIPTION)).status_code == 404


async def test_a_target_that_may_not_be_asked_is_refused_and_never_asked(live: Live) -> None:
    for url in ("http://10.0.0.1/", "https://169.254.169.254/", "ftp://x/", "http://[::1]/"):
        wanted = {"type": "webhook", "pattern": "**", "webhook": {"url": url}}
        answer = await live.http.put(SUBSCRIPTION, json=wanted)
        assert answer.status_code == 400
        assert answer.json()["error"]["code"] == "WEBHOOK_URL_REJECTED"
    named = {"type": "webhook", "pattern": "**", "webhook": {"url": "https://localhost:1/"}}
    assert (await live.http.put(SUBSCRIPTION, json=named)).status_code == 201


async def test_a_claim_is_of_one_worker_at_a_time(live: Live) -> None:
    await live.http.put(f"{ROOT}/wakes", headers=JSON)
    await live.http.put(SUBSCRIPTION, json=PULL)
    nothing = await live.http.post(f"{SUBSCRIPTION}/claim", json={"worker": "w"})
    assert nothing.json()["error"]["code"] == "NO_PENDING_WORK"
    await append(live, "events/a")
    answers = await asyncio.gather(
        *(live.http.post(f"{SUBSCRIPTION}/claim", json={"worker": f"w{n}"}) for n in range(8))
    )
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 7
    [claimed] = [answer.json() for answer in answers if answer.status_code == 200]
    busy = next(answer for answer in answers if answer.status_code == 409).json()["error"]
    assert (busy["code"], busy["generation"]) == ("ALREADY_CLAIMED", claimed["generation"])


async def test_each_wake_is_told_in_the_stream_of_wakes(live: Live) -> None:
    await live.http.put(f"{ROOT}/wakes", headers=JSON)
    await live.http.put(SUBSCRIPTION, json={**PULL, "pattern": "**"})
    await append(live, "events/a")
    answer = await live.http.get(f"{ROOT}/wakes", params={"offset": "-1", "live": "long-poll"})
    [wake] = answer.json()
    assert (wake["type"], wake["subscription_id"], wake["stream"]) == ("wake", "s", "events/a")
    assert (await state(live))["wake_stream"] == "wakes"


async def test_what_makes_no_sense_is_refused(live: Live) -> None:
    for wanted in (
        *({}, {"type": "webhook"}, {"type": "other", "pattern": "*"}),
        {"type": "webhook", "pattern": "*"},
        {**PULL, "webhook": {"url": "https://x.example/"}},
        *({**PULL, "pattern": text} for text in ("ev*/a", "", "x" * 300, "a/" * 20 + "*")),
        *({**PULL, "pattern": text} for text in ("**/a/**/b/**", "__ds/*")),
        *({**PULL, "streams": [name]} for name in ("__ds/x", "")),
        {**PULL, "streams": [f"s{n}" for n in range(1001)]},
        {**PULL, "streams": [f"{n}{'s' * 500}" for n in range(300)]},
        *({**PULL, "lease_ttl_ms": number} for number in (10, "1000")),
        {**PULL, "description": "x" * 1001},
    ):
        answer = await live.http.put(SUBSCRIPTION, json=wanted)
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]["code"] == "INVALID_REQUEST", wanted
    assert (await live.http.get(SUBSCRIPTION)).status_code == 404


async def test_an_id_and_a_body_are_bounded(live: Live) -> None:
    for name in ("a b", "x" * 200, ".", "é"):
        answer = await live.http.put(f"{ROOT}/__ds/subscriptions/{name}", json=PULL)
        assert answer.status_code in (400, 404), name
    for body in (b"[" * 2**20, b"{" + b",".join(b'"a":1' for _ in range(6000)) + b"}", b"nope"):
        answer = await live.http.post(f"{SUBSCRIPTION}/ack", content=body)
        assert answer.status_code in (400, 413)
    other = {**PULL, "description": "other"}
    assert (await live.http.put(SUBSCRIPTION, json=PULL)).status_code == 201
    assert (await live.http.put(SUBSCRIPTION, json=other)).status_code == 409


async def claim(live: Live) -> dict[str, Any]:
    async def ask() -> httpx.Response:
        return await live.http.post(f"{SUBSCRIPTION}/claim", json={"worker": "w"})

    claimed: dict[str, Any] = (await eventually(ask, lambda answer: answer.is_success)).json()
    return claimed


async def acknowledge(live: Live, claimed: dict[str, Any]) -> None:
    acks = [
        {"stream": each["path"], "offset": each["tail_offset"]}
        for each in claimed["streams"]
        if each["has_pending"]
    ]
    report = {key: claimed[key] for key in ("wake_id", "generation")}
    headers = {"Authorization": f"Bearer {claimed['token']}"}
    report |= {"acks": acks, "done": True}
    answer = await live.http.post(f"{SUBSCRIPTION}/ack", json=report, headers=headers)
    assert answer.json() == {"ok": True, "next_wake": False}


async def wakes(live: Live) -> Any:
    return await live.ask(f"GET {ROOT}/wakes")


async def until_woken(live: Live, count: int) -> None:
    await eventually(lambda: wakes(live), lambda told: len(told) >= count)


async def test_a_path_that_begins_with_a_slash_is_acknowledged_as_it_was_told(live: Live) -> None:
    await live.http.put(f"{ROOT}/wakes", headers=JSON)
    await live.http.put(SUBSCRIPTION, json={**PULL, "pattern": "**"})
    await append(live, "/odd")
    await append(live, "even")
    claimed = await claim(live)
    assert {"/odd", "even"} <= {each["path"] for each in claimed["streams"]}
    await acknowledge(live, claimed)


async def test_what_a_worker_has_done_outlasts_its_wake(live: Live, receiver: Receiver) -> None:
    for path in ("x", "y"):
        await live.http.put(f"{ROOT}/{path}", headers=JSON)
    answered = asyncio.Event()
    post = Sender.post

    async def late(*args: Any, **more: Any) -> Any:
        answer = await post(*args, **more)
        await answered.wait()
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sender, "post", late)
        wanted = {"type": "webhook", "streams": ["x", "y"], "webhook": {"url": receiver.url}}
        assert (await live.http.put(SUBSCRIPTION, json=wanted)).status_code == 201
        await append(live, "y")
        notice = await receiver.next()
        await live.http.delete(f"{SUBSCRIPTION}/streams/x")
        newer = await append(live, "y")
        acks = [{"stream": "y", "offset": newer}]
        assert (await call_back(live, notice, newer, acks=acks, done=False)).status_code == 200
        answered.set()
        await eventually(lambda: events(live), lambda told: "done" in told)
    left = [(each["path"], each["acked_offset"]) for each in (await state(live))["streams"]]
    assert left == [("y", newer)]
    assert receiver.notices.empty()


async def events(live: Live) -> list[str]:
    entries = (await live.http.get("/v1/streams/__ds:s/entries")).json()["entries"]
    return [entry["fields"]["event"] for entry in entries]


async def test_links_of_streams_that_are_gone_go(live: Live, receiver: Receiver) -> None:
    await subscribe(live, receiver)
    await until_acked(live, "events/a", await append(live, "events/a"))
    await live.http.delete(f"{ROOT}/events/a")
    await until_acked(live, "events/b", await append(live, "events/b"))
    assert [each["path"] for each in (await state(live))["streams"]] == ["events/b"]


async def test_a_wake_that_is_lost_with_its_stream_is_told_again(live: Live) -> None:
    await live.http.put(f"{ROOT}/wakes", headers=JSON)
    await live.http.put(SUBSCRIPTION, json=PULL)
    await append(live, "events/a")
    first = await eventually(lambda: wakes(live), bool)
    await live.http.delete(f"{ROOT}/wakes")
    await live.http.put(f"{ROOT}/wakes", headers=JSON)
    assert (await eventually(lambda: wakes(live), bool))[0]["generation"] == first[0]["generation"]
    await acknowledge(live, await claim(live))


@pytest.mark.long
async def test_two_gateways_tell_a_wake_once(live: Live) -> None:
    async def slowly(request: Any) -> Any:
        await moment()
        return await live.gateway.backend.perform(request)

    sender = Sender(live.gateway.targets)
    second = SubscriptionRunner(slowly, sender, SystemClock(), has_patterns=True)
    await live.http.put(f"{ROOT}/wakes", headers=JSON)
    running = asyncio.create_task(second.run())
    try:
        await live.http.put(SUBSCRIPTION, json={**PULL, "lease_ttl_ms": 60_000})
        await asyncio.sleep(1.2)  # both follow it
        for count in range(1, 6):
            await append(live, "events/a")
            await until_woken(live, count)
            await acknowledge(live, await claim(live))
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    generations = [wake["generation"] for wake in await wakes(live)]
    assert generations == sorted(set(generations))


async def test_beyond_the_bound_of_links_a_subscription_goes_on(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "LINKS_MAX", 3)
    await live.http.put(f"{ROOT}/wakes", headers=JSON)
    await append(live, "events/5")
    await live.http.put(SUBSCRIPTION, json=PULL)
    for number in range(5):
        await append(live, f"events/{number}")
    claimed = await claim(live)
    assert [each["path"] for each in claimed["streams"]] == ["events/0", "events/1", "events/5"]
    await acknowledge(live, claimed)
    await live.http.delete(f"{ROOT}/events/0")
    claimed = await claim(live)
    assert [each["path"] for each in claimed["streams"]] == ["events/1", "events/2", "events/5"]
    await acknowledge(live, claimed)
    more = [f"more/{number}" for number in range(4)]
    for count, status in ((4, 409), (3, 204)):
        answer = await live.http.post(f"{SUBSCRIPTION}/streams", json={"streams": more[:count]})
        assert answer.status_code == status, answer.text
    assert (await live.http.delete(f"{SUBSCRIPTION}/streams/more/0")).status_code == 204


async def test_streams_that_are_no_subscriptions_are_looked_at_once(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "POLL_MS", 1)
    backend, asked, several_rounds = live.gateway.backend, Counter[bytes](), asyncio.Event()

    async def perform(request: Any) -> Any:
        if isinstance(request, DescribeStream | ListStreams):
            asked[getattr(request, "stream", b"all")] += 1
            if asked[b"all"] > 3:
                several_rounds.set()
        return await backend.perform(request)

    for name in (b"__ds:a", b"__ds:b"):
        await backend.perform(CreateStream(name))
    sender = Sender(live.gateway.targets)
    running = asyncio.create_task(
        SubscriptionRunner(perform, sender, SystemClock(), has_patterns=True).run()
    )
    async with asyncio.timeout(WITHIN_S):
        await several_rounds.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await sender.close()
    assert (asked[b"__ds:a"], asked[b"__ds:b"]) == (1, 1)


async def test_a_damaged_subscription_is_told_and_can_be_replaced(live: Live) -> None:
    await live.http.put(SUBSCRIPTION, json=PULL)
    damage = AttributeChange({b"state": b"{"})
    await live.gateway.backend.perform(ChangeAttributes(b"__ds:s", damage))
    refused = (await live.http.get(SUBSCRIPTION)).json()["error"]
    assert refused["code"] == "DAMAGED"
    assert "`__ds:s`" in refused["message"]
    assert (await live.http.delete("/v1/streams/__ds:s")).status_code == 204
    assert (await live.http.put(SUBSCRIPTION, json=PULL)).status_code == 201


async def test_no_more_subscriptions_are_made_than_are_followed(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "SUBSCRIPTIONS_MAX", 2)
    monkeypatch.setattr(runner, "_PAGE", 1)
    for name, status in (("a", 201), ("b", 201), ("c", 409), ("b", 200)):
        answer = await live.http.put(f"{ROOT}/__ds/subscriptions/{name}", json=PULL)
        assert answer.status_code == status, name
        if status == 409:
            assert answer.json()["error"]["code"] == "LIMIT_REACHED"
    await eventually(
        lambda: live.http.get("/metrics"),
        lambda shown: "headgate_subscriptions 2.0\n" in shown.text,
    )


async def test_events_do_not_tell_names_there_are(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_up = socket.getaddrinfo

    def faked(host: Any, *args: Any, **more: Any) -> Any:
        if host == "unknown.test":
            raise socket.gaierror(socket.EAI_NONAME, "not known")
        return look_up("10.0.0.1" if host == "inner.test" else host, *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", faked)
    for host in ("unknown.test", "inner.test"):
        url = f"https://{host}/hook"
        wanted = {"type": "webhook", "pattern": "events/*", "webhook": {"url": url}}
        assert (await live.http.put(SUBSCRIPTION, json=wanted)).status_code == 201
        await append(live, f"events/{host}")
        await eventually(lambda: events(live), lambda told: "not delivered" in told)
        await live.http.delete(SUBSCRIPTION)


async def test_whatever_goes_wrong_with_a_webhook_it_is_tried_again(
    live: Live, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def failing(*_: Any, **__: Any) -> None:
        raise UnicodeError("label too long")

    with monkeypatch.context() as patch:
        patch.setattr(Sender, "post", failing)
        await subscribe(live, receiver)
        offset = await append(live, "events/a")
        await eventually(lambda: state(live), lambda told: told["status"] == "failed")
    await until_acked(live, "events/a", offset)


async def test_a_key_that_is_made_anew_signs_the_next_webhook(
    live: Live, receiver: Receiver
) -> None:
    await subscribe(live, receiver)
    await until_acked(live, "events/a", await append(live, "events/a"))
    await live.gateway.backend.perform(DeleteStream(b"__ds"))
    await append(live, "events/a")
    first, second = await receiver.next(), await receiver.next()
    [key] = (await live.http.get(f"{ROOT}/__ds/jwks.json")).json()["keys"]
    assert key["kid"] in second.header("webhook-signature")
    assert key["kid"] not in first.header("webhook-signature")
