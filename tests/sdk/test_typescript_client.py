"""`@headgate/client` in Node, against a gateway of its own."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from headgate.app.settings import Settings
from tests.api.conftest import Live, running
from tests.conditions import WITHIN_S
from tests.receiver import Receiver
from tests.sdk.program import running_program
from tests.sdk.restartable import Restartable
from tests.sdk.typescript import README, program_folder, snippets
from tests.sdk.workshop import output_of, tool


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Restartable]:
    gateway = Restartable(tmp_path / "data")
    await gateway.start()
    yield gateway
    with suppress(AssertionError):
        await gateway.stop()


@pytest.fixture
async def live() -> AsyncIterator[Live]:
    async with running(Settings(push_allow=["127.0.0.0/8"])) as gateway:
        yield gateway


@pytest.fixture
def javascript(tmp_path: Path) -> Path:
    return program_folder(tmp_path / "javascript")


async def test_values_pass_and_refusals_are_told_apart(live: Live, javascript: Path) -> None:
    receiver = Receiver(("200 OK", b""))
    await receiver.open()
    words = (tool("node"), "requests.mjs", live.url, receiver.url)
    answers = json.loads(await output_of(*words, folder=javascript))
    await receiver.close()
    first = {"sku": "42", "count": "7", "blob": "AP8H", "snake_case": "stays"}
    entry_id = answers["entry"]["id"]
    gone = {"is": "Problem", "code": "not_found", "status": 404, "isProblem": [True, False, False]}

    assert answers == {
        "entry": {"id": entry_id, "fields": first, "base64": ["blob"]},
        "times": [2**50, True],
        "bytes": "42",
        "filtered": [{"id": entry_id, "fields": {"sku": "42"}}],
        "errors": [None, "x" * 1000],
        "filters": [{"not": {"present": "orderId"}}],
        "groups": ["g"],
        "length": 2,
        "streams": ["a-b ü"],
        "missing": {
            "is": "Problem",
            "code": "stream_not_found",
            "status": 404,
            "isProblem": [True, True, False],
        },
        "unreached": {"is": "Disconnected", "isProblem": [False, False, False]},
        "exposed": [True, True],
        "sent": ["https://gateway.example", "http://[::1]:1", "http://127.0.0.1:1"],
        "kinds": ["Problem", "Disconnected"],
        "schedule": {"paused": True, "nextDueMs": None, "missed": "skip"},
        "resumed": True,
        "ran": True,
        "schedules": [{"name": "nightly", "fields": {"n": "1"}}],
        "gone": gone,
        "push": ["whsec_", 5000, ["X-A"], "paused", "active"],
        "rotated": True,
        "retried": 0,
        "pushes": [{"stream": "a-b ü", "group": "g", "url": receiver.url}],
        "pushGone": gone,
    }


async def test_a_stream_is_followed_with_a_filter_over_both_transports(
    live: Live, javascript: Path
) -> None:
    kinds = ["gift", "sale", "gift", "sale", "sale", "gift"]
    batch = [{"fields": {"the_kind": kind}} for kind in kinds]
    answer = await live.http.post("/v1/streams/orders/entries/batch", json=batch)
    ids = answer.json()["ids"]
    output = await output_of(tool("node"), "filtered.mjs", live.url, folder=javascript)
    wanted = [ids[1], ids[3], ids[4]]
    assert json.loads(output) == {"socket": wanted, "events": wanted}


async def test_all_streams_that_match_are_followed(live: Live, javascript: Path) -> None:
    await live.append("orders.a", "1", "2")
    await live.append("bills", "x")
    await live.append("orders.b", "3")
    output = await output_of(tool("node"), "patterns.mjs", live.url, folder=javascript)
    wanted = ["orders.a 1", "orders.a 2", "orders.b 3"]
    assert json.loads(output) == {"socket": wanted, "events": wanted}


async def test_one_group_of_all_streams_that_match_is_worked_off(
    live: Live, javascript: Path
) -> None:
    await live.append("orders.a", "1", "2")
    await live.append("orders.b", "3")
    came = json.loads(await output_of(tool("node"), "groups.mjs", live.url, folder=javascript))
    wanted = ["orders.a 1 1", "orders.a 2 1", "orders.a 2 2", "orders.b 3 1"]
    assert sorted(came["socket"]) == sorted(came["events"]) == wanted
    assert came["requests"] == [3, "extended", "released", "acked"]
    assert came["push"] == ["whsec_", "orders.*", {"orders.A": 2}, "$", "paused", 0]
    assert came["pushes"] == [["orders.*", "orders.*", "pushed"]]
    for group in ("socket", "events"):
        info = await live.group("orders.a", group)
        assert (info["pending"], info["policy"]) == (0, {"max_pending": 9})


async def test_a_request_that_is_not_answered_is_given_up_and_its_connection_closed(
    javascript: Path,
) -> None:
    quiet = {"NODE_NO_WARNINGS": "1"}  # its clock to be set by hand is new
    output = await output_of(tool("node"), "late.mjs", folder=javascript, variables=quiet)
    assert output.splitlines() == ["Disconnected", "closed"]


async def test_an_append_waits_for_the_gateway_all_the_time_it_may(javascript: Path) -> None:
    """Whatever the pauses between the attempts are: each append has others."""
    quiet = {"NODE_NO_WARNINGS": "1"}

    async def outcomes(away_s: int) -> list[dict[str, object]]:
        words = ("outage.mjs", str(away_s), "40")
        output = await output_of(tool("node"), *words, folder=javascript, variables=quiet)
        told: list[dict[str, object]] = json.loads(output)
        return told

    assert await outcomes(away_s=30) == 40 * [{"id": "1-0", "keys": 1}]
    assert await outcomes(away_s=31) == 40 * [{"name": "Disconnected", "afterS": 30}]


@pytest.mark.parametrize("transport", ["socket", "refused"])
async def test_nothing_is_missed_and_nothing_done_twice_when_the_gateway_starts_again(
    gateway: Restartable, javascript: Path, transport: str
) -> None:
    """Over a WebSocket, and where none passes."""
    ids = await gateway.append(5)
    async with httpx.AsyncClient(base_url=gateway.url) as client:
        await client.put("/v1/streams/talk/groups/readers", json={"start": "0"})
        [fails] = (
            await client.post("/v1/streams/talk/entries/batch", json=[{"fields": {"fails": "1"}}])
        ).json()["ids"]
    ids.append(fails)

    script = ("live.mjs", gateway.url, transport)
    async with running_program(tool("node"), *script, folder=javascript) as program:
        await program.until(lambda: len(program.all("worked")) == len(ids) + 1)
        await program.until(lambda: bool(program.all("ended")))
        await gateway.stop()
        await program.until(lambda: "lost" in program.all("state"))
        await program.write_line("while it is away")
        await gateway.start()
        await program.until(lambda: bool(program.all("appended")))
        ids += program.all("appended")
        ids += await gateway.append(5)
        await program.until(lambda: len(set(program.all("worked"))) == len(ids))
        await program.until(lambda: len(program.all("tailed")) == len(ids))
        await program.end()
        async with httpx.AsyncClient(base_url=gateway.url) as client:
            group = (await client.get("/v1/streams/talk/groups/readers")).json()

    assert program.all("tailed") == ids
    assert sorted(program.all("worked")) == sorted([*ids, fails]), "the one that failed twice"
    assert program.all("failed") == [fails]
    assert program.all("because") == ["Error: in vain"]
    assert program.all("ended") == ["group_not_found"]
    assert set(program.all("over")) == {"tail", "work"}
    assert (group["pending"], group["lag"]) == (0, 0)
    assert {"state": "closed"} in program.lines


async def test_the_worker_of_the_readme_is_short_and_drains(live: Live, javascript: Path) -> None:
    worker, *_ = snippets(README, "ts")
    assert len(worker.splitlines()) <= 12
    (javascript / "worker.mjs").write_text(worker.replace("http://localhost:8080", live.url))
    process = await asyncio.create_subprocess_exec(
        tool("node"), "worker.mjs", cwd=javascript, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(WITHIN_S):
            while not (await live.http.get("/v1/streams/orders/groups/billing")).is_success:
                await asyncio.sleep(0.02)
            await live.http.post("/v1/streams/orders/entries", json={"fields": {"sku": "42"}})
            assert await process.stdout.readline() == b"42\n"
            process.terminate()
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
    group = (await live.http.get("/v1/streams/orders/groups/billing")).json()
    assert (group["pending"], group["released"], group["lag"]) == (0, 0, 0)


async def test_the_streams_of_the_readme_run_as_they_stand(live: Live, javascript: Path) -> None:
    """They follow without a WebSocket, as Node has none."""
    _, streams, *_ = snippets(README, "ts")
    (javascript / "streams.mjs").write_text(streams.replace("http://localhost:8080", live.url))
    lines = (await output_of(tool("node"), "streams.mjs", folder=javascript)).splitlines()
    assert [line.partition(" ")[2] for line in lines] == [
        "{ sku: '43' }",
        "{ sku: '44' }",
        "entries",
    ]


async def test_a_job_in_hand_is_kept_and_done_once_and_its_loss_is_known(
    gateway: Restartable, javascript: Path
) -> None:
    """It takes longer than others wait before they claim, and than the gateway lives."""
    place = "/v1/streams/talk/groups/readers"
    policy, rival = {"claim_idle_ms": 1500}, {"consumer": "rival"}
    async with httpx.AsyncClient(base_url=gateway.url, timeout=30) as client:
        await client.put(place, json={"start": "0", "create_stream": True, "policy": policy})
        script = ("jobs.mjs", gateway.url)
        async with running_program(tool("node"), *script, folder=javascript) as program:
            kept = await gateway.append(1)
            await program.until(lambda: program.all("begun") == kept)
            answer = await client.post(f"{place}/read", params=rival, json={"wait_ms": 2000})
            assert answer.json()["entries"] == []

            await gateway.stop()
            await program.until(lambda: "lost" in program.all("state"))
            await gateway.start()
            await program.until(lambda: program.all("state").count("open") == 2)
            await program.until(lambda: program.all("group").count("caught_up") == 2)
            await program.write_line("done")
            await program.until(lambda: program.all("finished") == kept)

            lost = await gateway.append(1)
            await program.until(lambda: program.all("begun") == [*kept, *lost])
            claim = {"ids": lost, "min_idle_ms": 0}
            await client.post(f"{place}/claim", params=rival, json=claim)
            await program.until(lambda: program.all("aborted") == lost)
            await program.write_line("done")
            await program.until(lambda: program.all("finished") == [*kept, *lost])
            await program.end()
        pending = (await client.get(f"{place}/pending")).json()["pending"]

    assert program.all("claimed") == [lost]
    assert program.all("by") == ["rival"]
    assert [(entry["id"], entry["consumer"]) for entry in pending] == [(lost[0], "rival")]


@pytest.mark.parametrize(("end", "code"), [("closed", 0), ("failed", 1)])
@pytest.mark.parametrize(
    "opening",
    [
        *("follow", "wait", "subscribe", "consume", "work", "streams"),
        *("events follow", "events consume"),
    ],
)
async def test_a_program_ends_when_its_client_is_closed_or_it_fails(
    opening: str, end: str, code: int, live: Live, javascript: Path
) -> None:
    await live.append("s", "0", "1")
    await live.append("t", "0")
    await live.create_group("s", "g")
    process = await asyncio.create_subprocess_exec(
        *(tool("node"), "ends.mjs", live.url, opening, end),
        cwd=javascript,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(WITHIN_S):
            _, stderr = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == code, stderr
    assert (b"Error: no space" in stderr) == (end == "failed")


@pytest.mark.parametrize("transport", ["socket", "events"])
async def test_loops_end_with_a_closed_stream(live: Live, javascript: Path, transport: str) -> None:
    ids = await live.append("talk", "1", "2")
    await live.create_group("talk", "readers")
    words = (tool("node"), "closing.mjs", live.url, transport)
    answers = json.loads(await output_of(*words, folder=javascript))
    ids += answers["end"]["ids"]
    assert answers["again"] == answers["end"]
    for way in ("followed", "called", "worked"):
        assert answers[way] == ids, way
    assert answers["states"][-1] == "closed"
    assert answers["code"] == "stream_closed"
    assert answers["closedAtMs"] == answers["end"]["closedAtMs"]
