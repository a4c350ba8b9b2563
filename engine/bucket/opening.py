"""Opening: a bucket by its URL."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from headgate.engine.bucket.bucket import Bucket
from headgate.engine.bucket.directory import DirectoryBucket
from headgate.engine.bucket.marker import read_marker
from headgate.engine.bucket.tiers import TieredDisk
from headgate.engine.journal.disk import Disk


def open_bucket(url: str) -> Bucket:
    """Open a bucket.

    Raises:
        ValueError: nothing is known of such a URL.
    """
    parts = urlsplit(url)
    if parts.scheme == "file":
        return DirectoryBucket(Path(unquote(parts.path)))
    raise ValueError(f"no such kind of bucket: {url}")


def tiered(disk: Disk) -> Disk:
    """Return a directory with what of it is in its bucket alone, if it has one.

    Raises:
        Corrupt: its marker makes no sense.
    """
    marker = read_marker(disk)
    return disk if marker is None else TieredDisk(disk, open_bucket(marker.url), marker.by_name)
