"""An empty redis-server for each test, of the one that runs for all of them."""

from collections.abc import Iterator

import pytest

from deploy.local_cluster.server import Server
from tests.model.redis_server import Redis, words

NODES = words("CONFIG", "SET", "stream-node-max-entries")


@pytest.fixture
def redis(redis_7: Server) -> Iterator[Redis]:
    """Yield a connection; nodes have the 100 entries that they have by default."""
    redis = Redis(redis_7.port)
    redis.run(words("FLUSHALL"))
    redis.run(words("CONFIG", "SET", "slowlog-log-slower-than", "-1"))  # or a busy machine fills it
    redis.run(words("SLOWLOG", "RESET"))
    yield redis
    redis.run(words("FLUSHALL"))
    redis.run([*NODES, b"100"])
    redis.close()
