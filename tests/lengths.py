"""The length of a stream, for tests that ask nothing else."""

from headgate.engine.engine import Engine
from headgate.engine.errors import StreamNotFound
from headgate.engine.requests.streams import DescribeStream


async def length_of(engine: Engine, stream: bytes) -> int:
    """Return how many live entries a stream has; 0 if there is none."""
    try:
        return (await engine.perform(DescribeStream(stream))).length
    except StreamNotFound:
        return 0
