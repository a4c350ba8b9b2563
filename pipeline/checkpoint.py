"""Checkpoint: the identity of a Spark query, and the ends of its batches.

Spark writes the end offset of a batch before the batch runs, so a sink can look up exactly which
ranges it was given, also when the batch runs again after a crash.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.fs

from headgate.pipeline.location import BUCKETS, is_bucket
from headgate.pipeline.offsets import Position, positions_of

_OURS = "headgate.json"
_DAMAGED = (
    "the checkpoint is damaged. Delete it: `archive` writes nothing twice, as the lake notes what"
    " it has; without their checkpoints a `replay` and `stats` begin anew"
)


class CheckpointError(ValueError):
    pass


class Checkpoint:
    """The checkpoint of a query, in a directory or at a URL that Arrow knows; not in a bucket."""

    def __init__(self, path: str) -> None:
        self.path = path
        if is_bucket(path) and path.partition("://")[0].lower() in BUCKETS:
            raise CheckpointError(
                f"a checkpoint cannot be in a bucket, as {path}: give --checkpoint a directory"
            )
        if "://" in path:
            self._files, self._root = pyarrow.fs.FileSystem.from_uri(path)
        else:
            self._files, self._root = pyarrow.fs.LocalFileSystem(), str(Path(path).absolute())

    def claim(self, purpose: Mapping[str, str]) -> None:
        """Note the purpose of the checkpoint; raise CheckpointError if another one is noted."""
        was = self.note(_OURS)
        if was is None:
            if self._text("metadata") is not None:
                raise CheckpointError(
                    f"the checkpoint {self.path} belongs to another query: give another one"
                )
            self.keep_note(_OURS, dict(purpose))
            return
        for name, value in purpose.items():
            if was.get(name) != value:
                raise CheckpointError(
                    f"the checkpoint {self.path} belongs to another query: its {name} is"
                    f" {was.get(name)}, not {value}; give another --checkpoint"
                )

    def note(self, name: str) -> dict[str, Any] | None:
        """Return a note kept here, if any; raises CheckpointError if it is not one of ours."""
        text = self._text(name)
        if text is None:
            return None
        try:
            note = json.loads(text)
        except ValueError:
            note = None
        if not isinstance(note, dict):
            raise CheckpointError(f"{self.path}/{name} is no note of ours: {_DAMAGED}")
        return note

    def keep_note(self, name: str, note: Mapping[str, object]) -> None:
        """Write a note beside Spark's files, atomically."""
        self._files.create_dir(self._root, recursive=True)
        new = f"{self._root}/.{name}.new"
        with self._files.open_output_stream(new) as out:
            out.write(json.dumps(note, sort_keys=True).encode())
        self._files.move(new, f"{self._root}/{name}")

    def check(self) -> None:
        """Read what Spark reads first: its own errors do not say what is safe to do."""
        planned, done = self._last("offsets"), self._last("commits")
        if planned >= 0 or self.has_begun:
            self.query()
        if done > planned:
            raise CheckpointError(f"{self.path}/offsets lacks batch {done}: {_DAMAGED}")
        if planned >= 0:
            self._log(f"offsets/{planned}")
        if done >= 0:
            self._log(f"commits/{done}")

    @property
    def has_begun(self) -> bool:
        return self._text("metadata") is not None

    def query(self) -> str:
        """Return the id of the query, the same over all its runs; it must have begun."""
        text = self._text("metadata")
        if text is None:
            raise CheckpointError(f"{self.path}/metadata is not there: {_DAMAGED}")
        try:
            return str(json.loads(text)["id"])
        except (ValueError, KeyError, TypeError):
            raise CheckpointError(f"{self.path}/metadata cannot be read: {_DAMAGED}") from None

    def end(self, batch: int) -> dict[str, Position] | None:
        """Return each stream's position at the end of a batch; None if it was not planned."""
        name = f"offsets/{batch}"
        if self._text(name) is None:
            return None
        version, *lines = self._log(name)
        if version != "v1" or len(lines) != 2:
            raise CheckpointError(
                f"{self.path}/{name} has {version}, {len(lines)} lines: not one source, v1"
            )
        return positions_of(lines[1])

    def _log(self, name: str) -> list[Any]:
        version, *lines = (self._text(name) or "").splitlines() or [""]
        try:
            values = [json.loads(line) for line in lines]
        except ValueError:
            values = []
        if not values or not re.fullmatch(r"v\d+", version):
            raise CheckpointError(f"{self.path}/{name} is cut: {_DAMAGED}")
        return [version, *values]

    def _last(self, folder: str) -> int:
        """Return the last batch in a folder of Spark's log; -1 if there is none."""
        selector = pyarrow.fs.FileSelector(f"{self._root}/{folder}", allow_not_found=True)
        names = [file.base_name for file in self._files.get_file_info(selector)]
        return max((int(name) for name in names if name.isdecimal()), default=-1)

    def _text(self, name: str) -> str | None:
        """Return the text of a file, or None; damaged bytes become text that is not JSON."""
        try:
            with self._files.open_input_stream(f"{self._root}/{name}") as file:
                return bytes(file.read()).decode(errors="replace")
        except FileNotFoundError:
            return None
