"""Use: when keys were last used.

It stands in a file of its own in the data directory, because a keys file may be read-only.
"""

from pathlib import Path

from pydantic import BaseModel, ValidationError

from headgate.app.auth.private_file import lock_of, write_private

_FILE = "keys-used.json"


class _Used(BaseModel):
    version: int = 1
    used_at_ms: dict[str, int] = {}


def read_use(data_dir: Path) -> dict[str, int]:
    """Return when each key was last used, by its id; nothing if that is not known."""
    try:
        return _Used.model_validate_json((data_dir / _FILE).read_bytes()).used_at_ms
    except (OSError, ValidationError):  # nothing depends on it
        return {}


def write_use(data_dir: Path, used_at_ms: dict[str, int]) -> dict[str, int]:
    """Write when each key was last used; returns what is written.

    Other processes of the gateway write the file as well, so the latest time of each key holds.

    Raises:
        OSError: it cannot be written.
    """
    path = data_dir / _FILE
    with lock_of(path):
        before = read_use(data_dir)
        latest = {key: max(at, before.get(key, 0)) for key, at in used_at_ms.items()}
        write_private(path, _Used(used_at_ms=latest).model_dump_json().encode())
    return latest
