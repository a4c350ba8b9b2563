"""An operator makes keys that open what they should, and every mistake is one line."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from headgate.app.auth.grants import Verb
from headgate.app.auth.key_file import read_keys
from headgate.app.auth.key_ring import KeyRing
from headgate.app.auth.principal import Need, Principal, Unauthenticated
from headgate.app.cli import main

READ = '{"streams": ["news*"], "do": ["read"]}'
NOW_MS = 1_800_000_000_000


class Operator:
    """Runs commands on a data directory."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.path = data_dir / "keys.json"

    def run(self, *words: str) -> Result:
        variables = {"HEADGATE_DATA_DIR": str(self.data_dir)}
        return CliRunner().invoke(main, ["keys", *words], env=variables)

    def add(self, *words: str) -> str:
        ended = self.run("add", "bob", "--grant", READ, *words)
        assert ended.exit_code == 0, ended.stderr
        [key] = ended.stdout.splitlines()
        return key

    def fault(self, *words: str) -> str:
        ended = self.run(*words)
        assert (ended.exit_code, ended.stdout) == (1, "")
        [line] = ended.stderr.splitlines()
        return line

    def principal(self, key: str, now_ms: int = NOW_MS) -> Principal:
        return KeyRing(read_keys(self.path)).verify(key, now_ms)

    def listed(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run("list", "--json").stdout.splitlines()]


@pytest.fixture
def operator(tmp_path: Path) -> Operator:
    return Operator(tmp_path / "data")


def id_of(key: str) -> str:
    return key.split("_")[1]


def test_the_first_key_says_what_it_changes_and_where(operator: Operator) -> None:
    first, second = (operator.run("add", "bob", "--grant", READ).stderr for _ in range(2))
    assert "from now on, every request needs one" in first
    assert "from now on" not in second
    assert f"No gateway has used {operator.data_dir} yet." in first
    (operator.data_dir / "lock").touch()
    assert "No gateway" not in operator.run("add", "bob", "--grant", READ).stderr
    admin = '{"streams": ["*"], "do": ["admin"]}'
    operator.path.unlink()
    assert "from now on" not in operator.run("add", "me", "--grant", admin).stderr


def test_a_key_is_printed_alone_and_may_what_its_grants_say(operator: Operator) -> None:
    write = '{"streams": ["log.{sub}"], "do": ["append"], "create": true}'

    principal = operator.principal(operator.add("--grant", write, "--limit", "waiters_max=3"))

    assert (principal.id, principal.limits.waiters_max) == ("bob", 3)
    assert principal.may(Need((Verb.READ,), b"news1"))
    assert principal.may_create(b"log.bob")
    assert not principal.may(Need((Verb.APPEND,), b"news1"))


def test_a_key_expires_when_it_should(operator: Operator) -> None:
    key = operator.add("--expires", "90d")

    [listed] = operator.listed()

    created_at_ms, expires_at_ms = listed["created_at_ms"], listed["expires_at_ms"]
    assert expires_at_ms == created_at_ms + 90 * 24 * 60 * 60 * 1000
    with pytest.raises(Unauthenticated, match="expired"):
        operator.principal(key, expires_at_ms)


def test_a_file_elsewhere_is_changed_there(operator: Operator, tmp_path: Path) -> None:
    elsewhere, config = tmp_path / "elsewhere.json", tmp_path / "headgate.toml"
    config.write_text(f'keys_file = "{tmp_path / "configured.json"}"')

    operator.add("--keys-file", str(elsewhere))
    operator.add("--config", str(config))

    assert len(read_keys(elsewhere)) == len(read_keys(tmp_path / "configured.json")) == 1
    assert not operator.data_dir.exists()
    assert "no directory" not in operator.run("list").stderr
    assert "--keys-file" in operator.fault("list", "--data-dir", ":memory:")


def test_a_revoked_key_opens_nothing_and_stays_in_the_list(operator: Operator) -> None:
    key, other = operator.add(), operator.add()

    assert operator.run("revoke", id_of(key)).exit_code == 0
    assert operator.run("revoke", id_of(key)).exit_code == 0

    with pytest.raises(Unauthenticated):
        operator.principal(key)
    assert operator.principal(other).id == "bob"
    assert [each["state"] for each in operator.listed()] == ["revoked", "active"]
    assert "is revoked or expired" in operator.fault("rotate", id_of(key))


def test_a_rotated_key_opens_with_its_new_secret_only_and_no_list_shows_any(
    operator: Operator,
) -> None:
    key, other = operator.add(), operator.add()

    [rotated] = operator.run("rotate", id_of(key)).stdout.splitlines()
    [both] = operator.run("rotate", id_of(other), "--overlap", "1h").stdout.splitlines()

    assert id_of(rotated) == id_of(key)
    assert operator.principal(rotated).key == id_of(key)
    with pytest.raises(Unauthenticated):
        operator.principal(key)
    stored = read_keys(operator.path)[id_of(other)]
    assert stored.previous is not None
    shown = operator.run("list").output + operator.run("list", "--json").output
    assert id_of(other) in shown
    for secret in key, rotated, both, key.split("_")[2], stored.sha256, stored.previous.sha256:
        assert secret not in shown


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["bob", "--grant", "{streams: 1}"], "--grant: Invalid JSON"),
        (["bob", "--grant", "[]"], "--grant: should be an object"),
        (["bob", "--grant", '{"streams": ["a"], "do": ["write"]}'], "--grant: do[0]: should be"),
        (["bob", "--grant", '{"streams": ["a*b"], "do": ["read"]}'], "--grant: streams[0]: `*`"),
        (["bob", "--grant", '{"streams": ["{x}"], "do": ["read"]}'], "only claim of a key is sub"),
        (["b*", "--grant", '{"streams": ["{sub}"], "do": ["read"]}'], "not allowed in a pattern"),
        (["", "--grant", READ], "name: String should have at least 1"),
        (["a\nb", "--grant", READ], "name: a name must not have control characters"),
        (["bob", "--grant", READ, "--limit", "request_s=1"], "did you mean requests_per_s_max?"),
        (["bob", "--grant", READ, "--limit", "waiters_max"], "NAME=NUMBER: waiters_max=100"),
        (["bob", "--grant", READ, "--limit", "waiters_max=-1"], "NAME=NUMBER: waiters_max=100"),
        (["bob", "--grant", READ, "--limit", "waiters_max=0"], "greater than or equal to 1"),
    ],
)
def test_a_mistake_changes_nothing(operator: Operator, words: list[str], text: str) -> None:
    assert text in operator.fault("add", *words)
    assert not operator.path.exists()


def test_a_duration_has_a_unit(operator: Operator) -> None:
    for duration in ("", "90", "5min", "-1d", "0d", "1.5h", "9999999d"):
        ended = operator.run("add", "bob", "--grant", READ, "--expires", duration)
        assert ended.exit_code == 2
        assert "such as 500ms, 45s, 1m, 12h or 7d" in ended.stderr


def test_an_id_that_is_unknown_is_named_and_a_secret_is_not(operator: Operator) -> None:
    key = operator.add()

    assert "no key 'x'" in operator.fault("revoke", "x")
    assert "no key 'x'" in operator.fault("rotate", "x")
    assert operator.fault("revoke", key) == f"Error: Give only the id of the key: {id_of(key)}"
