"""Opening: a bucket by its URL."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from headgate.engine.bucket.bucket import Bucket
from headgate.engine.bucket.directory import DirectoryBucket


def open_bucket(url: str) -> Bucket:
    """Open a bucket.

    Raises:
        ValueError: nothing is known of such a URL.
    """
    parts = urlsplit(url)
    if parts.scheme == "file":
        return DirectoryBucket(Path(unquote(parts.path)))
    raise ValueError(f"no such kind of bucket: {url}")
