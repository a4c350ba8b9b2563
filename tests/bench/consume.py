"""Consume: read as a consumer of a group and acknowledge each entry, over one connection."""

import json
import re
import socket
import time
from collections.abc import Sequence
from http.client import HTTPConnection

from tests.bench import peers
from tests.bench.figures import Figure
from tests.bench.servers import serving
from tests.bench.sockets import LeanSocket
from tests.model.redis_server import Redis, words

ENTRIES = 200_000
BATCH = 5_000
GROUPS = ("g1", "g2", "g3")
"""One for each round."""
SECONDS = 3.0
COUNT = 100
"""Entries of one XREADGROUP."""

_FIELDS = b'{"temp":"21.37","hum":"64","site":"s123"}'
_DELIVERED = re.compile(rb'"id":"([0-9-]+)","fields"')
_ACKED = b'"outcome":"acked"'
_READ_FLAT = """
local flat = {}
local group, count = ARGV[1], ARGV[2]
local read = redis.call(
    'XREADGROUP', 'GROUP', group, 'c', 'COUNT', count, 'STREAMS', KEYS[1], '>'
)
for _, entry in ipairs(read[1][2]) do
    flat[#flat + 1] = entry[1]
    for _, part in ipairs(entry[2]) do flat[#flat + 1] = part end
end
return flat
"""
"""Webdis does not print lists in lists, as XREADGROUP has them."""

_OVERLAP = 64
"""Bytes in which an id, or its outcome, may come in two parts."""


def measure() -> list[Figure]:
    """Return entries read and acknowledged a second, here and through Webdis in front of Redis."""
    rates: dict[str, list[float]] = {"headgate": [], "webdis": [], "webdis, delayed": []}
    with (
        serving("headgate", fsync="everysec") as port,
        peers.redis() as redis,
        peers.webdis(redis) as webdis_port,
    ):
        prepare(port)
        if redis is not None:
            fill_redis(redis)
        for number, group in enumerate(GROUPS):
            print(f"consume: round {number + 1} of {len(GROUPS)}", flush=True)
            rates["headgate"].append(read_and_acknowledge(port, group))
            if redis is not None and webdis_port is not None:
                rates["webdis"].append(at_webdis(redis, webdis_port, group))
                delayed = at_webdis(redis, webdis_port, f"{group}-delayed", is_delayed=True)
                rates["webdis, delayed"].append(delayed)
    work, here = "read and acknowledge, one WebSocket", rates["headgate"]
    peer = "Webdis, XREADGROUP + XACK"
    of_rounds = Figure.of_rounds
    return [
        of_rounds(
            work, here, "entries/s", f"{peer}, Nagle's delay", rates["webdis, delayed"],
            at_least=60e3, ratio_at_least=25,
        ),
        of_rounds(work, here, "entries/s", f"{peer}, TCP_NODELAY", rates["webdis"]),
    ]  # fmt: skip


def prepare(port: int, entries: int = ENTRIES, groups: Sequence[str] = GROUPS) -> None:
    """Fill the stream, and make a group for each round."""
    control = HTTPConnection("127.0.0.1", port)
    lines = b'{"fields":%s}\n' % _FIELDS * BATCH
    for _ in range(entries // BATCH):
        _ask(control, "POST", "/v1/streams/bench/entries/batch", lines, "application/x-ndjson")
    for group in groups:
        path = f"/v1/streams/bench/groups/{group}"
        _ask(control, "PUT", path, b'{"start":"0"}', "application/json")
    control.close()


def fill_redis(redis: Redis) -> None:
    """Put the same entries into a stream of Redis."""
    command = words("XADD", "bench", "*", "temp", "21.37", "hum", "64", "site", "s123")
    for _ in range(ENTRIES // BATCH):
        redis.send(*[command] * BATCH)
        for _ in range(BATCH):
            redis.reply()


def read_and_acknowledge(
    port: int, group: str, entries: int = ENTRIES, seconds: float = SECONDS
) -> float:
    """Return the rate of a consumer that names every id in its acks, and is answered each."""
    connection = LeanSocket(port, f"/v1/streams/bench/groups/{group}/ws?consumer=c&credit=1000")
    tail = b""
    seen = acked = 0
    last = b""
    started = time.perf_counter()
    while acked < entries and time.perf_counter() < started + seconds:
        data = tail + connection.receive()
        ids, end = [], 0
        for match in _DELIVERED.finditer(data):
            ids.append(match[1])
            end = match.end()
        if ids:
            connection.send(b'{"type":"ack","rid":"1","ids":["%s"]}' % b'","'.join(ids))
        seen += len(ids)
        last = ids[-1] if ids else last
        acked += data.count(_ACKED)
        tail = data[max(end, data.rfind(_ACKED) + len(_ACKED), len(data) - _OVERLAP) :]
    elapsed_s = time.perf_counter() - started
    connection.close()
    assert acked <= seen
    return acked / elapsed_s


def at_webdis(redis: Redis, port: int, group: str, *, is_delayed: bool = False) -> float:
    """Return the rate of a consumer that asks in turn: entries, then XACK of them.

    A client that writes header and body by themselves and leaves Nagle's algorithm on, as Python's
    own does, waits for the server's delayed acknowledgement between the two.
    """
    redis.run(words("XGROUP", "CREATE", "bench", group, "0"))
    script = redis.run(words("SCRIPT", "LOAD", _READ_FLAT))
    control = HTTPConnection("127.0.0.1", port)
    control.connect()
    control.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, not is_delayed)
    read = f"/EVALSHA/{script.decode()}/1/bench/{group}/{COUNT}"
    acked = 0
    started = time.perf_counter()
    while acked < ENTRIES and time.perf_counter() < started + SECONDS:
        ids = json.loads(_ask(control, "GET", read))["EVALSHA"][::7]
        body = "/".join(["XACK", "bench", group, *ids])
        assert json.loads(_ask(control, "POST", "/", body.encode())) == {"XACK": COUNT}
        acked += COUNT
    elapsed_s = time.perf_counter() - started
    control.close()
    return acked / elapsed_s


def _ask(
    control: HTTPConnection, method: str, path: str, body: bytes = b"", media_type: str = ""
) -> bytes:
    control.request(method, path, body or None, {"Content-Type": media_type} if media_type else {})
    answer = control.getresponse()
    assert answer.status < 300, answer.read()
    return answer.read()
