"""Location: where a lake is, a directory or a bucket, and why it cannot be used."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

BUCKETS: Final = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "gcs": "gs",
    "az": "az",
    "azure": "az",
    "abfs": "abfs",
    "abfss": "abfss",
}
"""Schemes of buckets, and how `deltalake` spells them."""

_ARROW: Final = "\u21b3"  # stands before each cause in the errors of `deltalake`
_COLOR: Final = re.compile(r"\x1b\[[0-9;]*m")
_XML: Final = re.compile(r"<Code>([^<]*)</Code>(?:\s*<Message>([^<]*)</Message>)?")


class LocationError(ValueError):
    pass


def location_of(path: str | os.PathLike[str]) -> str:
    """Return an absolute path, or a bucket URL; raises LocationError for another URL."""
    text = os.fspath(path)
    scheme, mark, place = text.partition("://")
    if not mark:
        if scheme.partition(":")[0].lower() in BUCKETS and not Path(text).exists():
            raise LocationError(
                f"{text} is no path of a bucket: write {scheme.partition(':')[0]}://…"
            )
        return str(Path(text).resolve())
    if scheme.lower() == "file":
        return str(Path(unquote(urlsplit(text).path)).resolve())
    if scheme.lower() not in BUCKETS or not place.strip("/"):
        schemes = ", ".join(f"{name}://" for name in ("s3", "gs", "az", "abfss"))
        raise LocationError(f"{text} is no place for a lake: a directory, or a bucket ({schemes})")
    return f"{BUCKETS[scheme.lower()]}://{place.rstrip('/')}"


def is_bucket(location: str) -> bool:
    return "://" in location


def cause_of(text: str) -> str | None:
    """Return the last cause in an object store's error, in one line; None for other errors."""
    plain = _COLOR.sub("", text)
    if _ARROW not in plain:
        return None
    first, *causes = (part.strip() for part in plain.split(_ARROW))
    asked = re.search(r"\b(?:GET|PUT|POST|HEAD|DELETE) (\S+)", plain)
    answer = _XML.search(causes[-1])
    if answer is not None:
        cause = ": ".join(filter(None, answer.groups()))
    else:
        cause = " ".join(causes[-1].split())
    place = "" if asked is None else f" at {asked[1].partition('?')[0]}"
    return f"{first.removeprefix('Generic ').removesuffix(' error')}{place}: {cause}"
