"""A pusher that ends at any moment leaves nothing behind: no place, no entry, no consumer."""

import asyncio

import pytest
from msgspec.structs import replace

from headgate.app.automation import pusher, pushes
from headgate.app.automation.health import PushLog, PushTally
from headgate.app.automation.pusher import Parts, Pusher
from headgate.app.automation.pushes import PushAnswer, PushDefinition, PushedGroups, PushRecord
from headgate.app.automation.signing import PushSecrets, Signer, new_secret
from headgate.app.automation.webhooks import SENDS_MAX, Sender
from headgate.app.wire.pushes import PushPhase, SignatureKind
from headgate.engine.clock import SystemClock
from headgate.engine.requests.keyspace import UNRESERVED
from tests.api.conftest import Live
from tests.api.push.conftest import GROUP, put, until_settled
from tests.conditions import eventually
from tests.receiver import Receiver

STEPS = 80
ANSWER = PushAnswer(at_ms=1, took_ms=1, webhook_id="msg_1", entry_count=1, status=200)


@pytest.mark.parametrize("groups", [None, PushedGroups(UNRESERVED)], ids=["stream", "pattern"])
async def test_it_gives_everything_back(
    live: Live, receiver: Receiver, groups: PushedGroups | None
) -> None:
    backend, sender = live.gateway.backend, Sender(live.gateway.targets)
    parts = Parts(backend.perform, backend.leases, sender, SystemClock())
    held = PushSecrets(b"orders", b"billing", receiver.url, new_secret())
    push = PushRecord(
        b"orders" if groups is None else b"ord*",
        b"billing",
        PushDefinition(concurrency=64),
        "",
        0,
        groups=groups,
    )
    signer = Signer(SignatureKind.HMAC, held, None)
    phases = list[PushPhase]()
    for step in range(STEPS):
        await live.append("orders", *map(str, range(5)))
        log = PushLog(backend.perform, push, PushTally(), phases.append)
        pushing = asyncio.create_task(Pusher(parts, push, held, signer, log).run(asyncio.Event()))
        for _ in range(step):
            await asyncio.sleep(0)
        pushing.cancel()
        await asyncio.gather(pushing, return_exceptions=True)
    await sender.close()
    assert [sender.places.take("all") for _ in range(SENDS_MAX)].count(True) == (SENDS_MAX // 2)
    assert ((await live.http.get(GROUP)).json()["consumers"], phases) == (0, [])
    pending = (await live.http.get(f"{GROUP}/pending")).json()["pending"]
    assert all(item["consumer"] is None for item in pending)


async def test_a_success_is_written_though_a_user_wants_a_retry_meanwhile(live: Live) -> None:
    perform = live.gateway.backend.perform
    failing = PushRecord(b"orders", b"billing", PushDefinition(), "", 0, failing_since_ms=1)
    await pushes.write(perform, failing, None)
    log = PushLog(perform, failing, PushTally(), lambda phase: None)
    wanted = await pushes.change(
        perform, failing.name, lambda push: replace(push, retry_count=push.retry_count + 1)
    )
    assert wanted is not None
    log.succeed(ANSWER)
    await log.write()
    log.begin_anew(wanted)
    await log.write()
    stored = await pushes.load(perform, failing.name)
    assert stored is not None
    assert (stored.push.retry_count, stored.push.phase) == (1, PushPhase.ACTIVE)


async def test_entries_on_their_way_are_kept_from_other_consumers(
    live: Live, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pusher, "_EXTEND_S", 0.01)
    receiver.may_answer.clear()
    await put(live, receiver)
    await live.append("orders", "1")
    await receiver.next()
    longest_idle_ms = 0

    async def idle_ms() -> int:
        nonlocal longest_idle_ms
        [entry] = (await live.ask(f"GET {GROUP}/pending"))["pending"]
        longest_idle_ms = max(longest_idle_ms, entry["idle_ms"])
        return int(entry["idle_ms"])

    await eventually(idle_ms, lambda idle: idle < longest_idle_ms)  # its clock began anew
    receiver.may_answer.set()
    await until_settled(live, 1)


async def test_entries_that_wait_for_the_window_are_kept_from_other_consumers(
    live: Live, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pusher, "_EXTEND_S", 0.01)
    receiver.may_answer.clear()
    names = [f"orders.{number}" for number in range(3)]
    for name in names:
        await live.append(name, "1")
    push = {"url": receiver.url, "create": {"start": "0"}, "body": "batch", "concurrency": 1}
    await live.ask("PUT /v1/groups/billing/push?match=orders.*", push)
    sent = (await receiver.next()).json["stream"]
    [waiting, _] = [name for name in names if name != sent]
    longest_idle_ms = 0

    async def idle_ms() -> int:
        nonlocal longest_idle_ms
        [entry] = (await live.ask(f"GET /v1/streams/{waiting}/groups/billing/pending"))["pending"]
        longest_idle_ms = max(longest_idle_ms, entry["idle_ms"])
        return int(entry["idle_ms"])

    await eventually(idle_ms, lambda idle: idle < longest_idle_ms)  # its clock began anew
    assert receiver.notices.empty()
    receiver.may_answer.set()
    assert {(await receiver.next()).json["stream"] for _ in range(2)} | {sent} == set(names)
