"""A gateway that asks for a key, and a look at whether the key stands anywhere."""

from __future__ import annotations

import base64
from pathlib import Path

from tests.pipeline.gateway import Gateway, add_key

EVERYTHING = {"streams": ["*"], "do": ["read", "append", "consume", "manage", "admin"]}
ENTRIES = 200


class Guarded:
    """A gateway that asks for a key, with a stream.

    Attributes:
        key: may do everything.
        reading_key: may read the stream.
    """

    def __init__(self, data_dir: Path, stream: str) -> None:
        self.stream = stream
        self.key = add_key(data_dir, EVERYTHING)
        self.reading_key = add_key(data_dir, {"streams": [stream], "do": ["read"]})
        self.gateway = Gateway(data_dir, key=self.key)
        self.gateway.append(stream, [{"n": str(at)} for at in range(ENTRIES)])


def check_no_trace(folder: Path, key: str, *, files_min: int) -> None:
    """Check that no file has the secret of a key, as it is or as base64."""
    secret = key.rpartition("_")[2].encode()
    # Base64 of a text depends on where in a group of three bytes it begins.
    packed = [base64.b64encode(b"x" * shift + secret)[4:-4] for shift in range(3)]
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) >= files_min
    traces = [
        path for path in files if any(form in path.read_bytes() for form in [secret, *packed])
    ]
    assert traces == []
