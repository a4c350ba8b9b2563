"""First key: lets somebody into a gateway that has no credentials yet."""

from pathlib import Path

from headgate.app.auth.grants import Grant, Verb
from headgate.app.auth.keys.key import ApiKey, make_key
from headgate.app.auth.keys.key_file import KeyFileFault, create_keys
from headgate.app.auth.private_file import write_private

FIRST_KEY = "first-key"
"""File of the data directory that has the key itself."""

_NAME = "admin"
_EVERYTHING = Grant(streams=["*"], do=list(Verb), create=True)


def first_key(data_dir: Path, keys_file: Path, now_ms: int) -> str | None:
    """Make a key that may do everything, unless there is a keys file.

    Args:
        data_dir: where `first-key` is written; it is made if it is missing.
        keys_file: where the key is kept.
        now_ms: unix time.

    Returns:
        The key; None: there is a keys file, and nothing was done.

    Raises:
        KeyFileFault: a file cannot be written.
    """
    if keys_file.exists():
        return None
    text = make_key()
    key = ApiKey(
        id=text.id,
        name=_NAME,
        sha256=text.sha256,
        grants=[_EVERYTHING],
        created_at_ms=now_ms,
    )
    place = data_dir / FIRST_KEY
    try:
        data_dir.mkdir(0o700, parents=True, exist_ok=True)
        write_private(place, f"{text}\n".encode())  # before the key works: a crash loses no key
    except OSError as error:
        raise KeyFileFault(f"{place}: {error.strerror}") from None
    return str(text) if create_keys(keys_file, {key.id: key}) else None
