import socket
import stat
from pathlib import Path

import pytest

from headgate.app.workers.engine_socket import EngineSocket, InUse


def connect(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as worker:
        worker.connect(str(path))


def test_only_the_owner_may_connect_and_the_file_of_a_gateway_that_lives_stays(
    tmp_path: Path,
) -> None:
    first = EngineSocket(tmp_path / "data")

    assert first.path == tmp_path / "data" / "engine.sock"
    assert stat.S_IMODE(first.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(first.path.parent.stat().st_mode) == 0o700
    with pytest.raises(InUse, match="in use by another gateway"):
        EngineSocket(tmp_path / "data")
    connect(first.path)
    first.close()
    assert not first.path.exists()


def test_the_file_of_a_killed_gateway_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as before:
        before.bind(str(tmp_path / "engine.sock"))
    listening = EngineSocket(tmp_path)
    connect(listening.path)
    listening.close()


def test_a_socket_may_have_a_folder_of_its_own(tmp_path: Path) -> None:
    for directory in (tmp_path / ("x" * 120), None):  # its path is too long, or there is none
        listening = EngineSocket(directory)
        assert stat.S_IMODE(listening.path.parent.stat().st_mode) == 0o700
        listening.close()
        assert not listening.path.parent.exists()
