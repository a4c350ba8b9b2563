"""Servers of this machine: why one does not start, and their end."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.local_cluster.server import Server, ServerEnded
from deploy.local_cluster.waiting import until

ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys, time
from pathlib import Path
from deploy.local_cluster.keeper import Keeper
from deploy.local_cluster.server import Server

keeper, folder = Keeper(), Path(sys.argv[2])
keeper.remove(folder)
server = Server(Path(sys.argv[1]), folder, keeper)
server.start()
print(server.info("server")["process_id"], flush=True)
time.sleep(60)
"""


def test_a_server_says_why_it_does_not_start(valkey_9: Server, tmp_path: Path) -> None:
    second = Server(valkey_9._binary, tmp_path, valkey_9._keeper, port=valkey_9.port)
    with pytest.raises(ServerEnded, match="Address already in use"):
        second.start()


def test_servers_end_with_the_process_that_started_them(valkey_9: Server, tmp_path: Path) -> None:
    folder = tmp_path / "server"
    command = [sys.executable, "-c", PROGRAM, str(valkey_9._binary), str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        server_id = int(program.stdout.readline())
        assert is_there(server_id)
        program.send_signal(signal.SIGKILL)
    until(lambda: not is_there(server_id), 10, "the server has ended")
    until(lambda: not folder.exists(), 10, "its folder is removed")


def is_there(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True
