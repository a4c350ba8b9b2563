"""The client without asyncio: the same classes, with methods that block."""

from headgate.client.blocking.classes import (
    BlockingBatches,
    BlockingConsuming,
    BlockingFollowing,
    BlockingGroup,
    BlockingGroups,
    BlockingJob,
    BlockingStream,
    BlockingWriter,
    Client,
)

__all__ = [
    "BlockingBatches",
    "BlockingConsuming",
    "BlockingFollowing",
    "BlockingGroup",
    "BlockingGroups",
    "BlockingJob",
    "BlockingStream",
    "BlockingWriter",
    "Client",
]
