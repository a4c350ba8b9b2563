"""System sockets: the TCP connections of this machine, as Linux lists them (`/proc/net/tcp`)."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class SystemSocket(NamedTuple):
    """One end of a connection over IPv4."""

    local_port: int
    remote_port: int
    inode: int  # 0: no process has it any more


def system_sockets() -> Iterator[SystemSocket]:
    """Yield all of them."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        local_port, remote_port = (int(place.rpartition(":")[2], 16) for place in words[1:3])
        yield SystemSocket(local_port, remote_port, int(words[9]))
