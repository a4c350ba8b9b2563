"""Gateways as separate processes, in front of one backend."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import httpx

from deploy.local_cluster.keeper import Keeper
from deploy.local_cluster.server import HOST
from deploy.local_cluster.waiting import until

START_S_MAX = 60.0
END_S_MAX = 30.0
SHARED = ["keys.json", "ticket-secret"]
"""Files that all gateways must have in common: links in the folder of each."""

_SECRET_BYTES = 32


class GatewayEnded(Exception):
    pass


class Gateway:
    """One `headgate serve`, which logs where we do."""

    def __init__(self, port: int, folder: Path, backend: str, keeper: Keeper) -> None:
        self.port = port
        self._folder = folder
        self._backend = backend
        self._keeper = keeper
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def is_running(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            self._keeper.forget(self._process.pid)
            self._process = None
        return self._process is not None

    def start(self, flags: Sequence[str] = ()) -> None:
        """Start it without waiting for it to be ready."""
        command = [sys.executable, "-m", "headgate.app.cli", "serve", "--backend", self._backend]
        command += ["--port", str(self.port), "--data-dir", str(self._folder), *flags]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in the terminal does not reach it
        )
        self._keeper.keep(self._process.pid)

    def until_ready(self) -> None:
        with httpx.Client(base_url=self.url, trust_env=False) as http:
            until(lambda: self._is_ready(http), START_S_MAX, f"{self.url} is ready")

    def ask_to_end(self) -> None:
        """Send SIGTERM without waiting."""
        self._signal(signal.SIGTERM)

    def stop(self) -> None:
        process = self._process
        self.ask_to_end()
        if process is not None:
            process.wait(END_S_MAX)
        assert not self.is_running

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self.is_running:
            self._process.send_signal(number)

    def _is_ready(self, http: httpx.Client) -> bool:
        if not self.is_running:
            raise GatewayEnded(f"the gateway of port {self.port} ended")
        try:
            return http.get("/readyz").is_success
        except httpx.TransportError:
            return False


def share(folder: Path, gateway_folders: Sequence[Path]) -> None:
    """Link the keys file and the ticket secret in `folder` into the gateways' folders.

    `headgate keys add --data-dir FOLDER` makes the first key, and all gateways take it at once.
    """
    folder.mkdir(0o700, parents=True, exist_ok=True)
    secret = folder / "ticket-secret"
    if not secret.exists():
        descriptor = os.open(secret, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_SECRET_BYTES))
    for gateway_folder in gateway_folders:
        gateway_folder.mkdir(0o700, parents=True, exist_ok=True)
        for name in SHARED:
            link = gateway_folder / name
            if not link.is_symlink():
                link.unlink(missing_ok=True)
                link.symlink_to(Path("..") / name)
