"""A keys file is read whole or refused with the line of its fault; the first key is made once."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headgate.app.auth.grants import Verb
from headgate.app.auth.key_file import (
    FIRST_KEY,
    SIZE_BYTES_MAX,
    ApiKey,
    KeyFileFault,
    change_keys,
    first_key,
    read_keys,
)
from headgate.app.auth.key_ring import KeyRing
from headgate.app.auth.principal import Need

KEY = {
    "id": "abc",
    "name": "reader",
    "sha256": "0" * 64,
    "grants": [{"streams": ["news*"], "do": ["read"]}],
    "limits": {"requests_per_s_max": 5},
    "created_at_ms": 1,
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def key(**changes: object) -> str:
    return json.dumps({**KEY, **changes})


def file_with(*keys: str) -> str:
    """Return a file whose first key stands in line 3."""
    return '{"version": 1,\n "keys": [\n' + ",\n".join(keys) + "\n]}\n"


def fault(path: Path, text: str) -> str:
    path.write_text(text)
    with pytest.raises(KeyFileFault) as refused:
        read_keys(path)
    assert str(refused.value).startswith(str(path))
    return str(refused.value).removeprefix(str(path))


def stored_key(key_id: str) -> ApiKey:
    return ApiKey.model_validate({**KEY, "id": key_id, "sha256": "1" * 64})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        *(("[]", "should be a JSON object"), ('\n\n{"version": 1, "keys": []}\nx', "line 4")),
        ('{"version": 1}', "keys: Field required"),
        ('{"version": 1,\n"keys": [],\n"more": 1}', "more: Extra inputs"),
        ('{\n"version": true, "keys": []}', "version: should be a valid integer"),
        ('{"version": 2, "keys": []}', "version: should be less than or equal to 1"),
        ('{"version": 1,\n"keys": [],\n"keys": []}', "'keys' occurs twice"),
        ('{"version": 1,\n "keys": [\n' + key() + ",\n]}", "line 4"),
        ('{"version": 1,\n "keys": [\n' + key() + " " + key() + "]}", "line 3"),
        ('{"version": 1,\n "keys": [\n' + "[" * 100_000, "line 3"),
        ('{"version": 1,\n "keys": [\n' + "9" * 5000 + "]}", "line 3"),
        (file_with(key(), '{"id":\n "x",,}'), "line 5"),
        (file_with(key(), "7"), "keys[1]: should be an object"),
        (file_with(key(), '{\n\n"id": 5}'), "keys[1].id: should be a valid string"),
        (
            file_with(key(), key(id="abd", name="a\nb")),
            "keys[1].name: a name must not have control",
        ),
        (file_with(key(name="")), "keys[0].name: String should have at least 1"),
        (file_with(key(secret="hg_x_s3cret")), "keys[0].secret: Extra inputs"),
        (file_with(key(created_at_ms="1")), ".created_at_ms: should be a valid integer"),
        (file_with(key(), key()), "keys[1]: the id 'abc' occurs twice"),
        (file_with(key()[:-1] + ', "id": "abc"}'), "'id' occurs twice"),
        (file_with(key(grants=[{"streams": ["a"], "do": ["write"]}])), "grants[0].do[0]"),
        (file_with(key(grants=[{"streams": ["a*b"], "do": ["read"]}])), "`*` is only allowed"),
        (file_with(key(grants=[{"streams": ["{email}"], "do": ["read"]}])), "claim 'email'"),
        (file_with(key(limits={"requests": 1})), "limits.requests"),
        (file_with(key(previous={"sha256": "1" * 64})), "previous.expires_at_ms"),
    ],
)
def test_a_fault_is_named_with_its_place(path: Path, text: str, words: str) -> None:
    reported = fault(path, text)

    assert reported.startswith(": ")
    assert words in reported
    assert "s3cret" not in reported
    assert "\n" not in reported


def test_what_is_no_file_or_too_large_is_a_fault(path: Path) -> None:
    with pytest.raises(KeyFileFault, match=r"keys\.json: No such file"):
        read_keys(path)
    os.mkfifo(path)
    with pytest.raises(KeyFileFault, match=r"keys\.json: it is a pipe or a device"):
        read_keys(path)
    with pytest.raises(KeyFileFault, match="Is a directory"):
        read_keys(path.parent)
    path.unlink()
    assert f"larger than {SIZE_BYTES_MAX} bytes" in fault(path, " " * (SIZE_BYTES_MAX + 1))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_what_root_writes_belongs_to_who_runs_the_gateway(path: Path) -> None:
    os.chown(path.parent, 1000, 1001)

    change_keys(path, lambda keys: None)
    made = path.stat()
    os.chown(path, 1002, 1003)
    change_keys(path, lambda keys: None)
    changed_later = path.stat()

    assert (made.st_uid, made.st_gid) == (1000, 1001)
    assert (changed_later.st_uid, changed_later.st_gid) == (1002, 1003)


def test_a_link_stays_a_link_and_only_the_owner_may_read_its_file(path: Path) -> None:
    elsewhere = path.parent / "elsewhere.json"
    elsewhere.write_text(file_with(key()))
    elsewhere.chmod(0o644)
    path.symlink_to(elsewhere)

    change_keys(path, lambda keys: keys.update(new=stored_key("new")))

    assert path.is_symlink()
    assert elsewhere.stat().st_mode & 0o777 == 0o600
    assert list(read_keys(elsewhere)) == ["abc", "new"]


def test_changes_at_once_are_all_kept(path: Path) -> None:
    names = [f"key{number}" for number in range(40)]

    def add(name: str) -> None:
        change_keys(path, lambda keys: keys.update({name: stored_key(name)}))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(add, names))

    assert sorted(read_keys(path)) == sorted(names)


def test_the_first_key_may_do_everything_and_is_made_once(tmp_path: Path) -> None:
    data_dir, keys_file = tmp_path / "new", tmp_path / "new" / "keys.json"

    text = first_key(data_dir, keys_file, 1)

    assert text is not None
    principal = KeyRing(read_keys(keys_file)).verify(text, 1)
    assert principal.id == "admin"
    assert all(principal.may(Need((verb,))) for verb in Verb)
    assert principal.may_create(b"any")
    assert (data_dir / FIRST_KEY).stat().st_mode & 0o777 == 0o600
    keys_file.write_text("")  # also one with a fault is there
    assert first_key(data_dir, keys_file, 1) is None
    assert (data_dir / FIRST_KEY).read_text() == f"{text}\n"
