"""`headgate doctor` alone: what is wrong with a gateway that runs."""

import json
from pathlib import Path
from typing import Any

from headgate.app.auth.grants import Grant, Verb
from headgate.engine.requests.schedules import SetSchedule
from headgate.engine.schedules import Definition
from tests.api.auth.secured import secured
from tests.api.commands.command_line import Ended, headgate
from tests.api.conftest import Live

NOWHERE = "http://127.0.0.1:1"


def findings(ended: Ended) -> dict[str, dict[str, Any]]:
    return {finding["about"]: finding for finding in map(json.loads, ended.lines)}


async def test_the_gateway_of_the_variable_is_examined(live: Live) -> None:
    ended = await headgate(live.url, "doctor", "--json")

    assert (ended.code, ended.error) == (0, "")
    about = findings(ended)
    assert about["gateway"]["text"] == f"{live.url} is ready"
    assert about["durability"]["severity"] == "warning"  # it keeps nothing
    assert about["time of a request"]["text"].endswith(" ms")
    for name in ("gateway", "token", "pushes", "schedules"):
        assert about[name]["severity"] == "ok", about[name]
    by_flag = await headgate(NOWHERE, "doctor", "--url", live.url, HEADGATE_BUCKET="file:///none")
    assert by_flag.lines[0] == f"gateway\tok\t{live.url} is ready\t"


async def test_a_gateway_that_is_not_there_is_a_fault() -> None:
    ended = await headgate(NOWHERE, "doctor")

    assert (ended.code, ended.error) == (1, "")
    assert ended.output.startswith(f"gateway\tfault\tno gateway at {NOWHERE}: ")
    assert "Start a gateway with `headgate serve`" in ended.output


async def test_a_token_that_is_missing_is_a_fault_and_a_right_that_is_missing_is_not(
    tmp_path: Path,
) -> None:
    async with secured(tmp_path) as gateway:
        reader = await gateway.key(Grant(streams=["*"], do=[Verb.READ]))
        without = await headgate(gateway.live.url, "doctor", "--json")
        reading = await headgate(gateway.live.url, "doctor", "--json", HEADGATE_TOKEN=reader)

    assert (without.code, findings(without)["token"]["severity"]) == (1, "fault")
    assert "set HEADGATE_TOKEN or --token-file" in findings(without)["token"]["text"]
    assert (reading.code, findings(reading)["token"]["severity"]) == (0, "ok")
    assert findings(reading)["pushes"]["severity"] == "unknown"
    assert reader not in reading.output


async def test_a_schedule_that_fails_is_a_warning(live: Live) -> None:
    await live.http.put("/v1/streams/jobs")
    await live.http.post("/v1/streams/jobs/close")
    definition = Definition(b"jobs", (b"a", b"1"), "0 0 1 * *", "UTC")
    await live.gateway.backend.perform(SetSchedule(b"monthly", definition, 60_000, 0))
    described: dict[str, Any] = {"problem": None}
    while described["problem"] is None:
        described = await live.ask("GET /v1/schedules/monthly")

    ended = await headgate(live.url, "doctor", "--json")

    schedules = findings(ended)["schedules"]
    assert (ended.code, schedules["severity"]) == (0, "warning")
    assert schedules["text"].startswith("1 of 1 fail: monthly: ")
    assert schedules["follows"] == "see `headgate schedule list`"
