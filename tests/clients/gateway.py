"""A gateway in a process of its own, with a port for Redis clients."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from tests.servers.chosen import servers_for

ROOT = Path(__file__).parent.parent.parent
HOST = "127.0.0.1"
START_S_MAX = 60.0
END_S_MAX = 30.0

WORKERS = int(os.environ.get("HEADGATE_TEST_WORKERS", "1"))
"""With more than one, gateways have so many worker processes, and an engine process."""


class RedisGateway:
    """A `headgate serve --redis-port 0` with its streams in memory."""

    def __init__(self, settings: Mapping[str, object] | None = None) -> None:
        """Start it, and return once it accepts connections.

        Args:
            settings: of it, by name.
        """
        memory = Path(":memory:")
        chosen = {"port": 0, "redis_port": 0, "workers": WORKERS, **servers_for(memory)}
        chosen |= settings or {}
        self.log_lines: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "headgate.app.cli", "serve", "--data-dir", str(memory)],
            cwd=ROOT,
            env=_environment(chosen),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._is_there = threading.Event()
        self._listening = threading.Thread(target=self._listen)
        self._listening.start()
        output = ""
        if self._is_there.wait(START_S_MAX):
            output = "\n".join(self.log_lines)
        port = re.search(r"Redis clients connect to \S+:(\d+)\.", output)
        if port is None:
            self.stop()
            raise ChildProcessError(output)
        self.port = int(port[1])
        place = re.search(r"Headgate is at (https?://[^, ]+:[0-9]+)", output)
        assert place is not None, output
        self.http_url = place[1]

    @property
    def url(self) -> str:
        """Return the URL for Redis clients."""
        return f"redis://{HOST}:{self.port}"

    def stop(self) -> None:
        """End it, and return once it has ended."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(END_S_MAX)
        finally:
            self._process.kill()
            self._listening.join(END_S_MAX)

    def _listen(self) -> None:
        """Note the lines of the gateway; its pipe is never full."""
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                self.log_lines.append(line.rstrip("\n"))
                if "Headgate is at" in line:
                    self._is_there.set()
        self._is_there.set()


def _environment(settings: Mapping[str, object]) -> dict[str, str]:
    """Return the variables of this process and the settings, but nothing of the tests' own."""
    variables = {
        name: text for name, text in os.environ.items() if not name.startswith("HEADGATE_TEST_")
    }
    return {
        **variables,
        **{f"HEADGATE_{name.upper()}": str(value) for name, value in settings.items()},
    }
