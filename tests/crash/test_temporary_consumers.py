"""A consumer whose name the gateway made for one connection does not outlive the gateway."""

from pathlib import Path

from tests.processes.gateway import Gateway
from tests.processes.raw_socket import RawSocket
from tests.processes.wire import Wire, connected

GROUP = "/v1/streams/jobs/groups/workers"


async def test_what_a_nameless_consumer_held_when_the_gateway_was_killed_goes_to_the_next(
    tmp_path: Path,
) -> None:
    gateway = await Gateway.start(tmp_path)
    control = await Wire.open(gateway.url)
    await control.request("PUT", GROUP, {"start": "0", "create_stream": True})
    entries = [{"fields": {"v": "1"}}, {"fields": {"v": "2"}}]
    await control.request("POST", "/v1/streams/jobs/entries/batch", entries)
    nameless = await RawSocket.open(await connected(gateway.url), f"{GROUP}/ws?credit=1")
    named = await RawSocket.open(
        await connected(gateway.url), f"{GROUP}/ws?credit=1&consumer=temporary-mine"
    )
    [lost] = (await nameless.next("entries"))["entries"]
    [kept] = (await named.next("entries"))["entries"]
    await gateway.kill()
    for each in (nameless, named, control):
        each.close()

    gateway = await Gateway.start(tmp_path)
    control = await Wire.open(gateway.url)
    known = await control.request("GET", f"{GROUP}/consumers")
    got = await control.request("POST", f"{GROUP}/read?consumer=next", {})
    mine = await control.request("GET", f"{GROUP}/pending?consumer=temporary-mine")
    control.close()
    await gateway.stop()

    assert [consumer["name"] for consumer in known["consumers"]] == ["temporary-mine"]
    assert [(entry["id"], entry["deliveries"]) for entry in got["entries"]] == [(lost["id"], 2)]
    assert [entry["id"] for entry in mine["pending"]] == [kept["id"]]
