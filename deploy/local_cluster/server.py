"""One Redis or Valkey server on loopback, as a process of its own."""

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

_kept: list[socket.socket] = []
"""Bound to the ports that are kept for this process; none of them listens."""

DURABLE = {"save": "", "appendonly": "yes"}
"""No snapshots, but an append-only file: WAITAOF needs one."""


class ServerEnded(Exception):
    """A server ended while it was started; the message is the end of its log."""


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
        """Describe a server; nothing is started.

        Args:
            binary: `redis-server` or `valkey-server`.
            folder: where its data and its log are; it is made if it is missing.
            keeper: ends it when this process is gone.
            port: None for a free one.
            options: of its configuration, by name.
            words: of its command line, before the options.
        """
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
        """Return the URL for `--backend`."""
        return f"redis://{HOST}:{self.port}"

    @property
    def address(self) -> str:
        """Return host and port."""
        return f"{HOST}:{self.port}"

    @property
    def process_id(self) -> int | None:
        """Return the id of its process, if it runs."""
        return self._process.pid if self._process is not None and self.is_running else None

    @property
    def is_running(self) -> bool:
        """Tell whether its process is there."""
        if self._process is not None and self._process.poll() is not None:
            self._keeper.forget(self._process.pid)
            self._process = None
        return self._process is not None

    def start(self) -> None:
        """Start it, and return once it answers; it may still be loading its data.

        Raises:
            ServerEnded: it ended at once, perhaps because its port is taken.
        """
        self.launch()
        self.until_answers()

    def launch(self) -> None:
        """Start its process, and do not wait for anything."""
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
        """Return once it answers.

        Raises:
            ServerEnded: it ended instead.
        """
        until(self._answers, START_S_MAX, f"a server answers at {self.address}")

    def ask_to_end(self) -> None:
        """Ask it to end, and do not wait for it."""
        self.resume()
        self._signal(signal.SIGTERM)

    def stop(self) -> None:
        """Ask it to end, and return once it has; its data is on disk."""
        self.ask_to_end()
        self._until_end()

    def kill(self) -> None:
        """End it as a power switch does."""
        self._signal(signal.SIGKILL)
        self._until_end()

    def pause(self) -> None:
        """Stop it from running: it keeps its connections and answers nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it run on after `pause`."""
        self._signal(signal.SIGCONT)

    def run(self, *words: object) -> object:
        """Send one command, and return the reply as redis-py makes it."""
        execute: Callable[..., object] = self.client.execute_command  # it has no types
        return execute(*words)

    def option(self, name: str) -> object:
        """Return an option that it was described with."""
        return self._options[name]

    def info(self, section: str) -> dict[str, object]:
        """Return a section of INFO."""
        return dict(self.client.info(section))

    def _arguments(self) -> list[str]:
        options = {"port": self.port, "bind": HOST, "dir": self.folder, **self._options}
        pairs = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        return [*self._words, *pairs]

    def _answers(self) -> bool:
        """Tell whether it answers, and not another one that has its port already."""
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
    """Return ports nobody listens on, out of those that no outgoing connection gets.

    They are kept for this process: until it ends, no call of this function returns them again,
    in any process of this machine.

    Raises:
        OSError: there are not so many.
    """
    free = filter(_keep, SystemRandom().sample(_PORTS, len(_PORTS)))
    ports = list(islice(free, count))
    if len(ports) < count:
        raise OSError(f"there are no {count} free ports from {_PORTS.start} to {_PORTS.stop - 1}")
    return ports


def _keep(port: int) -> bool:
    """Keep a port for this process, and tell whether that was possible."""
    keeper = socket.socket()
    try:
        keeper.bind((HOST, port))
    except OSError:
        keeper.close()
        return False
    # Set only now: a server, which sets it first, can listen here; nobody else can keep it.
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _kept.append(keeper)
    return True


def is_free(port: int) -> bool:
    """Tell whether nobody listens on a port."""
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        return False
    return True
