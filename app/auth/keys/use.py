"""Use: when keys were last used.

It stands in a file of its own in the data directory, because a keys file may be read-only.
"""

from pathlib import Path

from pydantic import BaseModel, ValidationError

from headgate.app.auth.private_file import write_private

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


def write_use(data_dir: Path, used_at_ms: dict[str, int]) -> None:
    """Write when each key was last used.

    Raises:
        OSError: it cannot be written.
    """
    text = _Used(used_at_ms=used_at_ms).model_dump_json()
    write_private(data_dir / _FILE, text.encode())
