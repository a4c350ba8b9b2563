"""What a gateway with a bucket does only once it may change the streams."""

from __future__ import annotations

from contextlib import suppress

from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.backends.port import Backend
from headgate.app.backends.releasing import remove_stranded
from headgate.engine.errors import Unavailable
from headgate.engine.replies import BucketStatus


def bucket_of(backend: Backend) -> BucketStatus | None:
    """Return the state of the bucket, or None if there is none or it is not known yet."""
    with suppress(Unavailable):
        return None if backend.journal is None else backend.journal.status.bucket
    return None


async def until_leading(backend: Backend) -> None:
    """Wait until this gateway may change the streams: only a standby waits."""
    if isinstance(backend, EmbeddedBackend):
        await backend.until_leading()


async def remove_stranded_then(backend: Backend) -> None:
    """Remove what an earlier life left behind, once that may be changed."""
    await until_leading(backend)
    with suppress(Unavailable):  # then nothing can change, and there is all that was
        await remove_stranded(backend)
