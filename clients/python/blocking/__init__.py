"""The client without asyncio: the same classes, whose methods wait."""

from headgate.client.blocking.classes import (
    BlockingConsuming,
    BlockingFollowing,
    BlockingGroup,
    BlockingJob,
    BlockingStream,
    Client,
)

__all__ = [
    "BlockingConsuming",
    "BlockingFollowing",
    "BlockingGroup",
    "BlockingJob",
    "BlockingStream",
    "Client",
]
