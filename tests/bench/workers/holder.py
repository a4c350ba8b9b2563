"""Holds many WebSockets that follow one stream, and says when the last of them has an entry.

`python -m tests.bench.workers.holder PORT PATH COUNT MARKER`
"""

import sys
import time

from tests.bench.idle import allow_files
from tests.bench.sockets import LeanSocket, Watch

_WITHIN_S_MAX = 120.0


def main() -> None:
    """Subscribe, say so, and print the monotonic time at which the last socket has the entry."""
    port, path, count, marker = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
    allow_files(count + 100)
    received = 0

    def take(data: bytes) -> None:
        nonlocal received
        received += marker.encode() in data  # a frame comes whole, as it is small

    with Watch() as watch:
        for _ in range(count):
            subscriber = LeanSocket(port, path)
            subscriber.read_until(b'"caught_up"')
            watch.add(subscriber, take)
        print("all are subscribed", flush=True)
        ends_s = time.monotonic() + _WITHIN_S_MAX
        while received < count and time.monotonic() < ends_s:
            watch.take_ready(1)
        assert received == count, f"{received} of {count} sockets have the entry"
        print(time.monotonic(), flush=True)
        while True:
            watch.take_ready(1)


if __name__ == "__main__":
    main()
