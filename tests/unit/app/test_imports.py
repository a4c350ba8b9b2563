"""A gateway imports only what its settings need."""

import subprocess
import sys

SHOW = "import sys, headgate.app.main, headgate.app.cli.commands.serve; print(*sys.modules)"


def test_libraries_for_servers_and_for_key_sets_are_not_imported_without_need() -> None:
    command = [sys.executable, "-c", SHOW]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "headgate.app.gateway.backends" in shown
    assert not {"redis", "httpx", "rich"} & set(shown)
