"""The nodes of a cluster as one of them sees them: the lines of CLUSTER NODES."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

SLOT_COUNT = 16384
_FAILING = {"fail", "fail?", "handshake", "noaddr"}


@dataclass(frozen=True)
class Node:
    id: str
    port: int
    flags: frozenset[str]
    primary_id: str | None  # of a replica
    is_linked: bool
    slots: tuple[range, ...]  # of a primary; slots on the move are with their owner

    @property
    def is_primary(self) -> bool:
        return "master" in self.flags

    @property
    def is_well(self) -> bool:
        """Tell whether the observing node reaches it."""
        return self.is_linked and not self.flags & _FAILING

    def owns(self, slot: int) -> bool:
        return any(slot in served for served in self.slots)


def nodes_of(lines: str) -> list[Node]:
    return [_node(line) for line in lines.splitlines()]


def _node(line: str) -> Node:
    node_id, address, flags, primary_id, _, _, _, link, *slots = line.split()
    port = address.partition(",")[0].partition("@")[0].rpartition(":")[2]
    return Node(
        id=node_id,
        port=int(port),
        flags=frozenset(flags.split(",")),
        primary_id=None if primary_id == "-" else primary_id,
        is_linked=link == "connected",
        slots=tuple(_ranges(slots)),
    )


def _ranges(words: list[str]) -> Iterator[range]:
    for word in words:
        if not word.startswith("["):  # [93-<-id]: a slot on the move
            first, _, last = word.partition("-")
            yield range(int(first), int(last or first) + 1)
