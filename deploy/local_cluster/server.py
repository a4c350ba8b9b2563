"""One Redis or Valkey server on loopback, as a separate process."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from random import SystemRandom

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from deploy.local_cluster.keeper import Keeper
from deploy.local_cluster.waiting import until

HOST = "127.0.0.1"
START_S_MAX = 30.0
END_S_MAX = 10.0

_PORTS = range(20_000, 32_000)
"""Below the ports that systems give to outgoing connections, so a restarted server gets its own."""

DURABLE = {"save": "", "appendonly": "yes"}
"""No snapshots, but an append-only file: WAITAOF needs one."""


class ServerEnded(Exception):
    """A server ended while it was starting; the message is the end of its log."""


class Server:
    """A server that can be started, stopped, killed and started again on the same port.

    All methods block. A test with an event loop calls them in a thread.
    """

    def __init__(
        self,
        binary: Path,
        folder: Path,
        keeper: Keeper,
        *,
        port: int | None = None,
        options: Mapping[str, object] = DURABLE,
        words: Sequence[str] = (),
    ) -> None:
        """Describe it only; `words` come before the options on the command line."""
        [self.port] = free_ports(1) if port is None else [port]
        self.folder = folder
        self.log = folder / "server.log"
        self._binary = binary
        self._keeper = keeper
        self._options = dict(options)
        self._words = list(words)
        self._process: subprocess.Popen[bytes] | None = None
        # A retry is not a matter of this client: who asks wants to know how the server is.
        self.client = redis.Redis(
            HOST, self.port, decode_responses=True, socket_timeout=10, retry=Retry(NoBackoff(), 1)
        )

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}"

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def process_id(self) -> int | None:
        return self._process.pid if self._process is not None and self.is_running else None

    @property
    def is_running(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            self._keeper.forget(self._process.pid)
            self._process = None
        return self._process is not None

    def start(self) -> None:
        """Start it and wait until it answers; it may still be loading its data."""
        self.launch()
        self.until_answers()

    def launch(self) -> None:
        assert not self.is_running
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [self._binary, *self._arguments()],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the terminal does not reach it
            )
        self._keeper.keep(self._process.pid)

    def until_answers(self) -> None:
        until(self._answers, START_S_MAX, f"a server answers at {self.address}")

    def ask_to_end(self) -> None:
        """Send SIGTERM without waiting; resumes it first if it is paused."""
        self.resume()
        self._signal(signal.SIGTERM)

    def stop(self) -> None:
        """End it with SIGTERM and wait; its data is on disk then."""
        self.ask_to_end()
        self._until_end()

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        self._until_end()

    def pause(self) -> None:
        """Send SIGSTOP: it keeps its connections and answers nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def run(self, *words: object) -> object:
        execute: Callable[..., object] = self.client.execute_command  # it has no types
        return execute(*words)

    def option(self, name: str) -> object:
        return self._options[name]

    def info(self, section: str) -> dict[str, object]:
        return dict(self.client.info(section))

    def _arguments(self) -> list[str]:
        options = {"port": self.port, "bind": HOST, "dir": self.folder, **self._options}
        pairs = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        return [*self._words, *pairs]

    def _answers(self) -> bool:
        """Tell whether this process answers, and not another one that has its port."""
        if self._process is None or not self.is_running:
            lines = self.log.read_text(errors="replace").splitlines()
            raise ServerEnded(f"the server of port {self.port} ended:\n" + "\n".join(lines[-5:]))
        try:
            return bool(self.info("server")["process_id"] == self._process.pid)
        except redis.RedisError:
            return False

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self.is_running:
            self._process.send_signal(number)

    def _until_end(self) -> None:
        if self._process is not None:
            self._process.wait(END_S_MAX)
        assert not self.is_running
        self.client.connection_pool.disconnect()


def free_ports(count: int) -> list[int]:
    """Return ports nobody listens on, outside the range of outgoing connections.

    They are reserved: no call in any process of this machine returns them until this process ends.
    """
    free = filter(_keep, SystemRandom().sample(_PORTS, len(_PORTS)))
    ports = list(islice(free, count))
    if len(ports) < count:
        raise OSError(f"there are no {count} free ports from {_PORTS.start} to {_PORTS.stop - 1}")
    return ports


def _keep(port: int) -> bool:
    keeper = socket.socket()
    try:
        keeper.bind((HOST, port))
    except OSError:
        keeper.close()
        return False
    # Set only now: a server, which sets it first, can listen here; nobody else can keep it.
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    keeper.detach()  # it is closed when the process ends
    return True


def is_free(port: int) -> bool:
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        return False
    return True
