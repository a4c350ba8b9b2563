"""The same random globs through our matcher and through a real redis-server."""

import random

from headgate.engine.patterns import matcher
from tests.model.redis_server import Redis, words

PATTERNS = 4000
NAMES = 400
ALPHABET = "abc*?[]^-\\\n"
"""Without bytes above 127: ends of ranges are compared as signed ones by some servers."""


def test_globs_fit_as_in_redis(redis: Redis) -> None:
    pick = random.Random(7)

    def text(alphabet: str, length: int) -> bytes:
        return "".join(pick.choices(alphabet, k=pick.randint(0, length))).encode("latin-1")

    names = {text("abc]^-\\*?[\n\xff", 6) for _ in range(NAMES)}
    redis.run(words("MSET", *(part for name in names for part in (name, b""))))
    for _ in range(PATTERNS):
        pattern = text(ALPHABET, 10)
        matches = matcher(pattern)
        ours = {name for name in names if matches(name)}
        assert ours == set(redis.run(words("KEYS", pattern))), pattern
