"""A gateway imports what its backend needs."""

import subprocess
import sys

SHOW = "import sys, headgate.app.main, headgate.app.cli.commands.serve; print(*sys.modules)"


def test_a_gateway_without_servers_does_not_import_their_library() -> None:
    command = [sys.executable, "-c", SHOW]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "headgate.app.gateway.backends" in shown
    assert "redis" not in shown
