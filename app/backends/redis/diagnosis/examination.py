"""Examination: the diagnosis of all servers of a backend."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from headgate.app.backends.redis.address import Arrangement, Servers
from headgate.app.backends.redis.diagnosis.server import (
    CLOCK_MS_MAX,
    Clock,
    Examined,
    examine_server,
)
from headgate.app.backends.redis.durability import DurabilityLevel
from headgate.app.backends.redis.faults import NotSent
from headgate.app.backends.redis.keys import KeyNames
from headgate.app.backends.redis.topology import SLOT_COUNT, Topology, discover
from headgate.app.diagnosis.findings import Finding, Severity, merged


async def examine(
    servers: Servers,
    names: KeyNames,
    chosen: DurabilityLevel,
    clock: Clock,
    timeout_s: float,
) -> list[Finding]:
    """Ask the servers of a backend what they have; change nothing there.

    Args:
        servers: as the operator names them.
        names: the keys of the gateway.
        chosen: the durability that the gateway is to promise.
        clock: of this machine.
        timeout_s: how long each answer may take, in seconds.
    """
    try:
        topology = await discover(servers, (), timeout_s)
    except NotSent as error:
        return [Finding("servers", Severity.FAULT, str(error), "the gateway cannot begin")]
    outcomes = await asyncio.gather(
        *(
            examine_server(servers, address, names, chosen, clock, timeout_s)
            for address in topology.primaries
        ),
        return_exceptions=True,
    )
    findings: list[Finding] = []
    examined: list[Examined] = []
    for address, outcome in zip(topology.primaries, outcomes, strict=True):
        if isinstance(outcome, Examined):
            examined.append(outcome)
            findings += outcome.findings
        elif isinstance(outcome, NotSent):
            text, follows = f"no answer: {outcome}", "its streams cannot be used"
            findings.append(Finding("server", Severity.FAULT, text, follows, (str(address),)))
        else:
            raise outcome
    primaries = [str(address) for address in topology.primaries]
    return [
        Finding("servers", Severity.OK, f"{servers.arrangement}: {', '.join(primaries)}"),
        *_about_slots(servers, topology),
        *_about_clocks(examined),
        *merged(findings, primaries),
    ]


def _about_slots(servers: Servers, topology: Topology) -> Iterator[Finding]:
    if servers.arrangement is not Arrangement.CLUSTER:
        return
    count = sum(
        last - first + 1
        for first, last in zip(topology.first_slots, topology.last_slots, strict=True)
    )
    text = f"{count:,} of {SLOT_COUNT:,} are served"
    if count == SLOT_COUNT:
        yield Finding("slots", Severity.OK, text)
    else:
        follows = "the streams of the others cannot be used"
        yield Finding("slots", Severity.FAULT, text, follows)


def _about_clocks(examined: Sequence[Examined]) -> Iterator[Finding]:
    ordered = sorted(each.clock_ahead_ms for each in examined)
    apart_ms = ordered[-1] - ordered[0] if ordered else 0
    if apart_ms > CLOCK_MS_MAX:
        text = f"the clocks of the servers are {apart_ms:,} ms apart"
        yield Finding("clocks", Severity.WARNING, text, "use NTP")
