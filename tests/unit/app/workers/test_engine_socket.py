import socket
import stat
from pathlib import Path

import pytest

from headgate.app.workers.engine_socket import EngineSocket, InUse


def test_only_the_owner_may_connect(tmp_path: Path) -> None:
    listening = EngineSocket(tmp_path / "data")

    assert listening.path == tmp_path / "data" / "engine.sock"
    assert stat.S_IMODE(listening.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(listening.path.parent.stat().st_mode) == 0o700
    listening.close()
    assert not listening.path.exists()


def test_the_file_of_a_killed_gateway_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as before:
        before.bind(str(tmp_path / "engine.sock"))
    listening = EngineSocket(tmp_path)
    with socket.socket(socket.AF_UNIX) as worker:
        worker.connect(str(listening.path))
    listening.close()


def test_the_file_of_a_gateway_that_lives_stays(tmp_path: Path) -> None:
    first = EngineSocket(tmp_path)
    with pytest.raises(InUse, match="in use by another gateway"):
        EngineSocket(tmp_path)
    with socket.socket(socket.AF_UNIX) as worker:
        worker.connect(str(first.path))
    first.close()


@pytest.mark.parametrize("has_directory", [True, False])
def test_a_socket_has_a_folder_of_its_own_where_the_directory_cannot_have_it(
    tmp_path: Path, has_directory: bool
) -> None:
    listening = EngineSocket(tmp_path / ("x" * 120) if has_directory else None)

    assert stat.S_IMODE(listening.path.parent.stat().st_mode) == 0o700
    listening.close()
    assert not listening.path.parent.exists()
