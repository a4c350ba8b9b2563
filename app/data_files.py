"""Files of a data directory beside the journal. They hold secrets, so no backup contains them."""

from pathlib import Path
from typing import Final

KEYS_FILE: Final = "keys.json"
PUSH_KEY_FILE: Final = "push.key"
TICKET_SECRET_FILE: Final = "ticket-secret"  # noqa: S105 the name of the file

NOT_IN_BACKUPS: Final = (KEYS_FILE, PUSH_KEY_FILE, TICKET_SECRET_FILE)


def keys_path(data_dir: Path, keys_file: Path | None) -> Path:
    """Return the file of API keys: the one of the settings, or that of the data directory."""
    return keys_file or data_dir / KEYS_FILE
