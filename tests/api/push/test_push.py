"""A group is pushed to a URL; the answers of the receiver decide about its entries."""

import asyncio
import base64
from collections import Counter
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from standardwebhooks import Webhook, WebhookVerificationError

from headgate.app.automation.pushes import CHANGES, PushPlace
from headgate.engine.entry import MAX_ID, Draft, EntryId
from headgate.engine.requests.entries import Add
from headgate.engine.requests.streams import CreateStream
from tests.api.conftest import Live
from tests.api.push.conftest import (
    GROUP,
    OK,
    PUSH,
    described,
    policy,
    put,
    until_settled,
    until_state,
)
from tests.conditions import eventually, moment
from tests.receiver import Notice, Receiver

FAILED = "500 No", b"no room"


def verified(secret: str, notice: Notice) -> Any:
    names = ("webhook-id", "webhook-timestamp", "webhook-signature")
    return Webhook(secret).verify(notice.body, {name: notice.header(name) for name in names})


async def pending(live: Live) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await live.http.get(f"{GROUP}/pending")).json()["pending"]
    return items


async def test_an_entry_is_signed_and_acknowledged(live: Live, receiver: Receiver) -> None:
    made = await put(live, receiver, headers={"Authorization": "Bearer x"})
    [entry_id] = await live.append("orders", "42")
    notice = await receiver.next()
    body = verified(made["secret"], notice)
    assert (body["stream"], body["group"], body["id"]) == ("orders", "billing", entry_id)
    assert (body["fields"], body["deliveries"]) == ({"v": "42"}, 1)
    assert notice.header("authorization") == "Bearer x"
    assert notice.header("content-type") == "application/json"
    assert notice.header("user-agent").endswith("(test)")
    await until_settled(live, 1)
    push = await eventually(lambda: described(live), lambda push: push["delivered_count"])
    [answer] = push["answers"]
    assert (answer["status"], answer["error"], answer["entry_count"]) == (200, None, 1)
    assert answer["webhook_id"] == notice.header("webhook-id")
    assert "secret" not in push
    assert (push["url"], push["header_names"]) == (receiver.url, ["Authorization"])


async def test_what_fails_comes_again_and_is_a_dead_letter(live: Live, receiver: Receiver) -> None:
    receiver.answers = [FAILED]
    await policy(live, backoff_ms=[10], max_deliveries=3, dead_letter_stream="dead")
    await put(live, receiver)
    await live.append("orders", "bad")
    notices = [await receiver.next() for _ in range(3)]
    assert [notice.json["deliveries"] for notice in notices] == [1, 2, 3]
    assert len({notice.header("webhook-id") for notice in notices}) == 1
    assert notices[1].json["last_error"] == "answered 500"
    await until_settled(live, 1)
    [dead] = (await live.http.get("/v1/streams/dead/entries")).json()["entries"]
    assert (dead["fields"]["v"], dead["fields"]["_error"]) == ("bad", "answered 500")
    push = await eventually(lambda: described(live), lambda push: len(push["answers"]) == 3)
    assert [answer["excerpt"] for answer in push["answers"]] == ["no room"] * 3
    await live.http.delete("/v1/streams/dead")


async def test_a_failure_rests_without_a_backoff_too(live: Live, receiver: Receiver) -> None:
    receiver.answers = [FAILED]
    await put(live, receiver)
    await live.append("orders", "1")
    await receiver.next()
    [failed] = await eventually(lambda: pending(live), lambda held: "delay_ms" in held[0])
    assert 500 < failed["delay_ms"] <= 1000


async def test_a_failing_receiver_gets_a_request_a_backoff(live: Live, receiver: Receiver) -> None:
    receiver.answers = [FAILED]
    await policy(live, backoff_ms=[600_000])
    await put(live, receiver, concurrency=50)
    await live.append("orders", *map(str, range(200)))
    for _ in range(5):
        await receiver.next()
    assert (await until_state(live, "failing"))["failure_count"] == 5
    assert receiver.notices.empty()
    receiver.answers = [OK]
    assert (await live.http.post(f"{PUSH}/retry")).json() == {"entries": 5}
    await until_settled(live, 200)
    assert (await until_state(live, "active"))["failing_since_ms"] is None


async def test_failures_alone_disable_a_push_until_resumed(live: Live, receiver: Receiver) -> None:
    receiver.answers = [FAILED]
    await policy(live, backoff_ms=[50])
    await put(live, receiver, disable_after_ms=1000)
    await live.append("orders", "1", "2")
    assert "answered 500" in (await until_state(live, "disabled"))["disabled_reason"]
    receiver.answers = [OK]
    assert (await live.http.post(f"{PUSH}/resume")).json()["state"] == "active"
    await until_settled(live, 2)


async def test_a_group_whose_push_is_paused_lacks_no_consumer(
    live: Live, receiver: Receiver
) -> None:
    await put(live, receiver)
    await live.http.post(f"{PUSH}/pause")
    await live.append("orders", "1")

    group = await live.ask(f"GET {GROUP}")
    assert (group["verdict"], [reason["code"] for reason in group["reasons"]]) == (
        "warning",
        ["push_paused"],
    )


async def test_a_receiver_that_is_gone_disables_it(live: Live, receiver: Receiver) -> None:
    receiver.answers = [("410 Gone", b"")]
    await put(live, receiver)
    await live.append("orders", "1")
    assert "410" in (await until_state(live, "disabled"))["disabled_reason"]
    listed = (await live.ask("GET /v1/streams/orders/groups"))["groups"]
    for group in (await live.ask(f"GET {GROUP}"), *listed):
        assert group["verdict"] == "critical"
        told = {reason["code"]: reason["text"] for reason in group["reasons"]}
        assert "410" in told["push_disabled"]
    receiver.answers = [OK]
    await live.http.post(f"{PUSH}/resume")
    first, second = await receiver.next(), await receiver.next()
    assert first.header("webhook-id") == second.header("webhook-id")
    await until_settled(live, 1)


async def test_nothing_is_sent_before_retry_after(live: Live, receiver: Receiver) -> None:
    receiver.answers = [("429 Slow\r\nRetry-After: 1", b""), OK]
    await put(live, receiver)
    loop = asyncio.get_running_loop()
    await live.append("orders", "1")
    await receiver.next()
    began_s = loop.time()
    await live.append("orders", "2")
    await receiver.next()
    assert loop.time() - began_s > 0.9
    await until_settled(live, 2)


async def test_the_entries_of_a_key_come_in_their_order(live: Live, receiver: Receiver) -> None:
    fails = Counter[str]()

    def respond(notice: Notice) -> tuple[str, bytes]:
        value = notice.json["fields"]["v"]
        fails[value] += 1
        if fails[value] <= int(value) % 3:
            return FAILED
        done.append(notice.json["fields"])
        return OK

    done = list[dict[str, str]]()
    receiver.respond = respond
    await policy(live, key_field="k", backoff_ms=[5])
    await put(live, receiver, concurrency=16)
    entries = [{"fields": {"k": str(number % 4), "v": str(number)}} for number in range(60)]
    await live.http.post("/v1/streams/orders/entries/batch", json=entries)
    await until_settled(live, 60)
    for key in "0123":
        values = [int(each["v"]) for each in done if each["k"] == key]
        assert values == sorted(values)
        assert len(values) == 15


async def test_a_secret_is_rotated_and_both_are_good(live: Live, receiver: Receiver) -> None:
    old = (await put(live, receiver))["secret"]
    rotated = (await live.http.post(f"{PUSH}/rotate", json={"overlap_ms": 600_000})).json()
    assert rotated["previous_secret_until_ms"] > 0
    await live.append("orders", "1")
    notice = await receiver.next()
    assert verified(old, notice) == verified(rotated["secret"], notice)
    last = (await live.http.post(f"{PUSH}/rotate", json={"overlap_ms": 0})).json()["secret"]
    await live.append("orders", "2")
    notice = await receiver.next()
    assert verified(last, notice)["fields"] == {"v": "2"}
    for gone in (old, rotated["secret"]):
        with pytest.raises(WebhookVerificationError):
            verified(gone, notice)


async def test_a_push_may_be_signed_by_the_gateway(live: Live, receiver: Receiver) -> None:
    made = await put(live, receiver, signature="v1a")
    await live.append("orders", "1")
    notice = await receiver.next()
    [jwk] = (await live.http.get("/v1/push/jwks.json")).json()["keys"]
    public = Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(jwk["x"] + "="))
    version, _, signature = notice.header("webhook-signature").partition(",")
    head = f"{notice.header('webhook-id')}.{notice.header('webhook-timestamp')}.".encode()
    public.verify(base64.b64decode(signature), head + notice.body)
    assert version == "v1a"
    assert base64.b64decode(made["public_key"].removeprefix("whpk_")) == public.public_bytes_raw()


async def test_a_batch_has_what_is_there(live: Live, receiver: Receiver) -> None:
    await live.append("orders", *map(str, range(250)))
    await put(live, receiver, body="batch", batch_max=100, concurrency=1)
    batches = [await receiver.next() for _ in range(3)]
    assert [len(batch.json["entries"]) for batch in batches] == [100, 100, 50]
    await until_settled(live, 250)


async def test_a_large_entry_is_sent_in_pieces(live: Live, receiver: Receiver) -> None:
    made = await put(live, receiver)
    await live.append("orders", "x" * 5_000_000)
    assert len(verified(made["secret"], await receiver.next())["fields"]["v"]) == 5_000_000
    await until_settled(live, 1)


async def test_a_push_is_paused_and_goes_on(live: Live, receiver: Receiver) -> None:
    await put(live, receiver)
    assert (await live.http.post(f"{PUSH}/pause")).json()["state"] == "paused"
    await live.until_waiting(0)  # nobody reads any more
    await live.append("orders", "1")
    assert (await pending(live), receiver.notices.empty()) == ([], True)
    await live.http.post(f"{PUSH}/resume")
    await until_settled(live, 1)


async def test_a_push_that_is_set_anew_keeps_its_secret(live: Live, receiver: Receiver) -> None:
    made = await put(live, receiver)
    other = Receiver(OK)
    await other.open()
    changed = await put(live, other, concurrency=3)
    assert (changed["concurrency"], "secret" in changed) == (3, False)
    await live.append("orders", "1")
    assert verified(made["secret"], await other.next())["fields"] == {"v": "1"}
    assert receiver.notices.empty()
    await other.close()


async def test_a_push_whose_key_is_missing_gets_a_new_secret_when_it_is_set_anew(
    live: Live, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = (await put(live, receiver))["secret"]
    monkeypatch.setattr(live.gateway.sealing, "_secret", b"another")
    assert (await described(live))["state"] == "unreadable"
    assert (await put(live, receiver))["secret"] != old
    assert (await described(live))["state"] == "active"
    assert "secret" not in await put(live, receiver)


async def test_a_push_ends_with_itself_and_with_its_group(live: Live, receiver: Receiver) -> None:
    old = (await put(live, receiver))["secret"]
    assert (await live.http.delete(PUSH)).status_code == 204
    assert (await live.http.get(PUSH)).json()["code"] == "not_found"
    await eventually(lambda: live.group("orders", "billing"), lambda group: not group["consumers"])
    await live.append("orders", "1")
    assert (await live.group("orders", "billing"))["lag"] == 1
    new = (await put(live, receiver))["secret"]
    assert new != old
    assert verified(new, await receiver.next())["fields"] == {"v": "1"}
    await live.http.delete(GROUP)
    await eventually(lambda: live.http.get("/v1/pushes"), lambda got: not got.json()["pushes"])


async def test_pushes_are_listed_and_a_stream_that_is_none_hides_no_others(
    live: Live, receiver: Receiver
) -> None:
    await put(live, receiver)
    await live.create_group("orders", "other")
    await live.http.put("/v1/streams/orders/groups/other/push", json={"url": receiver.url})
    for junk in (b"__push:0", b"__push:zzz"):
        await live.gateway.backend.perform(CreateStream(junk))
    shown, cursor, page = list[str](), "", dict[str, Any]()
    for _ in range(4):
        page = (await live.http.get(f"/v1/pushes?limit=1{cursor}")).json()
        shown += [push["group"] for push in page["pushes"]]
        cursor = f"&cursor={page['next_cursor']}"
    assert (sorted(shown), page["next_cursor"]) == (["billing", "other"], None)
    for name in ("__push:0", "__push:zzz"):
        assert (await live.http.delete(f"/v1/streams/{name}")).status_code == 204


async def test_a_push_of_a_stream_that_is_closed_waits_for_nothing(
    live: Live, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(live, receiver)
    await live.append("orders", "1")
    await live.http.post("/v1/streams/orders/close", json={"fields": {"v": "last"}})
    assert [(await receiver.next()).json["fields"]["v"] for _ in range(2)] == ["1", "last"]
    await until_settled(live, 2)
    performed: list[object] = []
    backend = live.gateway.backend
    perform = backend.perform

    async def counted(request: Any) -> Any:
        performed.append(request)
        return await perform(request)

    monkeypatch.setattr(backend, "perform", counted)
    for _ in range(50):
        await moment()
    assert len(performed) < 25  # it does not look again and again


async def test_an_entry_that_is_no_answer_of_a_push_is_not_shown(
    live: Live, receiver: Receiver
) -> None:
    await put(live, receiver)
    for value in (b'{"a":"\xff"}', b"[]", b'{"at_ms":"x"}'):  # no UTF-8, no JSON, no answer
        await add_made_up(live, PushPlace(b"orders", b"billing").name, value)
    assert (await described(live))["answers"] == []


async def add_made_up(
    live: Live, stream: bytes, value: bytes, entry_id: EntryId | None = None
) -> None:
    """Add to a stream of the gateway, as nothing that the gateway does."""
    await live.gateway.backend.perform(Add(stream, [Draft(entry_id, (b"answer", value))]))


async def test_a_push_goes_on_though_its_streams_have_the_greatest_id_of_all(
    live: Live, receiver: Receiver
) -> None:
    await put(live, receiver)
    for stream in (CHANGES, PushPlace(b"orders", b"billing").name):
        await add_made_up(live, stream, b"", MAX_ID)
    assert (await live.http.post(f"{PUSH}/pause")).status_code == 200
    assert (await live.http.post(f"{PUSH}/resume")).status_code == 200
    await live.append("orders", "42")
    await receiver.next()
    await eventually(lambda: described(live), lambda push: push["answers"])
    assert (await live.http.delete(PUSH)).status_code == 204


async def test_no_error_has_the_url_in_it(live: Live, receiver: Receiver) -> None:
    receiver.answers = [("no status", b"")]
    await policy(live, backoff_ms=[10], max_deliveries=2, dead_letter_stream="dead")
    await live.ask(f"PUT {PUSH}", {"url": f"{receiver.url}?k=a-part-that-is-secret"})
    await live.append("orders", "1")
    await until_settled(live, 1)
    push = await eventually(lambda: described(live), lambda push: push["answers"])
    assert push["answers"][0]["error"] == "not sent: the answer is not HTTP"
    assert "a-part-that-is-secret" not in (await live.http.get("/v1/streams/dead/entries")).text
    await live.http.delete("/v1/streams/dead")


async def test_a_retry_sends_nothing_before_its_own_time(live: Live, receiver: Receiver) -> None:
    await put(live, receiver)
    later = {"fields": {"v": "later"}, "delay_ms": 3_600_000}
    assert (await live.http.post("/v1/streams/orders/entries", json=later)).status_code == 201
    await live.append("orders", "now")
    assert (await receiver.next()).json["fields"] == {"v": "now"}
    assert (await live.http.post(f"{PUSH}/retry")).json() == {"entries": 0}
    await live.append("orders", "after")
    assert (await receiver.next()).json["fields"] == {"v": "after"}


async def test_an_entry_that_fails_leaves_others_their_turn(live: Live, receiver: Receiver) -> None:
    def respond(notice: Notice) -> tuple[str, bytes]:
        return ("503 No\r\nRetry-After: 0", b"") if (notice.json["fields"]["v"] == "bad") else OK

    receiver.respond = respond
    await policy(live, backoff_ms=[60_000])
    await put(live, receiver)
    await live.append("orders", "bad", "1", "2", "3")
    values = [(await receiver.next()).json["fields"]["v"] for _ in range(4)]
    assert values == ["bad", "1", "2", "3"]


async def test_a_receiver_that_hangs_delays_no_other(live: Live, receiver: Receiver) -> None:
    hanging = Receiver()
    await hanging.open()
    hanging.may_answer.clear()
    await live.create_group("orders", "slow")
    slow = {"url": hanging.url, "timeout_ms": 60_000, "concurrency": 256}
    await live.http.put("/v1/streams/orders/groups/slow/push", json=slow)
    await put(live, receiver)
    await live.append("orders", *map(str, range(300)))
    await until_settled(live, 300)
    await live.http.delete("/v1/streams/orders/groups/slow")
    await hanging.close()


async def test_a_test_event_touches_no_entry(live: Live, receiver: Receiver) -> None:
    secret = (await put(live, receiver, body="batch", headers={"X-Own": "1"}))["secret"]
    await live.http.post(f"{PUSH}/pause")
    await live.append("orders", "1")
    receiver.answers = [("202 Yes", b"welcome"), ("500 No", b"no room")]
    first, second = [await live.ask(f"POST {PUSH}/test") for _ in range(2)]
    assert (first["status"], first["error"], first["excerpt"]) == (202, None, "welcome")
    assert (second["status"], second["error"]) == (500, "answered 500")
    notice = await receiver.next()
    assert (notice.header("headgate-test"), notice.header("x-own")) == ("true", "1")
    body = verified(secret, notice)
    [entry] = body["entries"]
    assert (body["stream"], entry["id"], entry["fields"]) == ("orders", "0-0", {"test": "true"})
    push, group = await described(live), await live.ask(f"GET {GROUP}")
    assert (push["delivered_count"], push["failed_count"], push["answers"]) == (0, 0, [])
    assert (group["pending"], group["lag"]) == (0, 1)


async def test_one_test_event_of_a_push_is_sent_at_a_time(live: Live, receiver: Receiver) -> None:
    await put(live, receiver, timeout_ms=5_000)
    receiver.may_answer.clear()
    testing = asyncio.create_task(live.http.post(f"{PUSH}/test"))
    await receiver.next()
    refused = await live.http.post(f"{PUSH}/test")
    assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
    receiver.may_answer.set()
    assert (await testing).json()["status"] == 200
    assert (await live.ask(f"POST {PUSH}/test"))["status"] == 200


async def test_a_test_event_tells_why_nobody_answers(live: Live, receiver: Receiver) -> None:
    await put(live, receiver)
    await receiver.close()
    tested = await live.ask(f"POST {PUSH}/test")
    assert (tested["status"], tested["error"]) == (
        None,
        "not sent: the connection to the host failed",
    )


async def attempts(live: Live, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await live.ask(f"GET {PUSH}/attempts{query}"))["attempts"]
    return found


async def test_the_attempts_of_an_entry_are_kept(live: Live, receiver: Receiver) -> None:
    receiver.answers = [FAILED, ("503 No\r\nRetry-After: 0", b""), OK]
    await policy(live, backoff_ms=[10])
    await put(live, receiver, headers={"X-Own": "secret-of-the-receiver"})
    [entry_id] = await live.append("orders", "1")
    await until_settled(live, 1)
    await live.append("orders", "2")
    await until_settled(live, 2)
    await eventually(lambda: attempts(live), lambda found: len(found) == 4)
    last, second, first = await attempts(live, f"?id={entry_id}")
    assert [each["status"] for each in (first, second, last)] == [500, 503, 200]
    assert (first["error"], first["excerpt"]) == ("answered 500", "no room")
    assert (first["stream"], first["ids"]) == ("orders", [entry_id])
    assert first["next_at_ms"] == first["at_ms"] + 10
    assert last["next_at_ms"] is None
    assert first["url"] == receiver.url.removesuffix("/hook")
    assert (first["headers"]["X-Own"], first["headers"]["webhook-signature"]) == ("…", "…")
    assert first["headers"]["webhook-id"] == last["webhook_id"]
    page = await live.ask(f"GET {PUSH}/attempts?limit=3")
    rest = await live.ask(f"GET {PUSH}/attempts?limit=3&cursor={page['next_cursor']}")
    assert page["attempts"] + rest["attempts"] == await attempts(live)
    assert (rest["attempts"], rest["next_cursor"]) == ([first], None)


async def test_the_last_attempt_of_a_dead_letter_names_no_next(
    live: Live, receiver: Receiver
) -> None:
    receiver.answers = [FAILED]
    await policy(live, backoff_ms=[10], max_deliveries=2, dead_letter_stream="dead")
    await put(live, receiver)
    await live.append("orders", "1")
    last, first = await eventually(lambda: attempts(live), lambda found: len(found) == 2)
    assert (first["next_at_ms"] is None, last["next_at_ms"]) == (False, None)
    await live.http.delete("/v1/streams/dead")


async def test_attempts_are_kept_for_so_many_days(live: Live, receiver: Receiver) -> None:
    await put(live, receiver, attempts_days=2)
    log = PushPlace(b"orders", b"billing").name.decode()
    await eventually(
        lambda: live.ask(f"GET /v1/streams/{log}"),
        lambda stream: stream["config"]["max_age_ms"] == 172_800_000,
    )
    await live.append("orders", "1")
    await eventually(lambda: attempts(live), bool)
    assert (await put(live, receiver, attempts_days=0))["attempts_days"] == 0
    await eventually(lambda: attempts(live), lambda found: not found)
    await live.append("orders", "2")
    push = await eventually(lambda: described(live), lambda push: push["delivered_count"] == 2)
    assert push["answers"] == []
