"""INFO and CONFIG RESETSTAT: what clients, test suites and dashboards look at."""

import asyncio
from typing import Any

from tests.api.conftest import Live

URL = "/v1/commands"


async def run(live: Live, *words: Any) -> Any:
    return (await live.http.post(URL, json=list(words))).json().get("result")


async def info(live: Live, *sections: str) -> dict[str, str]:
    text: str = await run(live, "INFO", *sections)
    assert "\n" not in text.replace("\r\n", "")
    lines = [line for line in text.split("\r\n") if line and not line.startswith("#")]
    return dict(line.split(":", 1) for line in lines)


async def sections(live: Live, *asked: str) -> list[str]:
    text: str = await run(live, "INFO", *asked)
    return [line[2:] for line in text.split("\r\n") if line.startswith("# ")]


async def test_info_says_whose_commands_these_are(live: Live) -> None:
    fields = await info(live)

    assert fields["redis_version"].startswith("8.10.")
    assert (fields["redis_mode"], fields["role"]) == ("standalone", "master")
    assert int(fields["process_id"]) > 0


async def test_sections_are_told_as_asked(live: Live) -> None:
    await run(live, "XADD", "s", "*", "a", "b")

    everything = await sections(live, "everything")
    assert await sections(live, "ALL") == everything
    assert set(everything) - set(await sections(live)) == {"Commandstats"}
    assert await sections(live, "KEYSPACE", "clients", "nothing") == ["Clients", "Keyspace"]
    assert await run(live, "INFO", "nothing") == ""


async def test_keys_are_counted_with_those_that_will_go(live: Live) -> None:
    assert "db0" not in await info(live, "keyspace")
    for name in ("a", "b"):
        await run(live, "XADD", name, "*", "f", "v")
    await run(live, "EXPIRE", "a", 100)

    keys, expires, ttl = (await info(live, "keyspace"))["db0"].split(",")

    assert (keys, expires) == ("keys=2", "expires=1")
    assert 90_000 < int(ttl.removeprefix("avg_ttl=")) <= 100_000


async def test_calls_and_errors_are_counted_as_redis_does(live: Live) -> None:
    await run(live, "CONFIG", "RESETSTAT")
    await run(live, "XADD", "s", "1-1", "a", "b")
    await run(live, "XADD", "s", "0", "a", "b")  # runs and fails
    await run(live, "XADD", "s")  # never runs
    await run(live, "NOPE")
    await run(live, "XGROUP", "CREATE", "s", "g", "0")
    await run(live, "XGROUP", "CREATE", "s", "g", "0")
    await run(live, "XREADGROUP", "GROUP", "x", "c", "STREAMS", "s", ">")

    fields = await info(live, "commandstats", "errorstats", "stats")

    def counts(name: str) -> dict[str, str]:
        return dict(pair.split("=") for pair in fields[f"cmdstat_{name}"].split(","))

    xadd, create = counts("xadd"), counts("xgroup|create")
    assert (xadd["calls"], xadd["rejected_calls"], xadd["failed_calls"]) == ("2", "1", "1")
    assert (create["calls"], create["rejected_calls"], create["failed_calls"]) == ("2", "0", "1")
    assert float(xadd["usec_per_call"]) * 2 == int(xadd["usec"]) > 0
    assert fields["errorstat_ERR"] == "count=3"
    assert fields["errorstat_BUSYGROUP"] == fields["errorstat_NOGROUP"] == "count=1"
    assert fields["total_error_replies"] == "5"
    assert "cmdstat_nope" not in fields

    assert await run(live, "CONFIG", "RESETSTAT") == "OK"
    assert "cmdstat_xadd" not in await info(live, "commandstats")


async def test_a_transaction_counts_each_of_its_commands(live: Live) -> None:
    commands = [["XADD", "s", "1-1", "a", "b"], ["XADD", "s", "bad", "a", "b"], ["XLEN", "s"]]

    answer = await live.http.post(f"{URL}/multi-exec", json=commands)

    assert [result.get("result") for result in answer.json()] == ["1-1", None, 1]
    fields = await info(live, "commandstats")
    assert fields["cmdstat_xadd"].startswith("calls=2,")
    assert fields["cmdstat_xadd"].endswith("failed_calls=1")


async def test_who_is_blocked_is_told_with_on_how_many_keys(live: Live) -> None:
    await run(live, "XGROUP", "CREATE", "a", "g", "$", "MKSTREAM")
    waiting = [
        asyncio.create_task(run(live, "XREAD", "BLOCK", 0, "STREAMS", "a", "b", "$", "$")),
        asyncio.create_task(
            run(live, "XREADGROUP", "GROUP", "g", "c", "BLOCK", 0, "STREAMS", "a", ">")
        ),
    ]
    await live.until_waiting(2)

    fields = await info(live, "clients")
    await run(live, "DEL", "a")
    await run(live, "XADD", "b", "*", "f", "v")
    await asyncio.gather(*waiting)

    assert fields["blocked_clients"] == "2"
    assert fields["total_blocking_keys"] == "2"
    assert fields["total_blocking_keys_on_nokey"] == "1"
    after = await info(live, "clients", "commandstats", "errorstats")
    assert after["blocked_clients"] == after["total_blocking_keys"] == "0"
    assert after["errorstat_NOGROUP"] == "count=1"
    assert after["cmdstat_xreadgroup"].endswith("failed_calls=1")
