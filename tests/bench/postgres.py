"""PostgreSQL, and a connection to it in its own protocol, as plain as the clients of the others."""

import asyncio
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.local_cluster.server import free_ports
from tests.bench.servers import running

_USER = "postgres"
_VERSION_3 = 196_608
_ROW, _ERROR, _READY = b"D", b"E", b"Z"


def find() -> Path | None:
    """Return the folder of its programs, if it is installed; Debian puts none into the path."""
    found = shutil.which("initdb")
    folders = [] if found is None else [Path(found).resolve().parent]
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


@contextmanager
def postgres() -> Iterator[int | None]:
    """Run it with its default settings, so that each commit is synced; yields its port."""
    programs = find()
    if programs is None:
        yield None
        return
    [port] = free_ports(1)
    with tempfile.TemporaryDirectory() as folder:
        user = []
        if os.geteuid() == 0:  # it refuses to be run by root
            shutil.chown(folder, _USER, _USER)
            user = ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups"]
        data = f"{folder}/data"
        make = [*user, str(programs / "initdb"), "-D", data, "-U", _USER, "--auth=trust"]
        subprocess.run(make, check=True, stdout=subprocess.DEVNULL, cwd=folder)
        words = [str(programs / "postgres"), "-D", data, "-p", str(port), "-k", folder]
        with running([*user, *words, "-c", "synchronous_commit=on"], port):
            yield port


class Postgres:
    """A connection, on which one query is asked at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> "Postgres":
        connection = cls(*await asyncio.open_connection("127.0.0.1", port))
        words = b"user\0%b\0database\0%b\0\0" % (_USER.encode(), _USER.encode())
        connection._writer.write(struct.pack("!ii", len(words) + 8, _VERSION_3) + words)
        await connection._rows()
        return connection

    async def ask(self, query: str) -> list[list[bytes]]:
        """Return the rows of statements that are sent together."""
        text = query.encode() + b"\0"
        self._writer.write(b"Q" + struct.pack("!i", len(text) + 4) + text)
        return await self._rows()

    async def _rows(self) -> list[list[bytes]]:
        rows: list[list[bytes]] = []
        while True:
            head = await self._reader.readexactly(5)
            kind, size = head[:1], int.from_bytes(head[1:]) - 4
            body = await self._reader.readexactly(size)
            assert kind != _ERROR, body
            if kind == _ROW:
                rows.append(_columns(body))
            elif kind == _READY:
                return rows

    async def close(self) -> None:
        """Close it; the server ends only when nobody is connected any more."""
        self._writer.close()
        await self._writer.wait_closed()


def _columns(body: bytes) -> list[bytes]:
    columns, at = [], 2
    for _ in range(int.from_bytes(body[:2])):
        size = int.from_bytes(body[at : at + 4])
        columns.append(body[at + 4 : at + 4 + size])
        at += 4 + size
    return columns
