"""The first key opens everything, is made once, and is readable by its owner only."""

import stat
from pathlib import Path

from headgate.app.auth.grants import Verb
from headgate.app.auth.keys.first import FIRST_KEY, first_key
from headgate.app.auth.keys.key_file import read_keys
from headgate.app.auth.keys.ring import KeyRing
from headgate.app.auth.principal import Need

NOW_MS = 1_700_000_000_000


def test_the_first_key_may_do_everything(tmp_path: Path) -> None:
    data_dir = tmp_path / "new" / "data"
    keys_file = data_dir / "keys.json"

    text = first_key(data_dir, keys_file, NOW_MS)

    assert text is not None
    principal = KeyRing(read_keys(keys_file)).verify(text, NOW_MS)
    assert principal.id == "admin"
    assert all(principal.may(Need((verb,))) for verb in Verb)
    assert principal.may_create(b"any")
    place = data_dir / FIRST_KEY
    assert place.read_text() == f"{text}\n"
    assert stat.S_IMODE(place.stat().st_mode) == 0o600


def test_a_first_key_is_made_once(tmp_path: Path) -> None:
    text = first_key(tmp_path, tmp_path / "keys.json", NOW_MS)

    assert first_key(tmp_path, tmp_path / "keys.json", NOW_MS) is None
    assert (tmp_path / FIRST_KEY).read_text() == f"{text}\n"


def test_no_first_key_is_made_beside_a_keys_file_with_a_fault(tmp_path: Path) -> None:
    keys_file = tmp_path / "keys.json"
    keys_file.write_text("")

    assert first_key(tmp_path, keys_file, NOW_MS) is None
    assert not (tmp_path / FIRST_KEY).exists()
