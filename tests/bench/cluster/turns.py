"""Turns: pieces of work one after the other, each with its rate and the CPU that it took."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.bench.figures import Figure
from tests.bench.servers import cpu_s


class Done(NamedTuple):
    """A piece of work."""

    unit_count: int
    seconds: float
    cpu_s: float = 0.0  # of a process that has ended


class Turns:
    """Measurements, round by round, by name."""

    def __init__(self, server_id: int) -> None:
        """Start without a round.

        Args:
            server_id: the process of the Valkey.
        """
        self._server_id = server_id
        self._rates: defaultdict[str, list[float]] = defaultdict(list)
        self._here_us: defaultdict[str, list[float]] = defaultdict(list)
        self._server_us: defaultdict[str, list[float]] = defaultdict(list)

    def take(self, name: str, process_ids: Sequence[int], work: Callable[[], Done]) -> None:
        """Do a piece of work, and note what it took of these processes and of the Valkey."""
        here_s, server_s = sum(map(cpu_s, process_ids)), cpu_s(self._server_id)
        done = work()
        here_s = sum(map(cpu_s, process_ids)) - here_s + done.cpu_s
        server_s = cpu_s(self._server_id) - server_s
        self._rates[name].append(done.unit_count / done.seconds)
        self._here_us[name].append(here_s / done.unit_count * 1e6)
        self._server_us[name].append(server_s / done.unit_count * 1e6)

    def rate(self, work: str, unit: str, name: str, peer: str, **targets: float) -> list[Figure]:
        """Return a rate beside that of a peer; nothing if the peer was not there."""
        return _figure(work, unit, name, peer, self._rates, targets)

    def cpu(self, work: str, name: str, peer: str) -> list[Figure]:
        """Return the CPU for each unit of work beside that of a peer."""
        return _figure(f"CPU of {work}", "µs", name, peer, self._here_us, {})

    def server_cpu(self, work: str, name: str, peer: str) -> list[Figure]:
        """Return the CPU of the Valkey for each unit of work beside that for a peer."""
        return _figure(f"CPU of the Valkey for {work}", "µs", name, peer, self._server_us, {})


def _figure(
    work: str,
    unit: str,
    name: str,
    peer: str,
    rounds: dict[str, list[float]],
    targets: dict[str, float],
) -> list[Figure]:
    if not rounds[peer]:
        return []
    return [Figure.of_rounds(work, rounds[name], unit, peer, rounds[peer], **targets)]
