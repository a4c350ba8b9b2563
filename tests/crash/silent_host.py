"""Silent host: a host of its own, on this machine, that can vanish without a word."""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

_NEW_NET = 0x40000000
_NET = f"10.214.{os.getpid() % 256}"
_HERE, _THERE = f"{_NET}.1", f"{_NET}.2"


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, timeout=10)


class SilentHost(AbstractContextManager["SilentHost"]):
    """A network namespace with a cable to ours; `gateway` is where it finds us.

    Raises:
        OSError, subprocess.CalledProcessError: this machine does not let us have one.
    """

    gateway = _HERE

    def __init__(self) -> None:
        """Make it."""
        self._name = f"silent-{os.getpid()}"
        cable, end = f"si{os.getpid()}", f"so{os.getpid()}"
        _run("ip", "netns", "add", self._name)
        try:
            _run("ip", "link", "add", cable, "type", "veth", "peer", end, "netns", self._name)
            _run("ip", "addr", "add", f"{_HERE}/30", "dev", cable)
            _run("ip", "link", "set", cable, "up")
            self._there("addr", "add", f"{_THERE}/30", "dev", end)
            self._there("link", "set", end, "up")
        except BaseException:
            self.close()
            raise

    async def connected(self, port: int) -> socket.socket:
        """Return a socket of that host, connected to a port of ours."""
        with ThreadPoolExecutor(1) as pool:  # a thread that has moved there, and ends there
            end = await asyncio.get_running_loop().run_in_executor(pool, self._socket_there)
        await asyncio.get_running_loop().sock_connect(end, (self.gateway, port))
        return end

    def vanish(self) -> None:
        """From now on nothing leaves it: no acknowledgement, no end."""
        self._there("route", "add", "blackhole", f"{_HERE}/32")

    def close(self) -> None:
        """Remove it, and the cable with it."""
        _run("ip", "netns", "del", self._name)

    def __exit__(self, *_: object) -> None:
        """Remove it."""
        self.close()

    def _there(self, *words: str) -> None:
        _run("ip", "-n", self._name, *words)

    def _socket_there(self) -> socket.socket:
        libc = ctypes.CDLL(None, use_errno=True)
        with (Path("/run/netns") / self._name).open() as namespace:
            if libc.setns(namespace.fileno(), _NEW_NET):
                raise OSError(ctypes.get_errno(), "setns")
        end = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        end.setblocking(False)
        return end
