"""Key file: reads and writes `keys.json`, and says in which line of it a fault is.

The file is `{"version": 1, "keys": [...]}`. We write each key on a line of its own, so that a
difference of two versions can be read. A file made by hand may have any layout.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from headgate.app.auth.faults import CredentialFault
from headgate.app.auth.keys.json_places import JsonFault, outline_of
from headgate.app.auth.keys.key import ApiKey
from headgate.app.auth.private_file import lock_of, write_private
from headgate.app.runtime.small_file import read_small

VERSION = 1
KEYS_FILE = "keys.json"
"""The name of the file in a data directory."""

SIZE_BYTES_MAX = 16 * 2**20

Keys = Mapping[str, ApiKey]
"""Keys by their ids, in the order of the file."""


class KeyFileFault(CredentialFault):
    """The file cannot be read, or is not what it should be. The text names the file and line."""


def read_keys(path: Path) -> Keys:
    """Return the keys of a file.

    Raises:
        KeyFileFault: the file is missing, cannot be read, or has a fault.
    """
    try:
        return _keys_of(_text_of(path))
    except OSError as error:
        raise KeyFileFault(f"{path}: {error.strerror}") from None
    except JsonFault as error:
        raise KeyFileFault(f"{path}, line {error.line}: {error}") from None


def change_keys(path: Path, change: Callable[[dict[str, ApiKey]], None]) -> None:
    """Change the keys of a file while no other process does; a file that is missing is made.

    Args:
        path: of the file.
        change: changes the keys that it is given. If it raises an error, nothing changes.

    Raises:
        KeyFileFault: the file has a fault, would be too large, or cannot be written.
    """
    try:
        with lock_of(path):
            keys = dict(read_keys(path)) if path.exists() else {}
            change(keys)
            _write(path, keys)
    except OSError as error:
        raise KeyFileFault(f"{path}: {error.strerror}") from None


def create_keys(path: Path, keys: Keys) -> bool:
    """Make a keys file, unless there is one; tells whether it was made.

    Raises:
        KeyFileFault: it cannot be written.
    """
    try:
        with lock_of(path):
            if path.exists():
                return False
            _write(path, keys)
            return True
    except OSError as error:
        raise KeyFileFault(f"{path}: {error.strerror}") from None


def _write(path: Path, keys: Keys) -> None:
    text = _text_with(keys)
    if len(text) > SIZE_BYTES_MAX:
        raise KeyFileFault(f"{path}: the file would be larger than {SIZE_BYTES_MAX} bytes")
    write_private(path, text)


def _text_of(path: Path) -> str:
    data = read_small(path, SIZE_BYTES_MAX)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise JsonFault("the text is not UTF-8", line) from None


def _keys_of(text: str) -> Keys:
    outline = outline_of(text, "keys")
    members = {member.name: member for member in outline.members}
    for name, member in members.items():
        if name not in ("version", "keys"):
            raise JsonFault(f"{name!r} is no member of a keys file", member.line)
    version = members.get("version")
    if version is None or "keys" not in members:
        raise JsonFault("the file should have the members 'version' and 'keys'", 1)
    if version.text != str(VERSION):
        raise JsonFault(f"'version' should be {VERSION}", version.line)
    keys: dict[str, ApiKey] = {}
    lines: dict[str, int] = {}
    for item in outline.items:
        try:
            key = ApiKey.model_validate_json(item.text, strict=True)
        except ValidationError as error:
            raise JsonFault(_fault(item.name, error.errors()[0]), item.line) from None
        if key.id in keys:
            raise JsonFault(f"the key {key.id!r} is also in line {lines[key.id]}", item.line)
        keys[key.id], lines[key.id] = key, item.line
    return keys


def _fault(place: str, error: ErrorDetails) -> str:
    """Return the fault of a key, without the faulty value: it may be a secret."""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"])
    text = error["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return f"{place}{path}: {text}"


def _text_with(keys: Keys) -> bytes:
    lines = b",\n".join(
        key.model_dump_json(exclude_defaults=True).encode() for key in keys.values()
    )
    return b'{"version": %d, "keys": [\n%s\n]}\n' % (VERSION, lines)
