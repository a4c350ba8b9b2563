"""A fault of an operator's settings is one line that names its place."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headgate.app.cli import main
from headgate.app.settings import Settings
from tests.processes.gateway import failure_of


def check_config(*words: str, **variables: str) -> Result:
    return CliRunner().invoke(main, ["check-config", *words], env=variables)


def test_commas_part_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    for given, hosts in (
        *(("gw.example", ["gw.example"]), ("*", ["*"]), ("", [])),
        ("gw.example, 10.0.0.1,::1", ["gw.example", "10.0.0.1", "::1"]),
    ):
        monkeypatch.setenv("HEADGATE_ALLOWED_HOSTS", given)
        assert Settings().allowed_hosts == hosts
        assert Settings.model_validate({"allowed_hosts": given}).allowed_hosts == hosts


_ANY_TEXT = frozenset(
    {
        *("host", "jwt_audience", "jwt_issuer", "jwt_jwks", "jwt_secret", "observe"),
        "push_identity",
        *("redis_host", "redis_password", "redis_prefix", "redis_username", "ticket_secret"),
        "trace_field",
    }
) | {name for name, field in Settings.model_fields.items() if "Path" in str(field.annotation)}
"""Settings that take any text: a folder, a file, a secret, a name; a host is looked up later."""


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_a_bad_variable_is_one_line_that_names_it(name: str) -> None:
    variable = f"HEADGATE_{name.upper()}"
    pair = {"HEADGATE_TLS_CERT": "cert.pem", "HEADGATE_TLS_KEY": "key.pem"}  # only both make sense
    ended = check_config(**pair | {variable: "[no such,"})

    if name in _ANY_TEXT:
        assert ended.exit_code == 0
        return
    assert (ended.exit_code, ended.stdout) == (1, "")
    [line] = ended.stderr.splitlines()
    is_secret = name == "backend"  # its URL may have a password
    shown = ": should " if is_secret else " = '[no such"
    assert line.startswith(f"Error: {variable}{shown}")
    assert not is_secret or "no such" not in line


def test_each_bad_value_is_a_line(tmp_path: Path) -> None:
    file = tmp_path / "headgate.toml"
    file.write_text('prot = 1\nfsync = "often"\nallowed_origins = ["example"]\n')

    origin = "should be an origin such as https://app.example, without a path"

    ended = check_config("--config", str(file), headgate_port="70000")

    assert (ended.exit_code, ended.stdout) == (1, "")
    assert [line.strip() for line in ended.stderr.splitlines()] == [
        "Error: headgate_port = '70000': should be less than or equal to 65535",
        f"{file}: fsync = 'often': should be 'always', 'everysec' or 'no'",
        f"{file}: allowed_origins = 'example': {origin}",
        f"{file}: prot is not a setting; did you mean port?",
    ]


def test_what_stops_a_start_is_named(tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    bad_port = "--port = 70000: should be less than or equal to 65535"
    for words, expected in (
        (["--port", "70000"], bad_port),
        (
            ["--tls-cert", str(certificate), "--tls-key", str(key), "--port", "0"],
            f"{certificate}: No such file or directory",
        ),
    ):
        ended = CliRunner().invoke(main, ["serve", *words])
        assert (ended.exit_code, failure_of(ended.stderr)) == (1, expected)
    for name, missing in (("tls_cert", "tls_key"), ("tls_key", "tls_cert")):
        ended = check_config(**{f"HEADGATE_{name.upper()}": "file.pem"})
        line = f"Error: {name} is set, but {missing} is not: TLS needs both\n"
        assert (ended.exit_code, ended.stderr) == (1, line)


@pytest.mark.parametrize("text", [b"port = ", b"\xff", b"port 9000"])
def test_a_file_that_is_no_toml_is_named(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "headgate.toml"
    file.write_bytes(text)

    ended = check_config("--config", str(file))

    assert (ended.exit_code, ended.stdout) == (1, "")
    [line] = ended.stderr.splitlines()
    assert line.startswith(f"Error: {file}: ")


def test_settings_are_shown_as_json_without_secrets() -> None:
    shown = check_config("--json", HEADGATE_PORT="9000", HEADGATE_REDIS_PASSWORD="hush").stdout

    settings = json.loads(shown)
    assert settings.keys() == Settings.model_fields.keys()
    assert settings["port"] == 9000
    assert "hush" not in shown


def test_a_variable_that_is_no_setting_is_named() -> None:
    ended = check_config(HEADGATE_PROT="9000", HEADGATE_SERVICE_HOST="10.0.0.1")

    assert ended.exit_code == 0
    warnings = [line for line in ended.stderr.splitlines() if "_TEST_" not in line]
    assert warnings == [
        "Warning: HEADGATE_PROT is not a setting of the gateway; did you mean HEADGATE_PORT?",
        "Warning: HEADGATE_SERVICE_HOST is not a setting of the gateway",
    ]
