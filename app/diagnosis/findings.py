"""Findings: what a diagnosis says, a line for each matter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple


class Severity(StrEnum):
    """Whether a gateway can work with what was found."""

    OK = "ok"
    WARNING = "warning"  # it works, and something may go wrong
    FAULT = "fault"  # it does not work
    UNKNOWN = "unknown"  # the user may not ask


class Finding(NamedTuple):
    """A finding about one matter."""

    about: str
    severity: Severity
    text: str
    follows: str = ""
    servers: tuple[str, ...] = ()  # where it is so; none: everywhere


def merged(findings: Iterable[Finding], servers: Iterable[str]) -> Iterator[Finding]:
    """Yield findings of all servers as one, and the others with their servers.

    Args:
        findings: each of one server.
        servers: all of them.
    """
    everywhere = set(servers)
    places: dict[Finding, list[str]] = {}
    for finding in findings:
        places.setdefault(finding._replace(servers=()), []).extend(finding.servers)
    order = list(dict.fromkeys(finding.about for finding in places))
    for finding, where in sorted(places.items(), key=lambda item: order.index(item[0].about)):
        is_everywhere = everywhere <= set(where)
        yield finding if is_everywhere else finding._replace(servers=tuple(where))
