"""Marker: the file of a data directory that says which bucket it belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from headgate.engine.bucket.manifest import BucketFile
from headgate.engine.errors import Corrupt
from headgate.engine.journal.disk import Disk
from headgate.engine.journal.names import UNFINISHED

MARKER: Final = "bucket"
"""The name of the file."""


class Marker(msgspec.Struct, frozen=True):
    """The place of a data directory in a bucket."""

    url: str
    identity: str
    """Of the bucket, whatever its address is."""
    writer: str
    """The name of the directory in the parts that are put from it."""
    has_led: bool = False
    """Records were written here, so that some may be here alone."""
    former: str = ""
    """The writer before, while the directory is made anew."""
    files: list[BucketFile] = []
    """The extent files of the directory that the bucket has as well."""

    @property
    def by_name(self) -> Mapping[str, BucketFile]:
        """Return the files by name."""
        return {file.name: file for file in self.files}


def read_marker(disk: Disk) -> Marker | None:
    """Return the marker of a directory; None: it belongs to no bucket.

    Raises:
        Corrupt: it makes no sense.
    """
    if MARKER not in disk.names():
        return None
    with disk.open(MARKER) as file:
        try:
            return msgspec.json.decode(file.read(), type=Marker)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Corrupt(MARKER, 0, str(error)) from None


def write_marker(disk: Disk, marker: Marker) -> None:
    """Replace the marker of a directory; it is safe when this returns."""
    unfinished = MARKER + UNFINISHED
    if unfinished in disk.names():
        disk.remove(unfinished)
    disk.append(unfinished, msgspec.json.encode(marker))
    disk.sync(unfinished)
    disk.rename(unfinished, MARKER)
    disk.sync_names()
