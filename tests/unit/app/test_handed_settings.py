"""Settings: as the supervisor sends them to other processes, and what they let a gateway import."""

import subprocess
import sys

import pytest

from headgate.app.settings import Settings, settings_of, with_secrets

SECRET = "0123456789" * 4


def test_settings_arrive_with_their_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(
        backend="redis://:password@localhost",
        anonymous=[{"streams": ["news*"], "do": ["read"]}],
        jwt_secret=SECRET,
        workers=3,
    )
    text = with_secrets(settings)
    monkeypatch.setenv("HEADGATE_PORT", "9000")
    monkeypatch.setenv("HEADGATE_TICKET_SECRET", SECRET)

    arrived = settings_of(text)

    assert arrived.model_dump() == settings.model_dump()
    assert arrived.jwt_secret is not None
    assert arrived.jwt_secret.get_secret_value() == SECRET
    assert arrived.backend is not None
    assert arrived.backend.get_secret_value() == "redis://:password@localhost"


def test_auto_is_one_fewer_than_the_cores_and_at_least_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, count in ((1, 1), (2, 1), (8, 7)):
        monkeypatch.setattr("headgate.app.runtime.machine.core_count", lambda cores=cores: cores)
        assert Settings.model_validate({"workers": "auto"}).workers == count


SHOW = "import sys, headgate.app.main, headgate.app.cli.commands.serve; print(*sys.modules)"


def test_libraries_for_servers_and_for_key_sets_are_not_imported_without_need() -> None:
    command = [sys.executable, "-c", SHOW]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "headgate.app.gateway.backends" in shown
    assert not {"redis", "httpx", "rich"} & set(shown)
