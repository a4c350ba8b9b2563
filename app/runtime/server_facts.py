"""Facts about the server that Redis clients ask for: its connections and settings."""

from __future__ import annotations

from typing import NamedTuple


class ConnectionFacts(NamedTuple):
    """The Redis connections of this process; all 0 without a port for them."""

    port: int = 0
    connected_count: int = 0
    accepted_count: int = 0  # since the start
    rejected_count: int = 0  # likewise: there were too many
    input_bytes: int = 0  # likewise
    output_bytes: int = 0  # likewise


class ServerSettings(NamedTuple):
    host: str = ""  # where Redis clients connect
    port: int = 0  # 0: nowhere
    data_dir: str = ""
    has_journal: bool = False
    fsync: str = "no"  # always, everysec or no
    memory_bytes_max: int = 0  # of the streams; 0: no bound
    memory_policy: str = "noeviction"  # what happens when memory is full
    connections_max: int = 0
    idle_s_max: int = 0  # after which a connection is ended; 0: never
    input_bytes_max: int = 0  # that one connection may have sent and that are not run
    output_bytes_max: int = 0  # that one connection may have to take
    argument_bytes_max: int = 512 * 2**20  # of one word of a command
    config_file: str = ""
    has_tls: bool = False
