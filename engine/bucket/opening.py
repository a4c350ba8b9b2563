"""Opening of a bucket by its URL."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from headgate.engine.bucket.bucket import USUAL, Bucket, RequestLimits
from headgate.engine.bucket.directory import DirectoryBucket

_STORES = ("s3", "gs", "az")


def open_bucket(url: str, limits: RequestLimits = USUAL) -> Bucket:
    """Return the bucket of a URL; nothing is asked of it yet.

    URLs: `file:///DIRECTORY`, `s3://NAME/PREFIX`, `gs://NAME/PREFIX`, `az://CONTAINER/PREFIX`.
    Raises ValueError for another one, or if what it needs is not installed.
    """
    parts = check_url(url)
    if parts.scheme == "file":
        return DirectoryBucket(Path(unquote(parts.path)))
    try:
        from headgate.engine.bucket.objects import ObjectBucket  # noqa: PLC0415  in an extra
    except ModuleNotFoundError as error:
        raise ValueError(f"{error.name} is missing; headgate[bucket] brings it") from None
    return ObjectBucket(url, limits)


def check_url(url: str) -> SplitResult:
    """Return the parts of a bucket's URL; ValueError if it is none."""
    parts = urlsplit(url)
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError("should have no credentials: the variables of the store have them")
    is_file = parts.scheme == "file"
    if is_file and (parts.netloc or not parts.path.startswith("/")):
        raise ValueError("should be file:///DIRECTORY, from the root")
    if not is_file and parts.scheme not in _STORES:
        raise ValueError("should begin with s3://, gs://, az:// or file:///")
    if not is_file and not parts.netloc:
        raise ValueError(f"should be {parts.scheme}://NAME/PREFIX")
    return parts
